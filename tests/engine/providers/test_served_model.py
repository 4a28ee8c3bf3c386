"""Which name of a model is another model's, and what gateways say of the way to one."""

from __future__ import annotations

import pytest

from engine.providers.protocols.anthropic import AnthropicReplyParser
from engine.providers.protocols.openai import OpenAIReplyParser
from engine.providers.served_model import (
    LONGEST_NAME,
    MOST_NAMES,
    ExpectedModel,
    ServedNames,
    other_of,
    route_of,
)
from tests.approval import approve
from tests.waiting import assert_quick

SAME = [
    ("gpt-4o-mini", "gpt-4o-mini"),
    ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
    ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
    ("gpt-4", "gpt-4-0613"),
    ("claude-x", "claude-x-20250101"),
    ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
    ("claude-3-5-sonnet", "claude-3-5-sonnet@20240620"),
    ("anthropic/claude-3.5-sonnet", "claude-3-5-sonnet-20240620"),
    ("claude-3-haiku", "us.anthropic.claude-3-haiku-20240307-v1:0"),
    ("gemini-1.5-flash", "models/gemini-1.5-flash-002"),
    ("gemini-2.5-pro-preview", "gemini-2.5-pro-preview-05-06"),
    ("mistral-large-latest", "mistral-large-2411"),
    ("command-r", "command-r-08-2024"),
    ("openai/gpt-4o-mini", "gpt-4o-mini"),
    ("gpt-4o", "azure/gpt-4o-2024-08-06"),
    ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/llama-3.1-8b-instruct"),
    ("/models/qwen3/", "qwen3"),
    ("qwen3", "/srv/models/qwen3.gguf"),
    ("llama3", "llama3:latest"),
    ("/models/qwen3", "/models/qwen3@main"),
    ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    ("llama3.1:8b", "llama3.1:8b"),
]
OTHER = [
    ("mock-alpha", "mock-beta"),
    ("gpt-4o", "gpt-4o-mini"),
    ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
    ("gpt-4", "gpt-4.1"),
    ("gpt-4", "gpt-4-turbo"),
    ("llama3:8b", "llama3:70b"),
    ("claude-3-5-sonnet", "claude-3-5-haiku-20241022"),
    ("deepseek-chat", "deepseek-reasoner"),
    ("qwen3@0a1b2c3", "qwen3@9f8e7d6"),
    ("qwen3", ""),
]


@pytest.mark.parametrize(("asked", "served"), SAME)
def test_a_snapshot_a_prefix_and_another_spelling_are_the_same_model(
    asked: str, served: str
) -> None:
    assert not ExpectedModel(asked).is_other(served)
    assert not ExpectedModel("elsewhere", also=("x", asked)).is_other(served)


@pytest.mark.parametrize(("asked", "served"), OTHER)
def test_another_name_or_another_date_is_another_model(asked: str, served: str) -> None:
    assert ExpectedModel(asked).is_other(served)


@pytest.mark.parametrize("piece", ["-2024", "us.", "/", ":latest", "-", "a", "2024-01-01-"])
def test_the_longest_name_takes_no_time(piece: str) -> None:
    served = (piece * (1_000_000 // len(piece)))[:1_000_000]
    assert_quick(lambda: ExpectedModel("gpt").is_other(served), 0.05)
    assert_quick(lambda: ServedNames().add(served), 0.05)


def test_of_the_names_in_a_stream_each_is_kept_once_and_few_of_them() -> None:
    named = ServedNames()
    for name in ("", "alpha", "alpha", "beta", None, 7, "alpha", "x" * 10_000, "gamma", "delta"):
        named.add(name)
    assert named.models[:2] == ["alpha", "beta"]
    assert len(named.models) == MOST_NAMES
    assert max(map(len, named.models)) == LONGEST_NAME


def test_a_change_in_the_midst_of_a_reply_is_another_models() -> None:
    assert other_of(ExpectedModel("alpha"), ["alpha-2024-01-01", "beta"], route_of({})) == "beta"


def test_a_fallback_is_one_whatever_it_is_called_unless_it_is_meant() -> None:
    route = route_of({"x-litellm-attempted-fallbacks": "1"})
    approve(other_of(ExpectedModel("alpha"), ["alpha"], route))
    approve(other_of(ExpectedModel("alpha"), [], route))
    assert other_of(ExpectedModel("alpha", also=("beta",)), ["beta"], route) is None
    assert other_of(ExpectedModel("alpha"), ["alpha"], route_of({})) is None


@pytest.mark.parametrize("nonsense", ["", "0", "-1", "one", "²", "9" * 5_000, "1.5"])
def test_a_number_of_fallbacks_that_is_none_says_nothing(nonsense: str) -> None:
    assert route_of({"x-litellm-attempted-fallbacks": nonsense}).fallbacks == 0


def test_what_a_gateway_says_of_the_way_is_kept() -> None:
    headers = {
        "x-litellm-attempted-fallbacks": "2",
        "x-litellm-model-id": "a1b2",
        "x-litellm-response-cost": "0.00125",
    }
    route = route_of(headers)
    approve(route.words("DeepInfra"))
    assert route.cost_usd == 0.00125
    assert route_of({}).words(None) is None


@pytest.mark.parametrize("nonsense", ["", "nan", "inf", "-1", "1e10", "free", "9" * 400])
def test_a_cost_in_a_header_that_is_none_says_nothing(nonsense: str) -> None:
    assert route_of({"x-litellm-response-cost": nonsense}).cost_usd is None


def heard(*events: str) -> OpenAIReplyParser:
    parser = OpenAIReplyParser()
    for event in events:
        parser.feed(event)
    return parser


def test_both_protocols_name_the_model() -> None:
    parser = heard('{"model": "beta", "provider": "Azure", "choices": [{}]}')
    assert (parser.named.models, parser.provider) == (["beta"], "Azure")
    other = AnthropicReplyParser()
    other.feed('{"type": "message_start", "message": {"model": "beta", "usage": {}}}')
    assert other.named.models == ["beta"]


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ('{"cost": 0.0042}', 0.0042),
        ('{"cost": 0}', 0.0),
        ('{"cost": {"total_cost": 0.006}}', 0.006),
        ('{"estimated_cost": 0.001}', 0.001),
        (
            '{"cost": 0.01, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.2}}',
            0.21,
        ),
        ('{"cost": 0.01, "cost_details": {"upstream_inference_cost": 0.2}}', 0.01),
        ('{"cost": -1}', None),
        ('{"cost": NaN}', None),
        ('{"cost": 1e308}', None),
        ('{"cost": 123456789012345678901234567890}', None),
        ('{"cost": true}', None),
        ('{"cost": "0.1"}', None),
        ("{}", None),
    ],
)
def test_the_cost_that_a_stream_tells_is_taken_where_it_can_be_one(
    usage: str, cost: float | None
) -> None:
    tokens = heard(f'{{"choices": [], "usage": {usage}}}').tokens
    assert tokens.cost_usd == pytest.approx(cost)
