"""Connections are kept and shared, come about over TLS and through proxies, and are not leaked."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.providers.attempts import classify
from engine.providers.failures import Cause, Failure, FailureKind
from engine.providers.http.connector import failure_of, system_trust
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import SPEAKS_TLS, Address, ConnectionFailedError, HostPort
from tests.engine.providers.loopback import (
    HEAD,
    WORDS,
    Ear,
    Served,
    Visit,
    chunked,
    chunks,
    heard,
    saying,
    server_context,
    serving,
    sized,
    trusting,
)

SILENT = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(WORDS)
"""The beginning of an answer whose end does not come."""


async def failing(connections: ConnectionPool) -> Failure:
    with pytest.raises(ConnectionFailedError) as caught:
        await heard(connections)
    return caught.value.failure


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def test_a_request_is_what_it_should_be_to_the_byte() -> None:
    async with serving(saying(sized())) as served:
        address = Address(served.address().url, {"Accept": "x", "User-Agent": "crosswind"})
        connections = ConnectionPool(address)
        await connections.post({"user-agent": "mine"}, b"{1}", Ear().answered)
        await connections.close()
        [visit] = served.visits
        assert visit.head == (
            b"POST /v1/words?a=b HTTP/1.1\r\n"
            b"Host: 127.0.0.1:%d\r\n"
            b"Accept: x\r\n"
            b"user-agent: mine\r\n"
            b"Content-Length: 3\r\n\r\n" % served.port
        )
        assert visit.body == b"{1}"


@pytest.mark.parametrize("answer", [sized(), chunked(WORDS)], ids=["content-length", "chunked"])
async def test_one_connection_carries_one_request_after_the_other(answer: bytes) -> None:
    async with serving(saying(answer)) as served:
        connections = ConnectionPool(served.address())
        for _ in range(5):
            assert (await heard(connections)).body == WORDS
        await connections.close()
        assert served.connections == 1


async def test_as_many_connections_as_requests_at_once_and_no_more() -> None:
    together = asyncio.Barrier(8)

    async def answer(visit: Visit) -> None:
        await together.wait()
        await visit.say(sized())

    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        for _ in range(3):
            await asyncio.gather(*(heard(connections) for _ in range(8)))
        await connections.close()
        assert served.connections == 8


@pytest.mark.parametrize(
    "answer",
    [
        sized(headers=b"Connection: close\r\n"),
        sized().replace(b"HTTP/1.1", b"HTTP/1.0"),
        sized() + b"surplus",
        sized() + sized(b"of nobody"),
    ],
    ids=["it says so", "HTTP/1.0", "surplus", "a second answer"],
)
async def test_a_connection_that_is_not_fit_for_another_request_gets_none(answer: bytes) -> None:
    async with serving(saying(answer)) as served:
        connections = ConnectionPool(served.address())
        for _ in range(3):
            assert (await heard(connections)).body == WORDS
        assert served.connections == 3
        await connections.close()


async def test_a_connection_is_closed_when_it_has_waited_too_long() -> None:
    gone = asyncio.Event()

    async def answer(visit: Visit) -> None:
        await visit.say(sized())
        await visit.until_gone()
        gone.set()

    async with serving(answer) as served:
        connections = ConnectionPool(served.address(), keep_alive_s=0.02)
        await heard(connections)
        await gone.wait()
        await connections.close()


async def test_a_cancelled_request_ends_its_connection_and_no_other() -> None:
    gone = asyncio.Event()
    ear = Ear()

    async def answer(visit: Visit) -> None:
        if visit.body == b"long":
            await visit.say(SILENT)
            await visit.until_gone()
            gone.set()
        else:
            await visit.say(sized())

    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        task = asyncio.create_task(connections.post({}, b"long", ear.answered))
        await ear.begun.wait()
        await heard(connections)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await gone.wait()
        await heard(connections)
        assert served.connections == 2
        await connections.close()


async def test_closing_ends_what_is_in_the_air_and_leaves_nothing_open() -> None:
    gone: asyncio.Queue[bytes] = asyncio.Queue()
    ear = Ear()

    async def answer(visit: Visit) -> None:
        await visit.say(SILENT if visit.body == b"long" else sized())
        await visit.until_gone()
        gone.put_nowait(visit.body)

    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        task = asyncio.create_task(connections.post({}, b"long", ear.answered))
        await ear.begun.wait()
        await heard(connections, b"idle")
        await connections.close()
        assert {await gone.get(), await gone.get()} == {b"long", b"idle"}
        with pytest.raises(ConnectionFailedError):
            await task
        # a straggler is still served, and keeps nothing open behind itself
        assert (await heard(connections, b"late")).body == WORDS
        assert await gone.get() == b"late"


# TLS


async def test_a_server_whose_certificate_is_trusted_is_spoken_to() -> None:
    async with serving(saying(chunked(WORDS)), tls=True) as served:
        for host in ("127.0.0.1", "localhost"):
            connections = ConnectionPool(served.address("https", host), trust=trusting)
            for _ in range(2):
                assert (await heard(connections)).body == WORDS
            await connections.close()
        assert served.connections == 2


async def test_a_server_whose_certificate_is_not_trusted_hears_nothing() -> None:
    async with serving(saying(sized()), tls=True) as served:
        connections = ConnectionPool(served.address("https"), trust=ssl.create_default_context)
        assert await failing(connections) == Failure(Cause.CERTIFICATE)
        await connections.close()
        assert not served.visits


@pytest.mark.parametrize("content", [None, b"", b"no certificate", "a folder"])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_a_stale_name_of_certificates_fails_the_call_and_says_which(
    variable: str, content: bytes | str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "certificates"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        path.mkdir()
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv(variable, str(path))
    system_trust.cache_clear()
    async with serving(saying(sized()), tls=True) as served:
        connections = ConnectionPool(served.address("https"), trust=system_trust)
        for _ in range(2):
            failure = await failing(connections)
            if failure.cause is Cause.NO_TRUST:
                assert failure.message.startswith(f"{variable} is {path}: ")
            else:  # a folder without a certificate is read, and trusts nobody
                assert failure.cause is Cause.CERTIFICATE
                assert variable == "SSL_CERT_DIR"
        await connections.close()
        assert not served.visits
    system_trust.cache_clear()


async def test_a_reply_over_tls_that_is_cut_is_a_broken_connection() -> None:
    async with serving(saying(SILENT, close=True), tls=True) as served:
        connections = ConnectionPool(served.address("https"), trust=trusting)
        assert await failing(connections) == Failure(Cause.BROKEN)
        await connections.close()


async def test_a_host_that_takes_no_part_in_tls_is_not_waited_for_for_ever() -> None:
    async with serving(saying()) as served:
        address = served.address("https")
        connections = ConnectionPool(address, trust=trusting, connect_s=0.5)
        failure = await failing(connections)
        assert failure.cause is Cause.NO_TLS_ANSWER
        words = f"127.0.0.1:{served.port} accepts connections but does not answer TLS within 0"
        assert failure.message.startswith(words)
        await connections.close()


async def test_https_to_a_port_without_tls_is_said_at_once() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # as servers do that read a greeting as a request
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = ConnectionPool(Address(f"https://127.0.0.1:{port}/v1", {}), trust=trusting)
    failure = await failing(connections)
    words = f"127.0.0.1:{port} does not speak TLS: write http:// in base_url, or another port"
    assert failure == Failure(Cause.TLS, words)
    assert classify(failure) is FailureKind.FATAL_TARGET
    await connections.close()
    server.close()


async def test_http_to_a_port_with_tls_that_says_so_in_its_own_way_is_understood() -> None:
    async with serving(saying(b"\x15\x03\x01\x00\x02\x02\x46", close=True)) as served:
        connections = ConnectionPool(served.address())
        assert await failing(connections) == Failure(Cause.TLS, SPEAKS_TLS)
        await connections.close()


# Proxies


@asynccontextmanager
async def proxy(to: int, *, tls: bool = False) -> AsyncIterator[Served]:
    """Opens a way to this port, whatever it is asked for."""

    async def dig(visit: Visit) -> None:
        await visit.say(b"HTTP/1.1 200 Connection established\r\n\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", to)
        try:
            await asyncio.gather(pump(visit.reader, writer), pump(reader, visit.writer))
        finally:
            writer.close()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            pass
        sink.close()

    async with serving(dig, tls=tls) as served:
        yield served


async def test_a_proxy_is_told_the_whole_address_of_what_it_is_to_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(saying(sized())) as served:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss@127.0.0.1:{served.port}")
        connections = ConnectionPool(Address("http://server.example/v1/words", {}))
        for _ in range(2):
            assert (await heard(connections)).body == WORDS
        await connections.close()
        assert served.connections == 1
        head = served.visits[0].head.decode()
        assert head.startswith("POST http://server.example/v1/words HTTP/1.1\r\n")
        assert "\r\nHost: server.example\r\n" in head
        assert "\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in head


@pytest.mark.parametrize("tls", [False, True], ids=["http proxy", "https proxy"])
async def test_through_a_proxy_tls_is_spoken_with_the_server_itself(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    async with serving(saying(chunked(WORDS)), tls=True) as served:
        async with proxy(served.port, tls=tls) as between:
            scheme, host = ("https", "localhost") if tls else ("http", "me:pw@127.0.0.1")
            monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://{host}:{between.port}")
            address = Address("https://server.example/v1/words", {"X-Key": "sk-own"})
            connections = ConnectionPool(address, trust=trusting)
            for _ in range(2):
                assert (await heard(connections)).body == WORDS
            await connections.close()
            [visit] = between.visits
        assert visit.head.startswith(b"CONNECT server.example:443 HTTP/1.1\r\n")
        assert (b"Proxy-Authorization: Basic bWU6cHc=" in visit.head) is not tls
        assert b"sk-own" not in visit.head
        for inner in served.visits:
            assert inner.head.startswith(b"POST /v1/words HTTP/1.1\r\n")
            assert b"sk-own" in inner.head
            assert b"Proxy-Authorization" not in inner.head


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (
            sized(b"", status=b"407 Proxy Authentication Required"),
            Failure(Cause.PROXY, status=407),
        ),
        (b"HTTP/1.0 502 Bad Gateway\r\n\r\n", Failure(Cause.PROXY, status=502)),
        (b"", Failure(Cause.BROKEN, "the server closed it")),
        (b"HTTP/1.1 200", Failure(Cause.BROKEN, "the server closed it")),
        (b"hello\r\n\r\n", Failure(Cause.PROXY, "it does not answer in HTTP")),
        (b"HTTP/1.1 200 OK\r\n\r\n", Failure(Cause.NO_CONNECTION)),
        (b"HTTP/1.1 200 OK\r\n" + b"X-More: 1\r\n" * 50_000, Failure(Cause.TLS)),
    ],
    ids=["407", "502", "nothing", "half a line", "something else", "yes and away", "endless"],
)
async def test_a_proxy_that_opens_no_way_is_told_from_the_server(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, failure: Failure
) -> None:
    async with serving(saying(answer, close=True)) as served:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{served.port}")
        connections = ConnectionPool(Address("https://server.example/v1", {}), trust=trusting)
        found = await failing(connections)
        await connections.close()
        assert (found.cause, found.status) == (failure.cause, failure.status)
        assert failure.cause in {Cause.NO_CONNECTION, Cause.TLS} or found == failure


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1", "econnrefused"), ("a" * 64, "there is no such host")]
)
async def test_a_proxy_that_cannot_be_reached_is_named_in_place_of_the_server(
    monkeypatch: pytest.MonkeyPatch, scheme: str, host: str, why: str
) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    proxy = f"{host}:{closed.getsockname()[1]}"
    closed.close()
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://me:secret@{proxy}")
    address = Address(f"{scheme}://server.example/v1", {})
    connections = ConnectionPool(address, trust=trusting)
    assert await failing(connections) == Failure(Cause.NO_PROXY, f"{proxy}: {why}")
    await connections.close()


async def test_a_host_behind_a_proxy_is_looked_for_at_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be reached in no other way: a call would wait for an hour for what works already."""
    behind = HostPort.of("https://server.invalid/v1")
    assert not await ConnectionPool.accepts_connection(behind)
    async with serving(saying()) as served:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{served.port}")
        assert await ConnectionPool.accepts_connection(behind)
        assert not await ConnectionPool.accepts_connection(HostPort.of("http://server.invalid"))
        monkeypatch.setenv("NO_PROXY", "server.invalid")
        assert not await ConnectionPool.accepts_connection(behind)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "nonsense", "http://", "http://[oops"])
