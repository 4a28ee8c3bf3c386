"""What a refusal teaches, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from engine.providers.capabilities import (
    BOUNDS,
    ModelCapabilities,
    Step,
    TokenLimits,
    adaptation_from,
    form_in_words,
    refused_setting,
    room_in,
)
from engine.providers.failures import Cause, Failure
from engine.stages.answers import schema_of
from engine.stages.evaluate import judgement_schema
from engine.stages.generate import GeneratedMetrics, GeneratedScenarios
from tests.approval import approve

ALL = (Step.JSON_SCHEMA, Step.JSON_OBJECT, Step.PROMPT)
SENT = frozenset(
    {"model", "messages", "system", "temperature", "max_tokens", "seed", "stream_options", BOUNDS}
)


NO_FORM: Final = "'response_format' of type 'json_schema' is not supported"
NO_COUNTS: Final = "Invalid schema for response_format: 'minItems' is not permitted."
NO_ROUTE: Final = "No endpoints found that support the provided 'parameters'"
BROKEN: Final = (
    "[{'loc': ('body', 'response_format'), 'input': {'temperature': 1, 'max_tokens': 9}}]"
)
UNSHAPED: Final = SENT - {BOUNDS}
REFUSALS: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    # a refused parameter
    ("Unsupported parameter: 'temperature' is not supported", {"param": "temperature"}),
    ("temperature: this parameter is not supported with this model", {}),
    ("'max_tokens' is not supported. Use 'max_completion_tokens'.", {"param": "max_tokens"}),
    ("body.seed: Extra inputs are not permitted", {}),
    ("Unknown parameter: 'stream_options.include_usage'", {}),
    ("nope", {"param": "stream_options.include_usage"}),
    ("System role not supported", {}),
    # a refused value, or a name that was not sent
    ("temperature must be between 0 and 2", {}),
    ("max_tokens is too large: the maximum is 4096", {}),
    ("'temperature' does not support 0.5. Only the default (1) value is supported.", {}),
    ("`temperature` may only be set to 1 when thinking is enabled.", {}),
    ("o9 models don't support temperature=0.5. Only temperature=1 is supported.", {}),
    ("Unsupported parameter: 'top_k'", {}),
    ("the temperature_scale is unknown", {}),
    ("something else", {}),
    # a refused form, asked for again and again
    (NO_FORM, {"shaped": True}),
    (NO_FORM, {"shaped": True, "steps": (Step.JSON_SCHEMA, Step.PROMPT)}),
    (NO_COUNTS, {"shaped": True, "sent": SENT, "param": "response_format"}),
    ("Bad request", {"shaped": True, "sent": SENT}),
    ("Bad request", {"shaped": True}),
    ("Bad request", {}),
    (NO_ROUTE, {"shaped": True, "status": 404}),
    (BROKEN, {"shaped": True, "status": 500}),
    (BROKEN, {"shaped": True, "status": 503}),
    (BROKEN, {"status": 500}),
    ("it broke", {"shaped": True, "status": 500}),
    # other failures
    *(
        ("temperature is not supported", {"shaped": True, "status": status})
        for status in (401, 404, 429, 500)
    ),
)


def test_each_refusal_teaches_until_it_teaches_nothing_more() -> None:
    lines = []
    for message, more in REFUSALS:
        about = {
            "status": 400,
            "param": "",
            "sent": UNSHAPED,
            "steps": ALL,
            "shaped": False,
            **more,
        }
        failure = Failure(Cause.STATUS, message, about.pop("status"), param=about.pop("param"))
        lines.append(f"{failure.status} {message}" + f" ({failure.param})" * bool(failure.param))
        learned = ModelCapabilities()
        while found := adaptation_from(failure, learned, **about):
            lines.append(f"  {found.note}" + " (a guess)" * (not found.certain))
            learned = found.learned
    approve("\n".join(lines))


@pytest.mark.parametrize(
    ("message", "param", "name"),
    [
        ("Unexpected keys in the request: {'top_k'}", "", "top_k"),
        ("body.provider Extra inputs are not permitted", "", "provider"),
        ("Unknown parameter: 'provider'.", "provider", "provider"),
        ("nope", "provider.order", "provider"),
        ("top_k must be -1 (disable), or at least 1, got 0.", "", "top_k"),
        ("temperature must be between 0 and 2", "", "temperature"),
        (
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the "
            "default (1) value is supported.",
            "",
            "temperature",
        ),
        ("`temperature` may only be set to 1 when thinking is enabled.", "", "temperature"),
        ("o9 don't support temperature=0.5. Only temperature=1 is supported.", "", "temperature"),
        ("output_config.effort: Input should be 'low' or 'high'", "", "reasoning_effort"),
        ("Unsupported value: 'minimal' is no `reasoning_effort` here", "", "reasoning_effort"),
        ("Unsupported: the provider is unknown", "", None),
        ("Provider returned error: unknown", "", None),
        ("top_k", "", None),
        ("Unknown parameter: 'min_p'", "min_p", None),
    ],
)
def test_a_setting_of_the_configuration_is_refused_by_its_name(
    message: str, param: str, name: str | None
) -> None:
    settings = ("top_k", "provider", "temperature", "reasoning_effort")
    for status in (400, 422):
        assert refused_setting(Failure(Cause.STATUS, message, status, param=param), settings) == (
            name
        )
    assert refused_setting(Failure(Cause.STATUS, message, 500, param=param), settings) is None


def test_the_form_in_words_names_every_field_and_its_kind() -> None:
    approve(form_in_words(schema_of(GeneratedScenarios)))
    approve(form_in_words(schema_of(GeneratedMetrics)))
    approve(form_in_words(judgement_schema(1)))


def test_what_two_calls_learned_adds_up() -> None:
    both = ModelCapabilities(Step.JSON_OBJECT, frozenset({"seed"})) | ModelCapabilities(
        dropped=frozenset({"top_p"})
    )
    assert both == ModelCapabilities(Step.JSON_OBJECT, frozenset({"seed", "top_p"}))


@pytest.mark.parametrize(
    ("message", "room"),
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum"
            " context length is 2048 tokens and your request has 30 input tokens"
            " (8192 > 2048 - 30).",
            TokenLimits(2018, 1024, 2048),
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 8222 tokens"
            " (30 in the messages, 8192 in the completion). Please reduce the length.",
            TokenLimits(2018, 1024, 2048),
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 8192 output"
            " tokens and your prompt contains at least 1 input tokens, in all at least 8193",
            TokenLimits(1024, 1024, 2048),
        ),
        ("Requested tokens (8222) exceed context window of 2048", TokenLimits(1024, 1024, 2048)),
        (
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease",
            TokenLimits(1000, 100000, 200000),
        ),
        (
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for x",
            TokenLimits(4096, 4096, None),
        ),
        (
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
            TokenLimits(4096, 4096, None),
        ),
        ("max_tokens must be less than or equal to `4096`", TokenLimits(4096, 4096, None)),
        ("temperature must be at most 2", None),
        ("the prompt is too long", None),
        ("context length is " + "9" * 5000, None),
        ("", None),
    ],
)
def test_the_room_for_a_reply_is_read_from_a_refusal(
    message: str, room: TokenLimits | None
) -> None:
    assert room_in(message) == room
