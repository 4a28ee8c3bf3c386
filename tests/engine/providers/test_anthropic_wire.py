"""Messages: the least is sent, caches are marked where it pays, and streams are heard."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.providers.capabilities import ModelCapabilities, Step
from engine.providers.endpoint import RequestParams
from engine.providers.model import Finish, Message, MessageRole
from engine.providers.protocols.anthropic import (
    LIMIT_UNASKED,
    PAYS_FROM,
    VERSION,
    VERSION_WITH_SAMPLING,
    AnthropicDialect,
    AnthropicReplyParser,
    plain_schema,
)
from engine.providers.protocols.base import ChatRequest, InStreamError, PromptCache, Tokens

SYSTEM = Message(MessageRole.SYSTEM, "Be kind.")
HELLO = Message(MessageRole.USER, "Hello.")
LONG = "x" * PAYS_FROM
SHAPE = {"title": "t", "type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
DIALECT = AnthropicDialect()


def ask(**changes: Any) -> ChatRequest:
    return ChatRequest("m", (SYSTEM, HELLO), **changes)


def test_the_least_is_sent() -> None:
    assert DIALECT.body(ask()) == {
        "model": "m",
        "max_tokens": LIMIT_UNASKED,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "Hello."}],
        "stream": True,
    }
    assert DIALECT.headers(ask()) == {"anthropic-version": VERSION}


def test_sampling_is_asked_for_in_the_version_that_takes_it() -> None:
    warm = ask(params=RequestParams(temperature=0.0, max_tokens=5))
    assert DIALECT.headers(warm) == {"anthropic-version": VERSION_WITH_SAMPLING}
    assert (DIALECT.body(warm)["temperature"], DIALECT.body(warm)["max_tokens"]) == (0.0, 5)
    cold = ask(
        params=RequestParams(temperature=0.0),
        learned=ModelCapabilities(dropped=frozenset({"temperature"})),
    )
    assert DIALECT.headers(cold) == {"anthropic-version": VERSION}
    assert "temperature" not in DIALECT.body(cold)


def test_a_seed_is_never_sent() -> None:
    assert "seed" not in DIALECT.body(ask(params=RequestParams(seed=1), seed=7))


def test_shape_and_effort_go_into_one_place() -> None:
    both = ask(schema=SHAPE, params=RequestParams(reasoning_effort="low"))
    config = DIALECT.body(both)["output_config"]
    assert config == {
        "format": {"type": "json_schema", "schema": plain_schema(SHAPE)},
        "effort": "low",
    }
    assert "reasoning_effort" in DIALECT.sent(DIALECT.body(both))


def test_in_words_the_shape_goes_into_the_system_prompt() -> None:
    sent = DIALECT.body(ask(schema=SHAPE, learned=ModelCapabilities(Step.PROMPT)))
    assert "output_config" not in sent
    assert json.dumps(SHAPE) in sent["system"]


def test_bounds_that_the_server_refuses_are_told_in_words() -> None:
    plain = plain_schema(SHAPE)
    assert plain["additionalProperties"] is False
    assert plain["properties"]["a"] == {"type": "integer", "description": "(minimum: 1)"}


def test_anthropic_itself_takes_that_a_list_is_not_empty_and_others_any_count() -> None:
    rows = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    one = {"title": "t", "type": "object", "properties": {"rows": rows}}
    three = {"title": "t", "type": "object", "properties": {"rows": {**rows, "minItems": 3}}}
    sent = [
        DIALECT.body(ask(schema=schema, first_party=own))["output_config"]["format"]["schema"]
        for schema, own in ((one, True), (three, False), (three, True))
    ]
    found = [schema["properties"]["rows"] for schema in sent]
    assert [row.get("minItems") for row in found] == [1, 3, None]
    assert [row.get("description") for row in found] == [None, None, "(minItems: 3)"]


def test_empty_messages_are_left_out_and_their_neighbours_put_together() -> None:
    said = (HELLO, Message(MessageRole.ASSISTANT, " "), Message(MessageRole.USER, "Still there?"))
    assert DIALECT.body(ChatRequest("m", said))["messages"] == [
        {"role": "user", "content": "Hello.\n\nStill there?"}
    ]


def marked(body: dict[str, Any]) -> list[str]:
    """The texts up to which the provider is to keep the request."""
    blocks = [
        b for row in body["messages"] if isinstance(row["content"], list) for b in row["content"]
    ]
    return [block["text"] for block in blocks if "cache_control" in block]


def test_a_target_s_request_is_kept_whole() -> None:
    said = (SYSTEM, Message(MessageRole.USER, LONG), Message(MessageRole.ASSISTANT, "a"), HELLO)
    assert marked(DIALECT.body(ChatRequest("m", said, cache=PromptCache.LAST))) == ["Hello."]


def test_a_user_model_s_request_is_kept_up_to_the_words_for_this_turn() -> None:
    history = (
        SYSTEM,
        HELLO,
        Message(MessageRole.ASSISTANT, LONG),
        Message(MessageRole.USER, "reply 1"),
    )
    now = Message(MessageRole.USER, "It is turn 2.")
    body = DIALECT.body(ChatRequest("m", (*history, now), cache=PromptCache.HISTORY))
    assert marked(body) == ["reply 1"]
    assert body["messages"][-1]["content"][1] == {"type": "text", "text": "\n\nIt is turn 2."}
    # what is kept comes again, letter by letter, at the beginning of the next request
    more = (
        *history,
        Message(MessageRole.ASSISTANT, "b"),
        Message(MessageRole.USER, "reply 2"),
        now,
    )
    later = DIALECT.body(ChatRequest("m", more, cache=PromptCache.HISTORY))
    assert later["messages"][2] == {"role": "user", "content": "reply 1"}
    assert marked(later) == ["reply 2"]


@pytest.mark.parametrize("cache", [PromptCache.LAST, PromptCache.HISTORY, None])
def test_what_is_short_or_not_wanted_is_not_marked(cache: PromptCache | None) -> None:
    assert marked(DIALECT.body(ask(cache=cache))) == []
    long = (SYSTEM, Message(MessageRole.USER, LONG), HELLO)
    refused = ModelCapabilities(dropped=frozenset({"cache_control"}))
    assert marked(DIALECT.body(ChatRequest("m", long, cache=cache, learned=refused))) == []


def test_a_lone_message_has_no_history_to_keep() -> None:
    said = (SYSTEM, Message(MessageRole.USER, LONG))
    assert marked(DIALECT.body(ChatRequest("m", said, cache=PromptCache.HISTORY))) == []


def hear(*events: dict[str, Any]) -> tuple[AnthropicReplyParser, list[str | None]]:
    parser = AnthropicReplyParser()
    return parser, [parser.feed(json.dumps(event)) for event in events]


START = {
    "type": "message_start",
    "message": {
        "usage": {
            "input_tokens": 3,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 5,
            "output_tokens": 1,
        }
    },
}
STOP = {"type": "message_stop"}


def text(words: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": words}}


def end(reason: str | None, output: int = 9) -> dict[str, Any]:
    usage = {"output_tokens": output}
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def test_words_are_heard_and_pings_are_not() -> None:
    block = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
    parser, words = hear(START, block, {"type": "ping"}, text("Hi."), end("end_turn"), STOP)
    assert words == [None, None, None, "Hi.", "", None]
    assert (parser.whole, parser.finish) == (True, Finish.STOP)
    assert parser.tokens == Tokens(input=48, cached=40, cache_written=5, output=9)


@pytest.mark.parametrize(
    "events",
    [[START, text("x")], [START, text("x"), end(None)]],
)
def test_without_a_sign_of_the_end_a_reply_is_not_whole(events: list[dict[str, Any]]) -> None:
    assert not hear(*events)[0].whole


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("refusal", Finish.REFUSAL),
        ("model_context_window_exceeded", Finish.CONTEXT_FULL),
    ],
)
def test_reasons_to_stop(reason: str, finish: Finish) -> None:
    assert hear(end(reason))[0].finish is finish


def test_thoughts_are_kept_apart() -> None:
    delta = {"type": "thinking_delta", "thinking": "Hm."}
    parser, words = hear({"type": "content_block_delta", "delta": delta})
    assert (words, parser.thoughts) == ([""], ["Hm."])


def test_usage_that_is_not_sent_is_unknown() -> None:
    parser, _ = hear({"type": "message_start", "message": {}}, {"type": "message_delta"})
    assert parser.tokens == Tokens()


def test_an_error_in_the_stream_is_raised() -> None:
    with pytest.raises(InStreamError) as caught:
        hear({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert caught.value.failure.type == "overloaded_error"


@pytest.mark.parametrize(
    "event",
    [{}, {"type": "new"}, {"type": "message_start"}, {"type": "content_block_delta", "delta": 7}],
)
def test_odd_events_are_passed_over(event: dict[str, Any]) -> None:
    parser, words = hear(event)
    assert words == [None]
    assert not parser.whole
