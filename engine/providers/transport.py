"""The connections of one account: a request goes out, a stream of bytes comes back."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from engine.errors import InputError, Problem
from engine.providers.attempts import Cause, Failure
from engine.providers.endpoint import LOOPBACK
from engine.providers.line import Answer, ConnectionFailedError, Door
from engine.providers.sdk import Address

KEEP_ALIVE_S: Final = 90.0
"""Between two turns of a conversation a connection waits for the other side to speak."""
CONNECT_S: Final = 20.0

_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})


class _Body:
    """An answer as it comes in."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }

    async def chunk(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            failure = failure_of(error)
        # outside of the handler, so that the foreign error does not hang on to this one
        raise ConnectionFailedError(failure)


class Connections:
    """Opened with the first request, kept alive between requests, shared by all of an account."""

    def __init__(
        self, address: Address, *, keep_alive_s: float = KEEP_ALIVE_S, connect_s: float = CONNECT_S
    ) -> None:
        self._address = address
        # as it is: what looks escaped in a path is not to be escaped again
        self._url = URL(address.url, encoded=True)
        self._proxy = proxy_for(address.url)
        self._keep_alive_s = keep_alive_s
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=connect_s, sock_read=None
        )
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(self, headers: Mapping[str, str], body: bytes) -> AsyncIterator[Answer]:
        session = self._session or await self._open()
        response = await self._send(session, headers, body)
        if isinstance(response, Failure):
            raise ConnectionFailedError(response)
        try:
            yield _Body(response)
        finally:
            # goes back to the others if it was read to its end, and is closed if not
            response.release()

    async def _send(
        self, session: aiohttp.ClientSession, headers: Mapping[str, str], body: bytes
    ) -> aiohttp.ClientResponse | Failure:
        merged = CIMultiDict(self._address.headers)
        merged.update(headers)
        try:
            return await session.post(
                self._url,
                data=body,
                headers=merged,
                allow_redirects=False,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            return failure_of(error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _open(self) -> aiohttp.ClientSession:
        trust = await asyncio.to_thread(_trust)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=self._keep_alive_s,
                    ssl=trust,
                    ttl_dns_cache=60,
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent",),
                # no password files; proxies are looked up here instead
                trust_env=False,
            )
        return self._session


@cache
def _trust() -> ssl.SSLContext:
    """The certificates that the official clients trust: those of the operating system."""
    import httpx2

    return httpx2.create_ssl_context()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address. Raises `InputError` for a kind that
    cannot be used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in LOOPBACK or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise InputError(
            Problem(
                f"the environment names a {urlsplit(proxy).scheme or 'nameless'} proxy for {host}, "
                "but only http and https proxies can be used",
                hint="set HTTPS_PROXY, or add the host to NO_PROXY",
            )
        )
    return proxy or None


async def answers(door: Door) -> bool:
    """Whether anybody there accepts a connection."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(door.host, door.port)
    except OSError:
        return False
    writer.close()
    return True


def failure_of(error: Exception) -> Failure:
    """What a foreign exception means, in words that hold nothing of the request."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            return Failure(Cause.CERTIFICATE)
        case aiohttp.ClientConnectorDNSError():
            again = isinstance(error.os_error, socket.gaierror) and (
                error.os_error.errno == socket.EAI_AGAIN
            )
            return Failure(Cause.NETWORK if again else Cause.UNKNOWN_HOST)
        case aiohttp.ClientHttpProxyError():
            return Failure(Cause.STATUS, "the proxy refused", error.status)
        case aiohttp.ClientConnectorError():
            no_way = error.os_error.errno in _NO_WAY
            cause = Cause.NETWORK if no_way else Cause.NO_CONNECTION
            return Failure(cause, _reason(error.os_error))
        case aiohttp.ConnectionTimeoutError():
            return Failure(Cause.NO_CONNECTION, "it does not answer")
        case aiohttp.ServerDisconnectedError():
            return Failure(Cause.BROKEN, "the server closed it")
        case aiohttp.ClientOSError():
            return Failure(Cause.BROKEN, _reason(error))
        case _:
            return Failure(Cause.BROKEN)


def _reason(error: OSError) -> str:
    return "" if error.errno is None else errno.errorcode.get(error.errno, "").lower()
