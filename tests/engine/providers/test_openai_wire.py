"""Chat completions: the least is sent, and every shape of stream is heard."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engine.providers.capabilities import (
    BOUNDS,
    FOLDED_SYSTEM,
    ModelCapabilities,
    Step,
    form_in_words,
)
from engine.providers.endpoint import RequestParams
from engine.providers.model import Finish, Message, MessageRole
from engine.providers.protocols.base import (
    BrokenStreamError,
    ChatRequest,
    InStreamError,
    PromptCache,
    Tokens,
)
from engine.providers.protocols.openai import OpenAIDialect, OpenAIReplyParser, strict_schema

SYSTEM = Message(MessageRole.SYSTEM, "Be kind.")
HELLO = Message(MessageRole.USER, "Hello.")
SHAPE = {
    "title": "user turn!",
    "type": "object",
    "properties": {"mood": {"type": "string", "default": "calm"}},
}


def body(ask: ChatRequest) -> dict[str, Any]:
    return OpenAIDialect().body(ask)


def ask(**changes: Any) -> ChatRequest:
    return ChatRequest("m", (SYSTEM, HELLO), **changes)


def test_the_least_is_sent() -> None:
    assert body(ask()) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello."},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_parameters_are_sent_where_they_are_set() -> None:
    params = RequestParams(temperature=0.0, max_tokens=9, top_p=0.5, reasoning_effort="low", seed=0)
    sent = body(ask(params=params, seed=77))
    assert sent["temperature"] == 0.0
    assert (sent["max_tokens"], sent["top_p"], sent["reasoning_effort"]) == (9, 0.5, "low")
    assert sent["seed"] == 77


def test_a_seed_is_sent_only_to_a_model_that_has_one() -> None:
    assert "seed" not in body(ask(seed=77))


@pytest.mark.parametrize(
    ("first_party", "dropped", "name"),
    [
        (True, set(), "max_completion_tokens"),
        (False, set(), "max_tokens"),
        (False, {"max_tokens"}, "max_completion_tokens"),
        (True, {"max_completion_tokens"}, "max_tokens"),
        (False, {"max_tokens", "max_completion_tokens"}, None),
    ],
)
def test_the_limit_goes_by_the_name_that_the_server_takes(
    *, first_party: bool, dropped: set[str], name: str | None
) -> None:
    learned = ModelCapabilities(dropped=frozenset(dropped))
    sent = body(ask(params=RequestParams(max_tokens=9), first_party=first_party, learned=learned))
    assert [key for key in sent if key.startswith("max_")] == ([name] if name else [])


def test_what_was_refused_is_left_out() -> None:
    learned = ModelCapabilities(dropped=frozenset({"temperature", "stream_options"}))
    sent = body(ask(params=RequestParams(temperature=1.0), learned=learned))
    assert set(sent) == {"model", "messages", "stream"}


def test_messages_of_the_same_speaker_become_one() -> None:
    said = (
        SYSTEM,
        HELLO,
        Message(MessageRole.ASSISTANT, "Hi."),
        Message(MessageRole.USER, "a"),
        HELLO,
    )
    sent = body(ChatRequest("m", said))["messages"]
    assert [row["role"] for row in sent] == ["system", "user", "assistant", "user"]
    assert sent[-1]["content"] == "a\n\nHello."


def test_a_template_without_a_system_role_gets_it_with_the_first_message() -> None:
    sent = body(ask(learned=ModelCapabilities(dropped=frozenset({FOLDED_SYSTEM}))))["messages"]
    assert sent == [{"role": "user", "content": "Be kind.\n\nHello."}]


def test_a_shape_is_asked_for_strictly_then_loosely_then_in_words() -> None:
    strict = body(ask(schema=SHAPE))
    assert strict["response_format"]["json_schema"] == {
        "name": "user_turn_",
        "strict": True,
        "schema": strict_schema(SHAPE, frozenset({"default"})),
    }
    # a server holds a model to a schema and does not tell it of one
    assert strict["messages"][0]["content"].endswith(f"\n\n{form_in_words(SHAPE)}")
    loose = body(ask(schema=SHAPE, learned=ModelCapabilities(Step.JSON_OBJECT)))
    assert loose["response_format"] == {"type": "json_object"}
    words = body(ask(schema=SHAPE, learned=ModelCapabilities(Step.PROMPT)))
    assert "response_format" not in words
    for sent in (loose, words):
        assert "JSON" in sent["messages"][0]["content"]
        assert json.dumps(SHAPE) in sent["messages"][0]["content"]


def test_a_strict_schema_requires_every_key_and_no_other_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"default": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}, "one": inner},
        "required": ["rows"],
        "$defs": {"Row": {"anyOf": [inner, {"type": "null"}]}},
    }
    strict = strict_schema(schema, frozenset({"default"}))
    assert strict["required"] == ["rows", "one"]
    for found in (strict, strict["properties"]["one"], strict["$defs"]["Row"]["anyOf"][0]):
        assert found["additionalProperties"] is False
    # a property may be called what elsewhere is a word of the schema
    assert strict["properties"]["one"]["properties"] == {"default": {"type": "string"}}


BOUNDED = {
    "title": "rows",
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2},
        "turn": {"type": "integer", "minimum": 1, "maximum": 7},
    },
}


@pytest.mark.parametrize(
    ("changes", "count", "range_"),
    [
        ({"first_party": True}, 2, 7),
        ({}, 2, None),
        ({"learned": ModelCapabilities(dropped=frozenset({BOUNDS}))}, None, None),
        ({"first_party": True, "model": "ft:gpt-4o-mini:mine"}, None, None),
    ],
)
def test_counts_are_sent_until_they_are_refused_and_ranges_only_where_they_are_known_to_be_taken(
    changes: dict[str, Any], count: int | None, range_: int | None
) -> None:
    said = body(replace(ask(schema=BOUNDED), **changes))
    sent = said["response_format"]["json_schema"]["schema"]["properties"]
    assert (sent["rows"].get("minItems"), sent["turn"].get("maximum")) == (count, range_)
    assert "minLength" not in json.dumps(sent)
    assert (BOUNDS in OpenAIDialect().sent(said)) == (count is not None)


def test_a_cache_key_is_for_openai_itself() -> None:
    sent = body(ask(cache=PromptCache.LAST, first_party=True, seed=255))
    assert sent["prompt_cache_key"] == "crosswind-ff"
    assert "prompt_cache_key" not in body(ask(cache=PromptCache.LAST, seed=255))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    return json.dumps({"choices": [{"delta": delta or {}, "finish_reason": finish}], **more})


def hear(*events: str) -> tuple[OpenAIReplyParser, list[str | None]]:
    parser = OpenAIReplyParser()
    return parser, [parser.feed(event) for event in events]


def test_words_are_heard_and_the_end() -> None:
    parser, words = hear(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo."}, "stop"),
        "[DONE]",
    )
    assert words == [None, "Hel", "lo.", None]
    assert (parser.whole, parser.ended, parser.finish) == (True, True, Finish.STOP)


@pytest.mark.parametrize(("said", "tier"), [('"flex"', "flex"), ("7", None), ("null", None)])
def test_the_tier_of_service_is_what_the_server_says(said: str, tier: str | None) -> None:
    parser, _ = hear(f'{{"service_tier": {said}, "choices": []}}', chunk({"content": "Hi."}))
    assert parser.tokens.tier == tier


def test_without_an_end_a_reply_is_not_whole() -> None:
    parser, _ = hear(chunk({"content": "Hello."}))
    assert not parser.whole


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", Finish.STOP),
        ("eos", Finish.STOP),
        ("tool_calls", Finish.STOP),
        ("STOP", Finish.STOP),
        ("length", Finish.LENGTH),
        ("content_filter", Finish.CONTENT_FILTER),
        ("model_length", Finish.CONTEXT_FULL),
    ],
)
def test_reasons_to_finish(reason: str, finish: Finish) -> None:
    assert hear(chunk(finish=reason))[0].finish is finish


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_a_server_that_gave_up_has_not_finished(reason: str) -> None:
    with pytest.raises(InStreamError):
        hear(chunk(finish=reason))


def test_a_refusal_is_heard_as_what_is_said() -> None:
    parser, words = hear(chunk({"refusal": "I will not."}), chunk(finish="stop"))
    assert words[0] == "I will not."
    assert parser.finish is Finish.REFUSAL


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning": "Hm.", "content": ""},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
    ],
)
def test_thoughts_are_kept_apart(delta: dict[str, Any]) -> None:
    parser, words = hear(chunk(delta))
    assert words == [""]
    assert parser.thoughts == ["Hm."]


def test_content_in_parts_is_put_together() -> None:
    assert hear(chunk({"content": [{"type": "text", "text": "Hello."}]}))[1] == ["Hello."]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, Tokens(9, None, None, 4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "total_tokens": 13,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
            },
            Tokens(9, 6, 2, 4),
        ),
        # thoughts that are left out of the completion are billed all the same
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 33},
            Tokens(9, None, None, 24),
        ),
        ({"prompt_tokens": None, "completion_tokens": "x"}, Tokens()),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8},
            Tokens(9, 8, None, 1),
        ),
    ],
)
def test_usage_is_heard_in_a_chunk_of_its_own_or_with_the_end(
    usage: dict[str, Any], tokens: Tokens
) -> None:
    alone, _ = hear(chunk(finish="stop"), json.dumps({"choices": [], "usage": usage}))
    together, _ = hear(chunk(finish="stop", usage=usage))
    assert alone.tokens == together.tokens == tokens


@pytest.mark.parametrize(
    "number",
    [
        *("-1", "true", '"7"', "[7]", "{}", "7.5", "NaN", "Infinity", "-Infinity", "1e400"),
        *(str(10**9 + 1), str(2**62), str(2**63), "9" * 4300, "1e30"),
    ],
)
def test_usage_that_cannot_be_is_unknown(number: str) -> None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_cache_hit_tokens")
    details = f'"prompt_tokens_details": {{"cached_tokens": {number}}}'
    usage = ", ".join([*(f'"{name}": {number}' for name in names), details])
    heard, _ = hear(chunk(finish="stop"), f'{{"choices": [], "usage": {{{usage}}}}}')
    assert heard.tokens == Tokens()


def test_usage_with_a_point_counts() -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": 3.0}
    assert hear(chunk(finish="stop", usage=usage))[0].tokens == Tokens(12, None, None, 3)


def test_usage_that_is_not_sent_is_unknown() -> None:
    assert hear(chunk({"content": "x"}, "stop", usage=None))[0].tokens == Tokens()


@pytest.mark.parametrize("event", ['{"choices"', "[1]", "[" * 100_000, '{"a": ' + "9" * 4301 + "}"])
def test_what_is_no_event_breaks_the_stream(event: str) -> None:
    with pytest.raises(BrokenStreamError):
        hear(event)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [7]},
        {"choices": [{}]},
        {"choices": [{"delta": None, "finish_reason": 3}]},
        {"choices": [{"delta": {"content": None}}]},
        {"error": None, "usage": 7},
    ],
)
def test_odd_events_are_passed_over(event: object) -> None:
    parser, words = hear(json.dumps(event))
    assert words == [None]
    assert not parser.whole


@pytest.mark.parametrize(
    "event", [{"error": {"message": "x"}}, {"object": "error", "message": "x"}]
)
def test_an_error_in_the_stream_is_raised(event: object) -> None:
    with pytest.raises(InStreamError) as caught:
        hear(json.dumps(event))
    assert caught.value.failure.message == "x"
