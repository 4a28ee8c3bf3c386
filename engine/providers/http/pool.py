"""The connections of one account: kept open between requests, shared by all of its calls."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakSet

from engine.providers.attempts import SPEAKS_TLS, Cause, Failure
from engine.providers.endpoint import Address
from engine.providers.http.base import ConnectionFailedError, Door, OnAnswer, OnBody
from engine.providers.http.connect import Way, system_trust
from engine.providers.http.connection import READ_AT_ONCE, Connection, UnansweredError
from engine.providers.http.descriptors import any_left, most_connections
from engine.providers.http.proxies import proxy_for

KEEP_ALIVE_S: Final = 90.0
"""Between two turns of a conversation a connection waits for the other side to speak."""
CONNECT_S: Final = 20.0
GREETING_S: Final = 2.0
_GREETED_AT: Final = 2

_ALL: Final[WeakSet[Connections]] = WeakSet()
"""Of this process, which has one limit for all."""


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
        self._opening = 0
        _ALL.add(self)
        self._place = address.url
        self._proxied = proxy is not None
        self._greeting_s = min(GREETING_S, connect_s)
        self._ever_answered = False
        self._hung_up = 0

    async def post(self, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer) -> None:
        """As `Line`."""
        try:
            await self._send(self._request(headers, body), on_answer)
        except ConnectionFailedError as error:
            hung_up = error.failure.cause is Cause.BROKEN and error.failure.message
            if not (hung_up and await self._expects_tls()):
                raise
        else:
            return
        # outside of the handler, so that the other failure does not hang on to this one
        raise ConnectionFailedError(Failure(Cause.TLS, SPEAKS_TLS))

    async def _send(self, request: bytes, on_answer: OnAnswer) -> None:
        """What a kept connection ends without a byte of an answer is sent once more, on a fresh
        one: the server had closed it, and has most likely not seen the request."""

        def answered(status: int, headers: Mapping[str, str]) -> OnBody:
            self._ever_answered = True
            return on_answer(status, headers)

        kept = self._kept()
        if kept is not None:
            try:
                await self._ask(kept, request, answered)
            except UnansweredError:
                pass
            else:
                return
        await self._ask(await self._connected(), request, answered)

    async def _ask(self, connection: Connection, request: bytes, on_answer: OnAnswer) -> None:
        try:
            await connection.ask(request, on_answer)
        finally:
            if connection.fit:
                self._keep(connection)

    async def _expects_tls(self) -> bool:
        """Whether that is why a server that never answered hangs up without a word. Found out at
        the second time, by a greeting that holds no request."""
        plain = not self._proxied and self._place.startswith("http://")
        self._hung_up += 1
        if not plain or self._ever_answered or self._hung_up != _GREETED_AT:
            return False
        return await greets_in_tls(Door.of(self._place), longest_s=self._greeting_s)

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
        self._opening += 1
        try:
            connection = await self._way.connect(lambda: Connection(self._buffer, self._forget))
        finally:
            self._opening -= 1
        self._open.add(connection)
        return connection

    def can_send(self) -> bool:
        """As `Line`."""
        if self._idle:
            return True
        if sum(one.open for one in _ALL) < most_connections() and any_left():
            return True
        return any(one.close_longest_idle() for one in list(_ALL))

    @property
    def open(self) -> int:
        return len(self._open) + self._opening

    def close_longest_idle(self) -> bool:
        """Make room for another; whether there was one that nobody uses."""
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        del self._idle[longest]
        self._open.discard(longest)
        longest.abort()
        return True

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    # Those that wait for the next request

    def _kept(self) -> Connection | None:
        """The one that was used last, as the server is least likely to have tired of it."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.fit and connection.quiet:
                return connection
            connection.abort()
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


async def greets_in_tls(door: Door, *, longest_s: float) -> bool:
    """Whether anybody there answers a greeting in TLS, whoever it is. Nothing else is sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(longest_s):
            _, writer = await asyncio.open_connection(door.host, door.port, ssl=context)
    except (OSError, UnicodeError):
        return False
    writer.transport.abort()
    return True
