"""A server on this machine that answers with exactly the bytes it is told, and their like by which
one gets to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import Address, OnBody
from tests.waiting import PATIENCE_S

CERTIFICATE: Final = Path(__file__).parent / "certificate"
"""For localhost, 127.0.0.1 and server.example; signed by nobody, and good for a hundred years."""

WORDS: Final = b"one word and then the next until all are said "
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def sized(body: bytes = WORDS, headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    """A whole answer that says how long it is."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


def chunks(*bodies: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(body), body) for body in bodies)


def chunked(*bodies: bytes) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(*bodies) + b"0\r\n\r\n"


@dataclass
class Visit:
    """One request on one connection of the server."""

    head: bytes
    body: bytes
    connection: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    def reset(self) -> None:
        """End the connection as hard as it goes; what was said before may be lost."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()

    async def until_gone(self) -> None:
        """The client has closed the connection, perhaps in the middle of what it said."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass


Answer = Callable[[Visit], Awaitable[None]]
"""Answers one request. Afterwards the connection waits for the next, unless it was closed."""


def saying(*parts: bytes, close: bool = False) -> Answer:
    async def answer(visit: Visit) -> None:
        await visit.say(*parts)
        if close:
            visit.close()

    return answer


@dataclass
class Served:
    """A server that runs, and what came to it."""

    port: int
    visits: list[Visit] = field(default_factory=list)
    connections: int = 0

    def address(self, scheme: str = "http", host: str = "127.0.0.1") -> Address:
        return Address(f"{scheme}://{host}:{self.port}/v1/words?a=b", {"X-Key": "sk-own"})


@asynccontextmanager
async def serving(
    answer: Answer, *, tls: bool = False, early: bool = False
) -> AsyncIterator[Served]:
    """In this event loop. Nothing of it is left afterwards. With `early` it answers as soon as it
    has read the head of a request."""
    tasks: set[asyncio.Task[None]] = set()
    served = Served(0)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        number = served.connections
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                body = b"" if early else await _body(head, reader)
                visit = Visit(head, body, number, reader, writer)
                served.visits.append(visit)
                await answer(visit)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(connected(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(
        begin, "127.0.0.1", 0, ssl=server_context() if tls else None, limit=1 << 20
    )
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
    assert not [bug for bug in results if isinstance(bug, Exception)]


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE / "cert.pem", CERTIFICATE / "key.pem")
    return context


def trusting() -> ssl.SSLContext:
    """Trusts the server of the tests and nobody else."""
    return ssl.create_default_context(cafile=CERTIFICATE / "cert.pem")


@dataclass
class Ear:
    """Hears an answer."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    error: Exception | None = None
    """Raised at the first piece."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def answered(self, status: int, headers: Mapping[str, str]) -> OnBody:
        self.status, self.headers = status, headers
        return self._hear

    def _hear(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.begun.set()
        if self.error is not None:
            raise self.error

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


async def heard(connections: ConnectionPool, body: bytes = b"{}") -> Ear:
    ear = Ear()
    await connections.post({}, body, ear.answered)
    return ear


def run(test: Coroutine[object, object, None]) -> None:
    """In an event loop of its own, and not for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test

    asyncio.run(bounded())