def test_a_proxy_that_cannot_be_used_is_told_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(InputError, match="proxy"):
        ConnectionPool(Address("https://server.example/v1", {}))


@pytest.mark.parametrize(
    ("line", "is_the_proxys"),
    [
        (b"Content-Type: text/html\r\n", True),
        (b"X-Reason: policy\r\n", True),
        (b"Content-Type: application/json; charset=utf-8\r\n", False),
        (b"Content-Type: text/html\r\nVia: 1.1 squid\r\n", False),
    ],
    ids=["a page", "no word", "an api's answer", "passed on"],
)
async def test_a_proxy_that_refuses_a_plain_request_is_told_from_the_server(
    monkeypatch: pytest.MonkeyPatch, line: bytes, *, is_the_proxys: bool
) -> None:
    refusal = sized(b"no", line, status=b"403 Forbidden")
    async with serving(saying(refusal, close=True)) as served:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{served.port}")
        connections = ConnectionPool(Address("http://server.example/v1", {}))
        if is_the_proxys:
            found = await failing(connections)
            assert (found.cause, found.status) == (Cause.PROXY, 403)
        else:
            assert (await heard(connections)).status == 403
        await connections.close()
        own = ConnectionPool(Address(f"http://127.0.0.1:{served.port}/v1", {}))
        assert (await heard(own)).status == 403
        await own.close()


