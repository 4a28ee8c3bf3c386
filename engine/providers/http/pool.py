"""The connection pool for one address: connections are kept alive and shared by all its calls."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakSet

from engine.providers.failures import Cause, Failure
from engine.providers.http.application import ApplicationTransport
from engine.providers.http.connection import READ_AT_ONCE, HttpConnection, UnansweredError
from engine.providers.http.connector import (
    Connector,
    accepts_connection,
    system_trust,
)
from engine.providers.http.proxies import is_of_proxy, proxy_for
from engine.providers.http.transport import (
    CONNECT_S,
    Address,
    ConnectionFailedError,
    HostPort,
    OnBody,
    OnResponse,
    Transport,
    any_left,
    most_connections,
    wait_words,
)

KEEP_ALIVE_S: Final = 90.0
"""Longer than the time between two turns, in which the connection waits for the other model."""

_POOLS: Final[WeakSet[ConnectionPool]] = WeakSet()
"""All pools of this process, which share its limit of open files."""


class ConnectionPool:
    """A `Transport` that opens connections as requests need them. Belongs to one event loop; close
    it there."""

    def __init__(
        self,
        address: Address,
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        connect_s: float = CONNECT_S,
        trust: Callable[[], ssl.SSLContext] = system_trust,
    ) -> None:
        """`trust` is called on a thread when it is first needed. Raises `InputError` if the
        environment names an unusable proxy."""
        proxy = proxy_for(address.url)
        self._connector = Connector(address.url, proxy, connect_s=connect_s, trust=trust)
        self._headers = _by_name({**self._connector.headers, **address.headers})
        self._keep_alive_s = keep_alive_s
        # one buffer for all connections, as each read is handled before the next one
        self._buffer = memoryview(bytearray(READ_AT_ONCE))
        self._open: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, float] = {}
        """When each connection became idle, longest first."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the idle connections; None before there was one."""
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._connecting = 0
        _POOLS.add(self)

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """As `Transport`."""
        await self._send(self._request("POST", headers, body), on_response)

    async def get(self, on_response: OnResponse) -> None:
        """Send a request without a body, as `post` does."""
        await self._send(self._request("GET", {}, b""), on_response)

    async def _send(self, request: bytes, on_response: OnResponse) -> None:
        """Send the request once more, over a new connection, if a kept one ends without a byte of a
        response: the server had closed it, and has most likely not seen the request."""

        def responds(status: int, headers: Mapping[str, str]) -> OnBody:
            if self._connector.is_relayed and is_of_proxy(status, headers):
                raise ConnectionFailedError(Failure(Cause.PROXY, status=status))
            return on_response(status, headers)

        idle = self._take_idle()
        if idle is not None:
            try:
                await self._send_over(idle, request, responds)
            # RFC 9112, 9.3.1: a connection may be closed at any time, even while a request is on
            # its way
            except UnansweredError:
                pass
            else:
                return
        await self._send_over(await self._new_connection(), request, responds)

    async def _send_over(
        self, connection: HttpConnection, request: bytes, on_response: OnResponse
    ) -> None:
        try:
            await connection.request(request, on_response)
        finally:
            if connection.available:
                self._keep_idle(connection)

    async def close(self) -> None:
        """Abort all requests, and wait until the sockets are closed. A later request opens a
        connection that is not kept."""
        self._closed = True
        self._idle.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in self._open))

    def _request(self, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {self._connector.target} HTTP/1.1"]
        lines += {**self._headers, **_by_name(headers)}.values()
        lines += [f"Content-Length: {len(body)}"] if method == "POST" else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def _new_connection(self) -> HttpConnection:
        self._connecting += 1
        try:
            connection = await self._connector.connect(
                lambda: HttpConnection(self._buffer, self._forget)
            )
        finally:
            self._connecting -= 1
        self._open.add(connection)
        return connection

    @staticmethod
    async def accepts_connection(host_port: HostPort) -> bool:
        """Whether a connection is accepted there, or by the proxy on the way there. Sends and keeps
        nothing."""
        proxy = proxy_for(host_port.url)
        first = host_port if proxy is None else HostPort.of(proxy)
        return await accepts_connection(first, longest_s=CONNECT_S)

    def waits_for(self) -> str | None:
        """As `Transport`: for an open file."""
        return None if self._can_send() else wait_words()

    def _can_send(self) -> bool:
        if self._idle:
            return True
        # the limit is the process's: another pool may have to give up an idle connection, but its
        # event loop must be this one, as another thread must not touch a connection
        if sum(pool.open for pool in _POOLS) < most_connections() and any_left():
            return True
        loop = asyncio.get_running_loop()
        return any(pool.close_longest_idle(loop) for pool in list(_POOLS))

    @property
    def open(self) -> int:
        """The number of connections, including those that are being opened."""
        return len(self._open) + self._connecting

    def close_longest_idle(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Close the connection that has been idle longest; return whether there was one. False for
        a pool of another event loop than `loop`, on whose thread this is called."""
        longest = next(iter(self._idle), None)
        if longest is None or self._loop is not loop:
            return False
        del self._idle[longest]
        self._open.discard(longest)
        longest.abort()
        return True

    def _forget(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def _take_idle(self) -> HttpConnection | None:
        """Take the connection that was used last, which the server has most likely kept."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.available and connection.nothing_unread:
                return connection
            connection.abort()
        return None

    def _keep_idle(self, connection: HttpConnection) -> None:
        if self._closed:
            connection.abort()
            return
        self._loop = loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time()
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._keep_alive_s, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle too long, and schedule the next sweep."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        for connection, since in list(self._idle.items()):
            due = since + self._keep_alive_s
            if due > loop.time():
                self._sweeping = loop.call_at(due, self._sweep)
                break
            connection.abort()


def _by_name(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header lines by lower-case name."""
    return {name.lower(): f"{name}: {value}" for name, value in headers.items()}


def open_transport(where: Address, *, connect_s: float = CONNECT_S) -> Transport:
    """The client for an address: our own for streams of chat protocols, httpx2 for applications,
    the provider's where only that will do. Raises `InputError` if the environment names an
    unusable proxy."""
    if where.key is not None:
        # imported here: it loads OpenAI's client, 0.5 s of CPU that few runs need
        from engine.providers.http.official import OfficialTransport

        return OfficialTransport(where, connect_s=connect_s)
    kind = ApplicationTransport if where.of_application else ConnectionPool
    return kind(where, connect_s=connect_s)
