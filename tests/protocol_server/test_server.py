"""The server itself: caps, counts, pace, closing and opening, and as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.protocol_server.answers import pieces_of
from tests.protocol_server.faults import Fault
from tests.protocol_server.parsing import RequestReader, UnreadableRequestError
from tests.protocol_server.server import HOST, ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

HELLO: Final = [{"role": "user", "content": "hello there, server"}]
ROOT: Final = Path(__file__).parents[2]


def request_bytes(model: str = "echo", **more: Any) -> bytes:
    body = json.dumps({"model": model, "messages": HELLO, **more}).encode()
    head = (
        "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: here\r\n"
        f"Authorization: Bearer k\r\nX-Odd: Some\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask(port: int, **more: Any) -> tuple[bytes, list[float]]:
    """All that comes back, and the time of each arrival."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(request_bytes(**more).replace(b"Host: here", b"Connection: close"))
    received, times = b"", []
    try:
        while data := await reader.read(65536):
            received += data
            times.append(time.monotonic())
    finally:
        writer.close()
    return received, times


async def ask_many(server: ProtocolServer, count: int, **more: Any) -> list[bytes]:
    answers = await asyncio.gather(*(ask(server.port, **more) for _ in range(count)))
    return [received for received, _ in answers]


def post(server: ProtocolServer, **more: Any) -> httpx2.Response:
    body = {"model": "echo", "messages": HELLO, **more}
    key = {"authorization": "Bearer k"}
    url = f"{server.openai_url}/chat/completions"
    return httpx2.post(url, json=body, headers=key, verify=False)


def test_requests_are_kept_as_they_came(server: ProtocolServer) -> None:
    asyncio.run(ask_many(server, 1, seed=4))
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["x-odd"] == "Some"
    assert request.body == {"model": "echo", "messages": HELLO, "seed": 4}
    server.reset()
    assert server.requests == []
    assert server.counters.requests == 0


def test_counts_are_complete_when_the_answer_is_there(server: ProtocolServer) -> None:
    server.plan(Fault.RATE_LIMITED, match="words-2")
    for model in ("echo", "words-2", "echo"):
        post(server, model=model)
        assert server.counters.concurrent == 0
    seen = server.counters
    assert seen.by_model == {"echo": 2, "words-2": 1}
    assert seen.by_role == {"target": 3}
    assert seen.by_outcome == {"answered": 2, "rate_limited": 1}
    assert (seen.successes, seen.refusals) == (2, 1)
    assert (seen.input_tokens, seen.output_tokens) == (6, 6)
    assert seen.bytes_in > 300
    assert seen.bytes_out > 500


def test_one_request_too_many_at_once_is_turned_away(server: ProtocolServer) -> None:
    server.settings = Settings(cap=2, cap_retry_after="3")
    server.plan(Fault.STALL, match="words-1")

    async def fill() -> httpx2.Response:
        busy = [asyncio.create_task(ask(server.port, model="words-1")) for _ in range(2)]
        await server.until(lambda seen: seen.concurrent == 2)
        response = await asyncio.to_thread(post, server)
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        return response

    response = asyncio.run(fill())
    assert (response.status_code, response.headers["retry-after"]) == (429, "3")
    seen = server.wait_until(lambda seen: seen.concurrent == 0)
    assert seen.by_outcome == {"capped": 1, "stall": 2}
    assert (seen.concurrent_max, seen.refusals) == (2, 1)
    assert post(server).status_code == 200


