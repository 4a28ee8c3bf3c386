"""The connections of one account: kept open between requests, shared by all of its calls."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from engine.providers.connecting import Way, system_trust
from engine.providers.connection import READ_AT_ONCE, Connection
from engine.providers.line import Door, OnAnswer
from engine.providers.proxies import proxy_for
from engine.providers.sdk import Address

KEEP_ALIVE_S: Final = 90.0
"""Between two turns of a conversation a connection waits for the other side to speak."""
CONNECT_S: Final = 20.0


class Connections:
    """Opened as requests need them. Belongs to one event loop; close it there."""

    def __init__(
        self,
        address: Address,
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        connect_s: float = CONNECT_S,
        trust: Callable[[], ssl.SSLContext] = system_trust,
    ) -> None:
        proxy = proxy_for(address.url)
        self._way = Way(address.url, proxy, connect_s=connect_s, trust=trust)
        self._headers = _by_name({**self._way.headers, **address.headers})
        self._keep_alive_s = keep_alive_s
        # all that comes in is heard before the next of it is read, so that one is enough for all
        self._buffer = memoryview(bytearray(READ_AT_ONCE))
        self._open: set[Connection] = set()
        self._idle: dict[Connection, float] = {}
        """Since when each waits, the longest first."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def post(self, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer) -> None:
        connection = self._kept() or await self._connected()
        try:
            await connection.ask(self._request(headers, body), on_answer)
        finally:
            if connection.fit:
                self._keep(connection)

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in self._open))

    def _request(self, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = {**self._headers, **_by_name(headers)}.values()
        first, last = f"POST {self._way.target} HTTP/1.1", f"Content-Length: {len(body)}"
        return "\r\n".join([first, *lines, last, "", ""]).encode() + body

    async def _connected(self) -> Connection:
        connection = await self._way.connect(lambda: Connection(self._buffer, self._forget))
        self._open.add(connection)
        return connection

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    # Those that wait for the next request

    def _kept(self) -> Connection | None:
        """The one that was used last, as the server is least likely to have tired of it."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.fit:
                return connection
        return None

    def _keep(self, connection: Connection) -> None:
        if self._closed:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time()
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._keep_alive_s, self._sweep)

    def _sweep(self) -> None:
        """Close what has waited too long, and come again when the next will have."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        for connection, since in list(self._idle.items()):
            due = since + self._keep_alive_s
            if due > loop.time():
                self._sweeping = loop.call_at(due, self._sweep)
                break
            connection.abort()


def _by_name(headers: Mapping[str, str]) -> dict[str, str]:
    """Whole lines, by names that are the same in any case."""
    return {name.lower(): f"{name}: {value}" for name, value in headers.items()}


async def answers(door: Door) -> bool:
    """Whether anybody there accepts a connection."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(door.host, door.port)
    except OSError:
        return False
    writer.close()
    return True
