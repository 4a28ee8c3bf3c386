"""The way to a server: its name looked up, a socket, a proxy's tunnel where there is one, TLS."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from engine.providers.attempts import Cause, Failure
from engine.providers.http.base import ConnectionFailedError, Door
from engine.providers.http.connection import CLOSED, LARGEST_HEAD, Connection, reason
from engine.providers.http.descriptors import for_want_of_any

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)[ \r]")


class Tunnel(asyncio.Protocol):
    """Hears whether there is a way. After a yes the connection is for whoever takes it over."""

    def __init__(self) -> None:
        self._head = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def dig(
        self, transport: asyncio.WriteTransport, place: str, password: Mapping[str, str]
    ) -> None:
        """Raises `ConnectionFailedError`."""
        headers = {"Host": place, "User-Agent": "crosswind", **password}
        lines = [f"CONNECT {place} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        transport.write("\r\n".join([*lines, "", ""]).encode())
        match = _STATUS.match(await self._answer)
        if match is None:
            raise ConnectionFailedError(Failure(Cause.BROKEN))
        if match[1] != b"200":
            failure = Failure(Cause.PROXY, status=int(match[1]))
            raise ConnectionFailedError(failure)

    def data_received(self, data: bytes) -> None:
        self._head += data
        whole = b"\r\n\r\n" in self._head or len(self._head) > LARGEST_HEAD
        if whole and not self._answer.done():
            self._answer.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            failure = CLOSED if exc is None else Failure(Cause.BROKEN, reason(exc))
            self._answer.set_exception(ConnectionFailedError(failure))


NEXT_ADDRESS_S: Final = 0.25
"""After which the next address of a host is tried as well, as RFC 8305 says."""
NAMES_KEPT_S: Final = 60.0

NO_FILES: Final = Failure(Cause.NO_FILES)
_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Way:
    """To one server, through a proxy if one is given. Belongs to one event loop."""

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
        self._trusting = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._first = Door.of(url if proxy is None else proxy)
        self._lookup: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._stale_at = 0.0

    @property
    def target(self) -> str:
        """What the first line of a request names: a proxy is told the whole address."""
        parts = self._server
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return path if self._proxy is None or self._tunnelled else f"http://{parts.netloc}{path}"

    @property
    def headers(self) -> Mapping[str, str]:
        """What the way adds to every request."""
        return {"Host": self._server.netloc, **({} if self._tunnelled else self._password)}

    async def connect(self, make: Callable[[], Connection]) -> Connection:
        """Raises `ConnectionFailedError`."""
        await self._load_trust()
        greeted = False

        def in_tls() -> None:
            nonlocal greeted
            greeted = True

        try:
            async with asyncio.timeout(self._connect_s):
                if self._tunnelled:
                    return await self._through_tunnel(make(), in_tls)
                return (await self._opened(make, in_tls))[1]
        except (OSError, UnicodeError) as error:
            failure = failure_of(error, self._secured_place)
            if greeted and isinstance(error, TimeoutError):
                words = f"{self._secured_place} does not answer in TLS: does it speak it?"
                failure = Failure(Cause.NO_CONNECTION, words)
        # outside of the handler, so that the foreign error does not hang on to this one
        raise ConnectionFailedError(failure)

    @property
    def _secured_place(self) -> str:
        """With whom TLS is spoken, as people write it; a proxy that speaks it comes first."""
        secured = self._proxy if self._proxy and self._proxy.scheme == "https" else self._server
        door = Door.of(secured.geturl())
        return f"{door.host}:{door.port}"

    async def _load_trust(self) -> None:
        """Once, as it takes long, however many connect at the same time."""
        async with self._trusting:
            if not self._secure or self._context is not None:
                return
            try:
                self._context = await asyncio.to_thread(self._trust)
            except OSError as error:
                failure = NO_FILES if for_want_of_any(error) else no_trust(error)
            else:
                return
        raise ConnectionFailedError(failure)

    @property
    def _tunnelled(self) -> bool:
        return self._proxy is not None and self._server.scheme == "https"

    @property
    def _secure(self) -> bool:
        return "https" in {self._server.scheme, self._proxy and self._proxy.scheme}

    @property
    def _password(self) -> Mapping[str, str]:
        proxy = self._proxy
        if proxy is None or proxy.username is None:
            return {}
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    async def _opened(
        self, make: Callable[[], P], in_tls: Callable[[], None]
    ) -> tuple[asyncio.Transport, P]:
        """Connected with what comes first, be it the proxy."""
        first = self._proxy or self._server
        sock = await aiohappyeyeballs.start_connection(
            await self._addresses(), happy_eyeballs_delay=NEXT_ADDRESS_S
        )
        secured = first.scheme == "https"
        if secured:
            in_tls()
        return await asyncio.get_running_loop().create_connection(
            make,
            sock=sock,
            ssl=self._context if secured else None,
            server_hostname=_named(self._first.host) if secured else None,
        )

    async def _addresses(self) -> Sequence[AddrInfoType]:
        """A thousand conversations that connect at once look the name up once."""
        loop = asyncio.get_running_loop()
        known = self._lookup
        if known is None or (known.done() and (_failed(known) or loop.time() > self._stale_at)):
            known = self._lookup = loop.create_task(self._looked_up())
            self._stale_at = loop.time() + NAMES_KEPT_S
        return await asyncio.shield(known)

    async def _looked_up(self) -> Sequence[AddrInfoType]:
        return await asyncio.get_running_loop().getaddrinfo(
            self._first.host,
            self._first.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )

    async def _through_tunnel(
        self, connection: Connection, in_tls: Callable[[], None]
    ) -> Connection:
        server = self._server
        place = server.netloc if server.port else f"{server.netloc}:443"
        transport, tunnel = await self._opened(Tunnel, in_tls)
        try:
            await tunnel.dig(transport, place, self._password)
            context = self._context or self._trust()
            in_tls()
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, context, server_hostname=_named(server.hostname)
            )
        except BaseException:
            transport.abort()
            raise
        if secured is None:
            raise ConnectionFailedError(CLOSED)
        connection.connection_made(secured)
        return connection


def _failed(lookup: asyncio.Task[Sequence[AddrInfoType]]) -> bool:
    return lookup.cancelled() or lookup.exception() is not None


def _named(host: str | None) -> str:
    """As certificates name it."""
    return (host or "").rstrip(".")


@cache
def system_trust() -> ssl.SSLContext:
    """The certificates that the official clients trust: those of the operating system, or those
    that `SSL_CERT_FILE` or `SSL_CERT_DIR` names. Raises `OSError` where they cannot be read."""
    import httpx2

    return httpx2.create_ssl_context()


def no_trust(error: OSError) -> Failure:
    """Why there is nothing to check certificates against."""
    name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), None)
    what = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or ""
    named = what if name is None else f"{name} is {os.environ[name]}: {what}"
    return Failure(Cause.NO_TRUST, named)


_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"}
    | {"PACKET_LENGTH_TOO_LONG", "BAD_RECORD_TYPE"}
)
"""What is said of an answer that is none of TLS."""


def failure_of(error: OSError | UnicodeError, place: str = "the server") -> Failure:
    """Why no connection came about, in words that hold nothing of the request."""
    match error:
        case _ if for_want_of_any(error):
            return NO_FILES
        case ssl.SSLCertVerificationError():
            return Failure(Cause.CERTIFICATE)
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Failure(Cause.NO_CONNECTION, "it hung up before TLS was agreed on")
        case ssl.SSLError() if getattr(error, "reason", "") in _NOT_TLS:
            words = f"{place} does not speak TLS: write http:// in base_url, or another port"
            return Failure(Cause.TLS, words)
        case ssl.SSLError():
            return Failure(Cause.TLS, f"{place}: {reason(error)}")
        case socket.gaierror():
            again = error.errno == socket.EAI_AGAIN
            return Failure(Cause.NETWORK if again else Cause.UNKNOWN_HOST)
        case UnicodeError():
            return Failure(Cause.UNKNOWN_HOST)
        case TimeoutError() if error.errno is None:
            return Failure(Cause.NO_CONNECTION, "it does not answer")
        case _:
            no_way = error.errno in _NO_WAY
            return Failure(Cause.NETWORK if no_way else Cause.NO_CONNECTION, reason(error))
