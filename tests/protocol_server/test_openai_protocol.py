"""The OpenAI protocol, as the official client sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ConfigDict

from tests.late import openai
from tests.protocol_server.faults import Detail, Fault
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

HELLO: Any = [{"role": "user", "content": "hello there, server"}]


class Judgement(BaseModel):
    model_config = ConfigDict(extra="forbid", title="judgement")

    evidence: list[str]
    reasoning: str
    present: bool


def chunks_of(client: openai.OpenAI, **more: Any) -> Sequence[ChatCompletionChunk]:
    asked = {"model": "echo", "messages": HELLO, **more}
    with client.chat.completions.create(stream=True, **asked) as stream:
        return list(stream)


def texts(chunks: Sequence[ChatCompletionChunk]) -> list[str]:
    return [c.choices[0].delta.content or "" for c in chunks if c.choices]


def test_a_whole_answer_has_text_finish_and_usage(openai_client: openai.OpenAI) -> None:
    completion = openai_client.chat.completions.create(model="echo", messages=HELLO)
    assert completion.choices[0].message.content == "hello there, server"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (3, 3)


def test_a_stream_brings_one_word_each_and_ends_with_its_finish(
    openai_client: openai.OpenAI,
) -> None:
    chunks = chunks_of(openai_client)
    assert texts(chunks) == ["", "hello", " there,", " server", ""]
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, None, None, "stop"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.usage is None for c in chunks)
    assert len({c.id for c in chunks}) == 1


def test_usage_comes_in_a_last_chunk_of_its_own_when_asked_for(
    openai_client: openai.OpenAI,
) -> None:
    chunks = chunks_of(openai_client, stream_options={"include_usage": True})
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 6
    assert all(c.usage is None for c in chunks[:-1])


def test_the_same_beginning_is_read_from_the_cache(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    server.settings = Settings(cache_minimum=3)

    def cached(messages: Any) -> int | None:
        usage = openai_client.chat.completions.create(model="echo", messages=messages).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens

    assert cached(HELLO) == 0
    assert cached([*HELLO, {"role": "assistant", "content": "hm"}, *HELLO]) == 3


def test_a_scripted_model_plays_its_role_and_depends_on_the_seed(
    openai_client: openai.OpenAI,
) -> None:
    def said(seed: int) -> str | None:
        completion = openai_client.chat.completions.create(
            model="steadfast", messages=HELLO, seed=seed
        )
        return completion.choices[0].message.content

    assert said(1) == said(1)
    assert said(1) != said(2)


def test_a_limit_on_tokens_cuts_the_answer(openai_client: openai.OpenAI) -> None:
    chunks = chunks_of(openai_client, model="words-9", max_completion_tokens=2)
    assert texts(chunks) == ["", "one", " word", ""]
    assert chunks[-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize("model", ["evaluator", "echo", "steadfast"])
def test_structured_output_has_the_shape_that_was_asked_for(
    server: ProtocolServer, openai_client: openai.OpenAI, model: str
) -> None:
    completion = openai_client.chat.completions.parse(
        model=model, messages=HELLO, response_format=Judgement
    )
    assert isinstance(completion.choices[0].message.parsed, Judgement)
    assert server.requests[-1].role.value == "evaluator"


def test_a_schema_in_the_prompt_is_followed_by_a_model_of_that_role(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    asked: Any = [
        {"role": "user", "content": f"Give JSON of {json.dumps(Judgement.model_json_schema())}"}
    ]
    formats: list[Any] = [{"type": "json_object"}, {"type": "text"}]
    for wanted in formats:
        completion = openai_client.chat.completions.create(
            model="evaluator", messages=asked, response_format=wanted
        )
        Judgement.model_validate_json(completion.choices[0].message.content or "")
    assert server.counters.by_role == {"evaluator": 2}


def bodies_that_are_refused() -> Iterator[tuple[str, dict[str, Any], str | None]]:
    yield "unknown parameter", {"extra_body": {"top_k": 3}}, "top_k"
    yield "no messages", {"messages": []}, "messages"
    yield "both limits", {"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"
    yield "limit of zero", {"max_tokens": 0}, "max_tokens"
    yield "usage without stream", {"stream_options": {"include_usage": True}}, "stream_options"
    yield "json unsaid", {"response_format": {"type": "json_object"}}, "messages"
    loose = {"name": "x", "strict": True, "schema": {"type": "object", "properties": {}}}
    asked = {"type": "json_schema", "json_schema": loose}
    yield "schema not strict", {"response_format": asked}, "response_format"
    yield "odd role", {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"
    yield "no content", {"messages": [{"role": "user", "content": None}]}, "messages[0].content"


@pytest.mark.parametrize(
    ("body", "param"),
    [pytest.param(body, param, id=name) for name, body, param in bodies_that_are_refused()],
)
def test_a_request_that_the_real_server_refuses_gets_400_with_the_parameter(
    openai_client: openai.OpenAI, body: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(**{"model": "echo", "messages": HELLO, **body})
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_an_unknown_model_gets_404_in_the_shape_of_the_real_one(
    openai_client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.chat.completions.create(model="nobody", messages=HELLO)
    assert caught.value.code == "model_not_found"
    assert "`nobody`" in str(caught.value)


def test_a_key_is_needed_and_only_the_right_one_is_let_in(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    keyless: Any = {"Authorization": openai.Omit()}
    with pytest.raises(openai.AuthenticationError):
        openai_client.models.list(extra_headers=keyless)
    server.settings = Settings(key="another-key")
    with pytest.raises(openai.AuthenticationError) as caught:
        openai_client.chat.completions.create(model="echo", messages=HELLO)
    assert caught.value.code == "invalid_api_key"
    assert "test-key" not in str(caught.value)


def test_the_models_are_listed_and_an_alias_is_one_of_them(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    server.settings = Settings(aliases={"gpt-of-ours": "echo"})
    assert {"echo", "gpt-of-ours"} < {model.id for model in openai_client.models.list()}
    assert texts(chunks_of(openai_client, model="gpt-of-ours"))[1] == "hello"
    with pytest.raises(openai.NotFoundError):
        openai_client.models.retrieve("nobody")


def test_a_rejected_parameter_is_named_and_leaving_it_out_helps(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    server.plan(Fault.REJECTS_PARAMETER, detail=Detail(parameter="max_tokens"))
    with pytest.raises(openai.BadRequestError, match="max_completion_tokens") as caught:
        openai_client.chat.completions.create(model="echo", messages=HELLO, max_tokens=9)
    assert caught.value.param == "max_tokens"
    assert texts(chunks_of(openai_client, max_completion_tokens=9))[1] == "hello"


def test_a_refusal_comes_in_its_own_field(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    server.plan(Fault.REFUSAL)
    chunks = chunks_of(openai_client)
    assert texts(chunks) == [""] * len(chunks)
    assert "not able" in "".join(c.choices[0].delta.refusal or "" for c in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"
    completion = openai_client.chat.completions.create(model="echo", messages=HELLO)
    assert completion.choices[0].message.content is None
    assert completion.choices[0].message.refusal


@pytest.mark.parametrize(
    ("fault", "finish"),
    [
        (Fault.CONTENT_FILTER, "content_filter"),
        (Fault.LENGTH, "length"),
        (Fault.EMPTY_TEXT, "stop"),
    ],
)
def test_an_answer_may_end_otherwise(
    server: ProtocolServer, openai_client: openai.OpenAI, fault: Fault, finish: str
) -> None:
    server.plan(fault)
    chunks = chunks_of(openai_client)
    assert chunks[-1].choices[0].finish_reason == finish
    assert "".join(texts(chunks)) == ("" if fault is Fault.EMPTY_TEXT else "hello")


def test_a_full_context_is_a_400_with_its_code(
    server: ProtocolServer, openai_client: openai.OpenAI
) -> None:
    server.plan(Fault.CONTEXT_FULL)
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(model="echo", messages=HELLO)
    assert caught.value.code == "context_length_exceeded"
