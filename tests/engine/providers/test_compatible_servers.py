"""What OpenRouter and Ollama are known to send over OpenAI's protocol; written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.providers.attempts import classify, describe
from engine.providers.exchange import CallResult
from engine.providers.failures import FailureKind
from engine.providers.model import Finish
from tests.engine.providers.test_exchange import Recorded, outcome

COMMENT = b": OPENROUTER PROCESSING\n\n"


def stream(*events: dict[str, Any]) -> list[bytes]:
    return [b"data: %b\n\n" % json.dumps(event).encode() for event in events]


def routed(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An event of OpenRouter's."""
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": "", **delta},
        "finish_reason": finish,
        "native_finish_reason": finish,
        "logprobs": None,
    }
    head = {"id": "gen-1", "provider": "DeepInfra", "model": "meta-llama/llama-4", "created": 1}
    return {**head, "object": "chat.completion.chunk", "choices": [choice], **more}


def local(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An event of Ollama's."""
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3"}
    return {**head, "system_fingerprint": "fp_ollama", "choices": [choice], **more}


def refused(status: int, body: dict[str, Any]) -> CallResult:
    line = Recorded([json.dumps(body).encode()], status=status, kind="application/json")
    return outcome(line)


def kind_of(result: CallResult) -> FailureKind:
    assert result.failure is not None
    return classify(result.failure)


def test_a_reply_of_openrouter_is_heard_between_its_comments_with_thoughts_route_and_cost() -> None:
    usage = {
        "prompt_tokens": 194,
        "completion_tokens": 2,
        "total_tokens": 196,
        "cost": 0.0095,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 0},
        "cost_details": {"upstream_inference_cost": None},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    thought = {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}
    events = stream(
        routed(thought),
        routed({"content": "Hello, "}),
        routed({"content": "you."}),
        routed({}, "stop"),
        routed({}, usage=usage),
    )
    pieces = [COMMENT * 3, *(piece for event in events for piece in (event, COMMENT))]
    result = outcome(Recorded([*pieces, b"data: [DONE]\n\n"]))
    assert (result.text, result.reasoning, result.failure) == ("Hello, you.", "Hm.", None)
    assert (result.finish, result.served) == (Finish.STOP, "meta-llama/llama-4")
    tokens = result.parser.tokens
    assert (tokens.input, tokens.cached, tokens.output, tokens.cost_usd) == (194, 5, 2, 0.0095)
    assert result.parser.provider == "DeepInfra"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            {"code": "server_error", "message": "Provider disconnected unexpectedly"},
            FailureKind.TRANSIENT,
        ),
        ({"code": 502, "message": "Provider returned error"}, FailureKind.SERVER_FAILED),
        ({"code": 429, "message": "Rate limit exceeded"}, FailureKind.RATE_LIMITED),
        ({"code": 402, "message": "Insufficient credits"}, FailureKind.FATAL_TARGET),
        (
            {
                "code": 403,
                "message": "Your input was flagged",
                "metadata": {"reasons": ["violence"], "flagged_input": "...", "provider_name": "x"},
            },
            FailureKind.FILTERED,
        ),
    ],
    ids=lambda one: str(one.get("code")) if isinstance(one, dict) else "",
)
def test_an_error_of_openrouter_within_a_stream_is_what_it_says(
    error: dict[str, Any], kind: FailureKind
) -> None:
    """It has an `error` beside choices, of which the reason to finish is `error`."""
    events = stream(routed({"content": "Hel"}), routed({}, "error", error=error))
    result = outcome(Recorded([COMMENT, *events]))
    assert kind_of(result) is kind
    assert result.failure is not None
    assert error["message"] in describe(result.failure)


def test_comments_alone_are_no_reply() -> None:
    assert kind_of(outcome(Recorded([COMMENT * 9]))) is FailureKind.TRANSIENT


def test_a_refusal_of_openrouter_names_what_is_missing() -> None:
    error = {"message": "No endpoints found that support the provided parameters", "code": 404}
    assert kind_of(refused(404, {"error": error})) is FailureKind.FATAL_TARGET
    error = {"message": "openai/gpt-0 is not a valid model ID", "code": 400}
    assert kind_of(refused(400, {"error": error})) is FailureKind.FATAL_TARGET


def test_a_reply_of_ollama_is_heard_with_its_thoughts() -> None:
    usage = {"prompt_tokens": 26, "completion_tokens": 4, "total_tokens": 30}
    events = stream(
        local({"content": "", "reasoning": "Hm."}),
        local({"content": "Hello."}),
        local({"content": ""}, "stop"),
        {**local({}), "choices": [], "usage": usage},
    )
    result = outcome(Recorded([*events, b"data: [DONE]\n\n"]))
    assert (result.text, result.reasoning, result.failure) == ("Hello.", "Hm.", None)
    assert (result.parser.tokens.input, result.parser.tokens.output) == (26, 4)


def test_a_reply_of_ollama_that_its_runner_leaves_is_not_whole() -> None:
    """The error comes in Ollama's own form, which becomes an event without words and an end."""
    for end in ([], [b"data: [DONE]\n\n"], stream({"error": "an error was encountered"})):
        result = outcome(Recorded([*stream(local({"content": "Hel"})), *end]))
        assert kind_of(result) is FailureKind.TRANSIENT


def test_refusals_of_ollama_are_what_they_say() -> None:
    missing = {"message": "model 'qwen9' not found", "type": "not_found_error", "code": None}
    assert kind_of(refused(404, {"error": missing})) is FailureKind.FATAL_TARGET
    memory = {"message": "model requires more system memory (9 GiB) than is available (4 GiB)"}
    full = refused(500, {"error": {**memory, "type": "api_error", "param": None, "code": None}})
    assert kind_of(full) is FailureKind.SERVER_FAILED
    busy = {"message": "server busy, please try again.  maximum pending requests exceeded"}
    assert (
        kind_of(refused(503, {"error": {**busy, "type": "api_error"}})) is FailureKind.SERVER_FAILED
    )
