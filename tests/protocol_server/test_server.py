"""The server as the official clients see it, with every fault on order, and as tests tell it what
to do."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from pydantic import BaseModel, ConfigDict

from tests.approval import approve
from tests.late import anthropic, openai
from tests.protocol_server.faults import (
    Detail,
    Fault,
    When,
    always,
    first,
    middle,
    nth,
    rate,
    upto,
)
from tests.protocol_server.server import HOST, ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

HELLO: Any = [{"role": "user", "content": "hello there, server"}]
ROOT: Final = Path(__file__).parents[2]
STALLS: Final = {Fault.STALL, Fault.STALL_MIDWAY, Fault.STALL_WITH_PINGS}


class Judgement(BaseModel):
    model_config = ConfigDict(extra="forbid", title="judgement")

    evidence: list[str]
    reasoning: str
    present: bool


def stream_openai(client: openai.OpenAI, **more: Any) -> tuple[str, str | None]:
    """What was said, and how it finished."""
    text, finish = "", None
    with client.chat.completions.create(
        **{"model": "echo", "messages": HELLO, **more}, stream=True
    ) as stream:
        for chunk in stream:
            delta = chunk.choices[0].delta
            text += delta.content or delta.refusal or ""
            finish = chunk.choices[0].finish_reason or finish
    return text, finish


def stream_anthropic(client: anthropic.Anthropic, **more: Any) -> tuple[str, str | None]:
    text, finish = "", None
    with client.messages.create(
        **{"model": "echo", "max_tokens": 99, "messages": HELLO, **more}, stream=True
    ) as stream:
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                text += event.delta.text
            if event.type == "message_delta":
                finish = event.delta.stop_reason
    return text, finish


def outcome(call: Callable[[], tuple[str, str | None]]) -> str:
    """What a client makes of an answer: a text and how it finished, or an error of its own."""
    try:
        text, finish = call()
    except Exception as error:  # noqa: BLE001  (any that a client raises is what is looked at)
        status, kind = getattr(error, "status_code", ""), getattr(error, "type", "")
        words = f"{type(error).__name__} {status or ''} {kind or ''}"
    else:
        words = f"{text if len(text) < 80 else len(text)!r} ({finish})"
    return " ".join(words.split())


def post(server: ProtocolServer, **more: Any) -> httpx2.Response:
    body = {"model": "echo", "messages": HELLO, **more}
    key = {"authorization": "Bearer test-key"}
    url = f"{server.openai_url}/chat/completions"
    return httpx2.post(url, json=body, headers=key, verify=False)


async def ask(port: int, **more: Any) -> bytes:
    """All that comes back."""
    body = json.dumps({"model": "echo", "messages": HELLO, **more}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\n"
        f"Authorization: Bearer k\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(head.encode() + body)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_what_the_official_clients_make_of_each_fault(
    server: ProtocolServer, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    lines = []
    for fault in Fault:
        if fault in STALLS:
            continue
        server.reset()
        server.plan(fault, detail=Detail(every_ms=0, parameter="metadata"))
        lines += [
            f"{fault.value}: {outcome(lambda: stream_openai(openai_client))}"
            f" | {outcome(lambda: stream_anthropic(anthropic_client))}"
        ]
    approve("\n".join(lines))


def test_an_answer_that_is_not_streamed_goes_wrong_too(server: ProtocolServer) -> None:
    def whole() -> tuple[str, str | None]:
        response = post(server)
        assert response.status_code == 200
        return str(response.json()["choices"][0]["message"]["content"]), None

    midway = (Fault.ERROR_EVENT, Fault.RESET, Fault.RESET_MIDWAY, Fault.CUT_MIDWAY, Fault.HTML)
    lines = []
    for fault in (*midway, Fault.NO_FINISH, Fault.BAD_JSON, Fault.BAD_UTF8, Fault.JSON_BODY):
        server.reset()
        server.plan(fault, detail=Detail(after=0))
        lines.append(f"{fault.value}: {outcome(whole)}")
    approve("\n".join(lines))


def test_what_the_real_servers_refuse_is_refused(
    server: ProtocolServer, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    loose = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": loose}}
    of_openai: list[dict[str, Any]] = [
        {"model": "nobody"},
        {"extra_body": {"top_k": 3}},
        {"messages": []},
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"max_tokens": 0},
        {"response_format": {"type": "json_object"}},
        {"response_format": form},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user", "content": None}]},
        {"extra_headers": {"Authorization": openai.Omit()}},
    ]
    answered = {"role": "assistant", "content": "x"}
    bounded = {"type": "integer", "minimum": 1}
    of_anthropic: list[dict[str, Any]] = [
        {"model": "nobody"},
        {"messages": [{"role": "user", "content": " "}]},
        {"messages": [answered, *HELLO]},
        {"messages": [*HELLO, answered]},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"extra_body": {"seed": 1}},
        {"extra_body": {"temperature": 1}},
        {"output_config": {"format": {"type": "json_schema", "schema": loose}}},
        {"output_config": {"format": {"type": "json_schema", "schema": bounded}}},
        {"extra_headers": {"anthropic-version": anthropic.omit}},
    ]
    lines = []
    for body in of_openai:
        with pytest.raises(openai.APIStatusError) as caught:
            stream_openai(openai_client, **body)
        lines.append(f"{caught.value.status_code} {caught.value.body}")
    for body in of_anthropic:
        with pytest.raises(anthropic.APIStatusError) as caught_too:
            stream_anthropic(anthropic_client, **body)
        lines.append(f"{caught_too.value.status_code} {caught_too.value.api_message}")
    approve("\n".join(lines))


def test_both_clients_read_answers_with_their_shape_and_usage(
    server: ProtocolServer, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    server.settings = Settings(aliases={"gpt-of-ours": "words-9"})
    lines: list[object] = []
    whole = openai_client.chat.completions.create(
        model="gpt-of-ours", messages=HELLO, max_completion_tokens=2
    )
    lines.append(whole.model_dump(include={"choices", "usage"}, exclude_none=True))
    message = anthropic_client.messages.create(
        model="echo", max_tokens=99, messages=HELLO, system="Be kind."
    )
    lines.append(message.model_dump(include={"content", "usage"}, exclude_none=True))
    with anthropic_client.messages.stream(model="words-3", max_tokens=99, messages=HELLO) as stream:
        lines.append(stream.get_final_message().model_dump(include={"content", "stop_reason"}))
    approve(lines)
    parsed = openai_client.chat.completions.parse(
        model="echo", messages=HELLO, response_format=Judgement
    )
    assert isinstance(parsed.choices[0].message.parsed, Judgement)
    read = anthropic_client.messages.parse(
        model="evaluator", max_tokens=500, messages=HELLO, output_format=Judgement
    )
    assert isinstance(read.parsed_output, Judgement)
    assert server.requests[-1].role.value == "evaluator"
    said = [stream_openai(openai_client, model="steadfast", seed=seed) for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]
    assert {"echo", "gpt-of-ours"} < {model.id for model in openai_client.models.list()}


@pytest.mark.parametrize(
    ("when", "hit"),
    [(first, [1]), (nth(3), [3]), (upto(2), [1, 2]), (always, [1, 2, 3]), (middle, [2])],
)
def test_a_fault_strikes_when_and_whom_it_was_ordered_to(
    server: ProtocolServer, when: When, hit: list[int]
) -> None:
    server.plan(Fault.SERVER_ERROR, when=when, match="target")
    server.plan(Fault.CONFLICT, match=lambda request: request.body.get("seed") == 9)
    going_on = [*HELLO, {"role": "assistant", "content": "hi"}, *HELLO]
    statuses = [post(server, messages=said).status_code for said in (HELLO, going_on, going_on)]
    assert [number for number, status in enumerate(statuses, 1) if status == 500] == hit
    if when is not always:
        assert post(server, seed=9).status_code == 409
    assert 70 < sum(rate(0.1, seed=7).hits(number) for number in range(1000)) < 130


def test_requests_are_counted_and_capped_and_held_until_released(server: ProtocolServer) -> None:
    async def held() -> list[bytes]:
        asked = [asyncio.create_task(ask(server.port)) for _ in range(3)]
        await server.until(lambda seen: seen.requests == 3 and seen.concurrent == 2)
        refused = await asyncio.to_thread(post, server)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "3")
        server.release()
        return await asyncio.gather(*asked)

    server.settings = Settings(cap=2, cap_retry_after="3")
    server.hold(after=1)
    assert all(b"200 OK" in received for received in asyncio.run(held()))
    server.plan(Fault.RATE_LIMITED, match="words-2")
    post(server, model="words-2", seed=4)
    assert server.requests[-1].body == {"model": "words-2", "messages": HELLO, "seed": 4}
    seen = server.counters
    assert seen.by_outcome == {"answered": 3, "capped": 1, "rate_limited": 1}
    assert (seen.successes, seen.refusals, seen.concurrent) == (3, 2, 0)
    assert (seen.concurrent_max, seen.input_tokens, seen.output_tokens) == (2, 9, 9)
    server.reset()
    assert (server.requests, server.counters.requests) == ([], 0)


@pytest.mark.parametrize("fault", sorted(STALLS))
def test_a_stall_lasts_until_the_client_goes_away(server: ProtocolServer, fault: Fault) -> None:
    async def give_up() -> None:
        asked = asyncio.create_task(ask(server.port, stream=True))
        await server.until(lambda seen: seen.concurrent == 1)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    server.plan(fault, detail=Detail(every_ms=1))
    asyncio.run(give_up())
    seen = server.wait_until(lambda seen: seen.concurrent == 0 and seen.connections == 0)
    assert seen.by_outcome == {fault.value: 1}


@pytest.mark.parametrize("abort", [False, True])
def test_connections_are_refused_and_taken_again_on_the_same_port(
    server: ProtocolServer, abort: bool
) -> None:
    port = server.port
    with socket.create_connection((HOST, port), timeout=PATIENCE_S) as idle:
        server.wait_until(lambda seen: seen.connections == 1)
        server.refuse(abort=abort)
        try:
            assert idle.recv(1) == b""
        except ConnectionResetError:
            assert abort
    with pytest.raises(httpx2.ConnectError):
        post(server)
    server.accept()
    assert server.port == port
    assert post(server).status_code == 200


def test_a_bug_in_a_test_is_told_at_the_end_and_no_client_waits_for_it() -> None:
    server = ProtocolServer()
    server.start()
    server.plan(Fault.STALL, match=lambda request: request.body["not there"] == 1)
    with pytest.raises(httpx2.RemoteProtocolError):
        post(server)
    with pytest.raises(RuntimeError, match="bug") as caught:
        server.close()
    assert isinstance(caught.value.__cause__, KeyError)


def test_as_a_process_it_tells_its_port_and_its_counts() -> None:
    command = [sys.executable, "-m", "tests.protocol_server", "--chunks", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            answer = asyncio.run(ask(int(process.stdout.readline()), model="words-2"))
        finally:
            process.send_signal(signal.SIGTERM)
        seen: Mapping[str, Any] = json.loads(process.stdout.read())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert seen["by_outcome"] == {"answered": 1}
    assert process.returncode == 0