# No connection


async def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    connections = ConnectionPool(Served(port).address())
    assert await failing(connections) == Failure(Cause.NO_CONNECTION, "econnrefused")
    await connections.close()


async def test_a_host_that_nobody_knows_is_asked_for_again_with_the_next_request() -> None:
    connections = ConnectionPool(Address("http://a..example/v1", {}))
    lookups = set()
    for _ in range(2):
        assert await failing(connections) == Failure(Cause.UNKNOWN_HOST)
        lookups.add(connections._connector._lookup)
    assert len(lookups) == 2
    await connections.close()


async def test_however_many_connect_at_once_a_name_is_looked_up_once() -> None:
    async with serving(saying(sized())) as served:
        connections = ConnectionPool(served.address(host="localhost"))
        lookups = set()

        async def ask() -> None:
            await heard(connections)
            lookups.add(connections._connector._lookup)

        await asyncio.gather(*(ask() for _ in range(8)))
        assert served.connections == 8
        assert len(lookups) == 1
        await connections.close()


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (socket.gaierror(socket.EAI_NONAME, "-"), Failure(Cause.UNKNOWN_HOST)),
        (socket.gaierror(socket.EAI_AGAIN, "-"), Failure(Cause.NETWORK)),
        (OSError(errno.ENETUNREACH, "-"), Failure(Cause.NETWORK, "enetunreach")),
        (OSError(errno.ETIMEDOUT, "-"), Failure(Cause.NO_CONNECTION, "etimedout")),
        (OSError("several reasons"), Failure(Cause.NO_CONNECTION)),
        (TimeoutError(), Failure(Cause.NO_CONNECTION, "it does not answer")),
        (
            ssl.SSLEOFError(8, "-"),
            Failure(Cause.NO_CONNECTION, "it hung up before TLS was agreed on"),
        ),
        (ssl.SSLError(1, "-"), Failure(Cause.TLS, "the server: tls")),
    ],
)
def test_why_no_connection_came_about(error: OSError, failure: Failure) -> None:
    assert failure_of(error) == failure


def test_no_certificate_of_the_tests_is_trusted_by_accident() -> None:
    assert server_context().cert_store_stats()["x509_ca"] == 0