def test_a_client_that_gives_up_leaves_nothing_behind(server: ProtocolServer) -> None:
    server.settings = Settings(latency_ms=0.0, tokens_per_second=1.0)

    async def give_up() -> None:
        tasks = [asyncio.create_task(ask(server.port, stream=True)) for _ in range(20)]
        await server.until(lambda seen: seen.concurrent == 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(give_up())
    seen = server.wait_until(lambda seen: seen.connections == 0)
    assert seen.by_outcome == {"abandoned": 20}
    assert seen.output_tokens == 20


def test_pieces_come_at_the_pace_that_was_set(server: ProtocolServer) -> None:
    server.settings = Settings(latency_ms=30, tokens_per_second=500)

    def pieces() -> int:
        began = time.monotonic()
        received, times = asyncio.run(ask(server.port, model="words-100", stream=True))
        assert received.count(b'{"content":') == 100
        assert times[0] - began >= 0.030
        assert times[-1] - began >= 0.030 + 99 * 0.002
        return len(times)

    assert any(pieces() > 5 for _ in range(5)), "who gets no turn for long reads all at once"


def test_an_answer_that_is_not_streamed_takes_as_long_as_one_that_is(
    server: ProtocolServer,
) -> None:
    server.settings = Settings(latency_ms=20, tokens_per_second=200)
    began = time.monotonic()
    asyncio.run(ask(server.port, model="words-11"))
    assert time.monotonic() - began >= 0.070


def test_what_is_held_is_answered_when_it_is_released(server: ProtocolServer) -> None:
    async def held() -> list[bytes]:
        asked = [asyncio.create_task(ask(server.port)) for _ in range(3)]
        await server.until(lambda seen: seen.requests == 3 and seen.successes == 1)
        assert server.counters.concurrent == 2
        server.release()
        return [received for received, _ in await asyncio.gather(*asked)]

    server.hold(after=1)
    assert all(b"200 OK" in received for received in asyncio.run(held()))
    asyncio.run(ask(server.port))
    assert server.counters.successes == 4


@pytest.mark.parametrize("chunks", [1, 7, 60, 500])
def test_a_text_is_cut_into_as_many_pieces_as_wanted(chunks: int) -> None:
    text = "It takes all sorts, they say, " * 5
    pieces = pieces_of(text, chunks)
    assert "".join(pieces) == text
    assert len(pieces) == min(chunks, len(text))


def test_a_connection_serves_one_request_after_the_other(server: ProtocolServer) -> None:
    with socket.create_connection((HOST, server.port), timeout=PATIENCE_S) as connection:
        # the second comes before the first is answered, and in two parts
        connection.sendall(request_bytes() + request_bytes()[:50])
        connection.sendall(request_bytes()[50:])
        received = b""
        while received.count(b"hello there, server") < 2:
            received += connection.recv(65536)
    assert server.counters.connections_made == 1
    assert server.counters.successes == 2


def test_a_body_in_chunks_is_read() -> None:
    reader = RequestReader()
    reader.feed(b'POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n')
    assert reader.next_request() is None
    reader.feed(b"3;x=y\r\n:1}\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    first, second = reader.next_request(), reader.next_request()
    assert first is not None
    assert second is not None
    assert (first.body, second.method) == ({"a": 1}, "GET")


@pytest.mark.parametrize(
    "data",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n"],
)
def test_what_is_no_request_is_refused(server: ProtocolServer, data: bytes) -> None:
    reader = RequestReader()
    reader.feed(data)
    with pytest.raises(UnreadableRequestError):
        reader.next_request()
    with socket.create_connection((HOST, server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/nothing", 404),
        ("GET", "/v1/models/nobody", 404),
        ("GET", "/counters", 200),
    ],
)
def test_other_paths_are_answered_too(
    server: ProtocolServer, method: str, path: str, status: int
) -> None:
    key = {"authorization": "Bearer k"}
    response = httpx2.request(method, server.origin + path, headers=key, verify=False)
    assert response.status_code == status


def test_a_body_that_is_no_json_is_a_400(server: ProtocolServer) -> None:
    url = f"{server.openai_url}/chat/completions"
    key = {"authorization": "Bearer k"}
    assert httpx2.post(url, content=b"{oh", headers=key, verify=False).status_code == 400


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


def test_an_answer_that_is_being_given_outlives_a_refusal(server: ProtocolServer) -> None:
    server.settings = Settings(latency_ms=20, tokens_per_second=100)

    async def refused_midway(words: int) -> bool:
        server.reset()
        server.accept()
        task = asyncio.create_task(ask(server.port, model=f"words-{words}", stream=True))
        await server.until(lambda seen: seen.requests == 1)
        await asyncio.to_thread(server.refuse)
        midway = server.counters.concurrent == 1
        assert b"[DONE]" in (await task)[0]
        return midway

    assert any(asyncio.run(refused_midway(words)) for words in (5, 50, 500))


def test_waiting_for_what_does_not_come_says_how_far_it_got(server: ProtocolServer) -> None:
    with pytest.raises(TimeoutError, match="requests=0"):
        server.wait_until(lambda seen: seen.requests == 1, timeout_seconds=0.001)


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
            port = int(process.stdout.readline())
            answer, *_ = asyncio.run(ask(port, model="words-2"))
        finally:
            process.send_signal(signal.SIGTERM)
        seen: Mapping[str, Any] = json.loads(process.stdout.read())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert seen["by_outcome"] == {"answered": 1}
    assert process.returncode == 0
