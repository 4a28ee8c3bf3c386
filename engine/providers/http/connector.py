"""Opens connections to a server: name resolution, a socket, a proxy's tunnel if needed, TLS."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import aiohappyeyeballs
import httpx2
from aiohappyeyeballs import AddrInfoType

from engine.providers.failures import Cause, Failure
from engine.providers.http.connection import LARGEST_HEAD, HttpConnection
from engine.providers.http.transport import (
    CLOSED,
    ConnectionFailedError,
    HostPort,
    error_name,
    for_want_of_any,
)

NEXT_ADDRESS_S: Final = 0.25
"""Seconds after which the next address of a host is tried in parallel, as in RFC 8305."""
NAMES_KEPT_S: Final = 60.0
NO_TLS_ANSWER: Final = "accepts connections but does not answer TLS"

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)[ \r]")
_NO_FILES: Final = Failure(Cause.NO_FILES)
_NO_ROUTE: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"}
    | {"PACKET_LENGTH_TOO_LONG", "BAD_RECORD_TYPE"}
)
"""OpenSSL's reasons for a response that is not TLS."""

_NOBODY_THERE: Final = {Cause.UNKNOWN_HOST: "there is no such host", Cause.NO_CONNECTION: ""}
"""Faults of a peer that was not reached, in words where the failure has none."""

P = TypeVar("P", bound=asyncio.BaseProtocol)


@dataclass(slots=True)
class _Progress:
    """How far a connection has come."""

    reached: bool = False
    """Whether the first peer, which may be a proxy, has accepted it."""
    tls_since: float | None = None
    """When TLS began, by the loop's clock; None before that."""


class Connector:
    """Connects to one server, through a proxy if one is given. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        proxy: str | None,
        *,
        connect_s: float,
        trust: Callable[[], ssl.SSLContext],
    ) -> None:
        self._server = urlsplit(url)
        self._proxy = None if proxy is None else urlsplit(proxy)
        self._connect_s = connect_s
        self._trust = trust
        self._trust_lock = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._first = HostPort.of(url if proxy is None else proxy)
        """The peer of the socket."""
        self._lookup: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._stale_at = 0.0

    @property
    def target(self) -> str:
        """The target in a request's first line; a proxy without a tunnel gets the full address."""
        parts = self._server
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return path if self._proxy is None or self._tunnelled else f"http://{parts.netloc}{path}"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the connection adds to every request."""
        password = {} if self._tunnelled else self._proxy_password
        return {"Host": self._server.netloc, **password}

    async def connect(self, make: Callable[[], HttpConnection]) -> HttpConnection:
        """Return a connection that is ready for requests, including TLS and tunnel. Raises
        `ConnectionFailedError`."""
        await self._load_trust()
        progress = _Progress()
        try:
            async with asyncio.timeout(self._connect_s):
                if self._tunnelled:
                    return await self._through_tunnel(make(), progress)
                return (await self._open_first(make, progress))[1]
        except (OSError, UnicodeError) as error:
            failure = failure_of(error, self._tls_peer)
            if progress.tls_since is not None and isinstance(error, TimeoutError):
                waited = asyncio.get_running_loop().time() - progress.tls_since
                words = f"{self._tls_peer} {NO_TLS_ANSWER} within {waited:.2g} s"
                failure = Failure(Cause.NO_TLS_ANSWER, words)
            elif self._proxy and not progress.reached and failure.cause in _NOBODY_THERE:
                words = _NOBODY_THERE[failure.cause] or failure.message
                failure = Failure(Cause.NO_PROXY, f"{self._first}: {words}")
        # raised outside the handler, so that it does not have the other error as its context
        raise ConnectionFailedError(failure)

    @property
    def _tls_peer(self) -> str:
        """The peer that speaks TLS, for people; if the proxy does, it is the proxy."""
        secured = self._proxy if self._proxy and self._proxy.scheme == "https" else self._server
        return str(HostPort.of(secured.geturl()))

    async def _load_trust(self) -> None:
        """Load certificates once, on a thread as that is slow, for all that connect meanwhile."""
        async with self._trust_lock:
            if not self._secure or self._context is not None:
                return
            try:
                self._context = await asyncio.to_thread(self._trust)
            except OSError as error:
                failure = _NO_FILES if for_want_of_any(error) else no_trust(error)
            else:
                return
        raise ConnectionFailedError(failure)

    @property
    def is_relayed(self) -> bool:
        """Whether a proxy answers requests itself, or passes the server's answers on."""
        return self._proxy is not None and not self._tunnelled

    @property
    def _tunnelled(self) -> bool:
        return self._proxy is not None and self._server.scheme == "https"

    @property
    def _secure(self) -> bool:
        return "https" in {self._server.scheme, self._proxy and self._proxy.scheme}

    @property
    def _proxy_password(self) -> Mapping[str, str]:
        proxy = self._proxy
        if proxy is None or proxy.username is None:
            return {}
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    async def _open_first(
        self, make: Callable[[], P], progress: _Progress
    ) -> tuple[asyncio.Transport, P]:
        """Connect to the first peer, which may be the proxy."""
        # not asyncio's own happy eyeballs, which do not say when TLS begins: that distinguishes a
        # server that does not answer from one that does not speak TLS
        sock = await aiohappyeyeballs.start_connection(
            await self._addresses(), happy_eyeballs_delay=NEXT_ADDRESS_S
        )
        progress.reached = True
        if secured := (self._proxy or self._server).scheme == "https":
            progress.tls_since = asyncio.get_running_loop().time()
        return await asyncio.get_running_loop().create_connection(
            make,
            sock=sock,
            ssl=self._context if secured else None,
            server_hostname=_certified_name(self._first.host) if secured else None,
        )

    async def _addresses(self) -> Sequence[AddrInfoType]:
        """Resolve the name once for all conversations that connect at the same time."""
        loop = asyncio.get_running_loop()
        known = self._lookup
        if known is None or (
            known.done() and (_lookup_failed(known) or loop.time() > self._stale_at)
        ):
            host, port = self._first.host, self._first.port
            # AI_ADDRCONFIG: no IPv6 addresses on a machine without IPv6, each of which would fail
            looking_up = loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
            known = self._lookup = loop.create_task(looking_up)
            self._stale_at = loop.time() + NAMES_KEPT_S
        # shielded: cancelling one call must not cancel the lookup of all others
        return await asyncio.shield(known)

    async def _through_tunnel(
        self, connection: HttpConnection, progress: _Progress
    ) -> HttpConnection:
        server = self._server
        # CONNECT always needs a port (RFC 9110, 9.3.6)
        target = server.netloc if server.port else f"{server.netloc}:443"
        transport, tunnel = await self._open_first(ProxyTunnel, progress)
        try:
            await tunnel.open(transport, target, self._proxy_password)
            progress.tls_since = asyncio.get_running_loop().time()
            context = self._context or self._trust()
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, context, server_hostname=_certified_name(server.hostname)
            )
        except BaseException:
            transport.abort()
            raise
        # `start_tls` returns None if the peer has gone meanwhile
        if secured is None:
            raise ConnectionFailedError(CLOSED)
        # it was created before the tunnel, and has not been given its transport yet
        connection.connection_made(secured)
        return connection


class ProxyTunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel. Afterwards another protocol takes the connection over."""

    def __init__(self) -> None:
        self._head = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(
        self, transport: asyncio.WriteTransport, target: str, password: Mapping[str, str]
    ) -> None:
        """Ask for a tunnel to `target` and wait for it. Raises `ConnectionFailedError`."""
        headers = {"Host": target, "User-Agent": "crosswind", **password}
        lines = [f"CONNECT {target} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        transport.write("\r\n".join([*lines, "", ""]).encode())
        match = _STATUS.match(await self._answer)
        if match is None:
            failure = Failure(Cause.PROXY, "it does not answer in HTTP")
            raise ConnectionFailedError(failure)
        # the status is kept: 407 asks for a password, another may mean an unreachable host
        if match[1] != b"200":
            raise ConnectionFailedError(Failure(Cause.PROXY, status=int(match[1])))

    def data_received(self, data: bytes) -> None:
        """Collect the proxy's answer. Nothing can follow its head, as the server speaks only after
        a request."""
        self._head += data
        whole = b"\r\n\r\n" in self._head or len(self._head) > LARGEST_HEAD
        if whole and not self._answer.done():
            self._answer.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail if the proxy hung up without an answer."""
        if not self._answer.done():
            failure = CLOSED if exc is None else Failure(Cause.BROKEN, error_name(exc))
            self._answer.set_exception(ConnectionFailedError(failure))


def _lookup_failed(lookup: asyncio.Task[Sequence[AddrInfoType]]) -> bool:
    return lookup.cancelled() or lookup.exception() is not None


def _certified_name(host: str | None) -> str:
    """Return the name as in certificates, without the final dot of an absolute name."""
    return (host or "").rstrip(".")


@cache
def system_trust() -> ssl.SSLContext:
    """Return the certificates that the official clients trust: the operating system's, or those of
    `SSL_CERT_FILE` or `SSL_CERT_DIR`. Raises `OSError` if they cannot be read."""
    return httpx2.create_ssl_context()


def no_trust(error: OSError) -> Failure:
    """Explain why the trusted certificates cannot be read."""
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), None)
    what = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or ""
    named = what if name is None else f"{name} is {os.environ[name]}: {what}"
    return Failure(Cause.NO_TRUST, named)


def failure_of(error: OSError | UnicodeError, peer: str = "the server") -> Failure:
    """Explain why there is no connection, without anything of the request."""
    match error:
        case _ if for_want_of_any(error):
            return _NO_FILES
        case ssl.SSLCertVerificationError():
            return Failure(Cause.CERTIFICATE)
        # these are OSErrors, too, so the order matters: certificates, TLS, names, sockets
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            words = "it hung up before TLS was agreed on"
            return Failure(Cause.NO_CONNECTION, words)
        case ssl.SSLError() if getattr(error, "reason", "") in _NOT_TLS:
            words = f"{peer} does not speak TLS: write http:// in base_url, or another port"
            return Failure(Cause.TLS, words)
        case ssl.SSLError():
            return Failure(Cause.TLS, f"{peer}: {error_name(error)}")
        case socket.gaierror():
            # EAI_AGAIN: the resolver did not answer, which says nothing about the name
            again = error.errno == socket.EAI_AGAIN
            return Failure(Cause.NETWORK if again else Cause.UNKNOWN_HOST)
        case UnicodeError():
            return Failure(Cause.UNKNOWN_HOST)
        # asyncio's TimeoutError has no errno; the system's ETIMEDOUT has one
        case TimeoutError() if error.errno is None:
            return Failure(Cause.NO_CONNECTION, "it does not answer")
        case _:
            fault = Cause.NETWORK if error.errno in _NO_ROUTE else Cause.NO_CONNECTION
            return Failure(fault, error_name(error))


async def accepts_connection(host_port: HostPort, *, longest_s: float) -> bool:
    """Whether a connection is accepted there. Sends nothing."""
    try:
        async with asyncio.timeout(longest_s):
            _, writer = await asyncio.open_connection(host_port.host, host_port.port)
    except (OSError, UnicodeError):
        return False
    writer.transport.abort()
    return True
