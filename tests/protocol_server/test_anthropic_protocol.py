"""The Anthropic protocol, as the official client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.late import anthropic
from tests.protocol_server.faults import Detail, Fault
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

HELLO: Any = [{"role": "user", "content": "hello there, server"}]
OLD: Any = {"anthropic-version": "2023-06-01"}


class UserTurn(BaseModel):
    model_config = ConfigDict(extra="forbid", title="user_turn")

    thought: str
    message: str
    done: bool


def ask(client: anthropic.Anthropic, **more: Any) -> anthropic.types.Message:
    asked = {"model": "echo", "max_tokens": 100, "messages": HELLO, **more}
    message: anthropic.types.Message = client.messages.create(**asked)
    return message


def events_of(client: anthropic.Anthropic, **more: Any) -> list[Any]:
    asked = {"model": "echo", "max_tokens": 100, "messages": HELLO, **more}
    with client.messages.create(stream=True, **asked) as stream:
        return list(stream)


def said(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.mark.exhaustive
def test_a_whole_answer_has_text_stop_reason_and_usage(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    message = ask(anthropic_client)
    assert said(message) == "hello there, server"
    assert message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 3)
    assert server.requests[-1].headers["authorization"] == "Bearer test-key"
    assert server.requests[-1].headers["anthropic-version"] == "2026-10-21"


def test_a_stream_has_every_event_in_its_place(anthropic_client: anthropic.Anthropic) -> None:
    events = events_of(anthropic_client)
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [event.delta.text for event in events[2:5]] == ["hello", " there,", " server"]
    assert events[0].message.usage.input_tokens == 3
    assert events[0].message.stop_reason is None
    assert events[-2].delta.stop_reason == "end_turn"
    assert events[-2].usage.output_tokens == 3


def test_the_clients_own_helper_puts_a_stream_together(
    anthropic_client: anthropic.Anthropic,
) -> None:
    with anthropic_client.messages.stream(
        model="words-3", max_tokens=100, messages=HELLO
    ) as stream:
        final = stream.get_final_message()
    assert said(final) == "one word and"
    assert final.usage.output_tokens == 3


def test_an_empty_answer_has_no_block(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.EMPTY_TEXT)
    kinds = [event.type for event in events_of(anthropic_client)]
    assert kinds == ["message_start", "message_delta", "message_stop"]
    assert ask(anthropic_client).content == []


def test_the_system_prompt_and_merged_messages_reach_the_model(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    ask(anthropic_client, system=[{"type": "text", "text": "Be kind."}], messages=[*HELLO, *HELLO])
    assert [str(m.role) for m in server.requests[-1].messages] == ["system", "user", "user"]
    assert server.requests[-1].messages[0].text == "Be kind."


def test_only_what_was_marked_is_cached_and_it_is_no_part_of_the_input(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.settings = Settings(cache_minimum=1)
    block = {"type": "text", "text": "one two", "cache_control": {"type": "ephemeral"}}
    marked = [{"role": "user", "content": [block]}, *HELLO]
    counts = []
    for _ in range(2):
        usage = ask(anthropic_client, messages=marked).usage
        counts.append(
            (
                usage.input_tokens,
                usage.cache_creation_input_tokens,
                usage.cache_read_input_tokens,
            )
        )
    assert counts == [(3, 2, 0), (3, 0, 2)]
    assert ask(anthropic_client).usage.cache_creation_input_tokens == 0


@pytest.mark.parametrize("model", ["user", "echo"])
def test_structured_output_has_the_shape_that_was_asked_for(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic, model: str
) -> None:
    message = anthropic_client.messages.parse(
        model=model, max_tokens=500, messages=HELLO, output_format=UserTurn
    )
    assert isinstance(message.parsed_output, UserTurn)
    assert server.requests[-1].role.value == "user"


def test_a_limit_on_tokens_cuts_the_answer(anthropic_client: anthropic.Anthropic) -> None:
    message = ask(anthropic_client, model="words-9", max_tokens=2)
    assert (said(message), message.stop_reason) == ("one word", "max_tokens")


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
def test_sampling_is_refused_by_the_new_version_and_taken_by_the_old(
    anthropic_client: anthropic.Anthropic, name: str
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=name):
        ask(anthropic_client, extra_body={name: 1})
    assert ask(anthropic_client, extra_body={name: 1}, extra_headers=OLD).stop_reason == "end_turn"


def bodies_that_are_refused() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"messages": []}, "at least one message"
    yield {"messages": [{"role": "user", "content": ""}]}, "non-empty content"
    yield {"messages": [{"role": "user", "content": " "}]}, "non-whitespace"
    yield {"messages": [{"role": "assistant", "content": "x"}, *HELLO]}, "first message"
    yield {"messages": [*HELLO, {"role": "assistant", "content": "x"}]}, "end with a user message"
    yield {"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"
    yield {"max_tokens": 0}, "greater than or equal to 1"
    yield {"extra_body": {"seed": 1}}, "seed: Extra inputs"
    loose = {"type": "object", "properties": {}}
    asked = {"format": {"type": "json_schema", "schema": loose}}
    yield {"output_config": asked}, "additionalProperties"
    bounded = {"format": {"type": "json_schema", "schema": {"type": "integer", "minimum": 1}}}
    yield {"output_config": bounded}, "minimum"


@pytest.mark.parametrize(("body", "said_of_it"), bodies_that_are_refused())
def test_a_request_that_the_real_server_refuses_gets_400(
    anthropic_client: anthropic.Anthropic, body: dict[str, Any], said_of_it: str
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=said_of_it) as caught:
        ask(anthropic_client, **body)
    assert caught.value.type == "invalid_request_error"


def test_a_missing_version_is_a_400(server: ProtocolServer, anthropic_client: Any) -> None:
    with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
        ask(anthropic_client, extra_headers={"anthropic-version": anthropic.omit})


def test_either_way_of_sending_the_key_is_let_in(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.settings = Settings(key="right-key")
    with pytest.raises(anthropic.AuthenticationError):
        ask(anthropic_client)
    by_header: Any = {"Authorization": anthropic.omit, "x-api-key": "right-key"}
    assert ask(anthropic_client, extra_headers=by_header).stop_reason == "end_turn"


def test_an_unknown_model_gets_404_in_the_shape_of_the_real_one(
    anthropic_client: anthropic.Anthropic,
) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        ask(anthropic_client, model="nobody")
    assert (caught.value.type, caught.value.api_message) == ("not_found_error", "model: nobody")
    assert caught.value.request_id == "req_000001"


def test_the_models_are_listed(anthropic_client: anthropic.Anthropic) -> None:
    assert "steadfast" in {model.id for model in anthropic_client.models.list()}
    assert anthropic_client.models.retrieve("echo").display_name == "echo"


def test_a_refusal_names_its_category(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.REFUSAL)
    message = ask(anthropic_client)
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.category == "general_harms"
    assert events_of(anthropic_client)[-2].delta.stop_reason == "refusal"


def test_a_full_context_is_a_way_to_end(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.CONTEXT_FULL)
    assert ask(anthropic_client).stop_reason == "model_context_window_exceeded"


def test_a_model_without_output_formats_or_a_parameter_says_so(
    server: ProtocolServer, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.REJECTS_JSON_SCHEMA)
    server.plan(Fault.REJECTS_PARAMETER, detail=Detail(parameter="metadata"))
    with pytest.raises(anthropic.BadRequestError, match="output_config"):
        anthropic_client.messages.parse(
            model="user", max_tokens=500, messages=HELLO, output_format=UserTurn
        )
    with pytest.raises(anthropic.BadRequestError, match="metadata"):
        ask(anthropic_client, metadata={"user_id": "x"})
    assert ask(anthropic_client).stop_reason == "end_turn"
