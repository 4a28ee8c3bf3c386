"""How applications are reached: over httpx2, as they may set cookies, redirect, and ask for a
digest of a password."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

import httpx2

from engine.providers.failures import Cause, Failure
from engine.providers.http.connector import failure_of, no_trust, system_trust
from engine.providers.http.proxies import is_of_proxy, proxy_for
from engine.providers.http.transport import (
    CLOSED,
    CONNECT_S,
    Address,
    ConnectionFailedError,
    HostPort,
    OnBody,
    OnResponse,
    any_left,
    error_name,
    wait_words,
)

MOST_REDIRECTS: Final = 5
_LOGIN: Final = re.compile(r"(basic|digest) ([^:]+):(.*)", re.IGNORECASE)
_STATUS: Final = re.compile(r"[1-5]\d\d\b")


class ApplicationTransport:
    """A `Transport` without kept connections: none breaks under a request that would then be sent a
    second time, and none brings an answer to nothing that is taken for another's.

    An `Authorization` of `Basic USER:PASSWORD` or `Digest USER:PASSWORD` is carried out. The
    handler of a response finds under `cookie` what to send back: the request's cookies, and those
    that were set.
    """

    _kind: type[httpx2.AsyncHTTPTransport] = httpx2.AsyncHTTPTransport

    def __init__(
        self,
        address: Address,
        *,
        connect_s: float = CONNECT_S,
        trust: Callable[[], ssl.SSLContext] = system_trust,
    ) -> None:
        """`trust` is called on a thread when it is first needed. Raises `InputError` if the
        environment names an unusable proxy."""
        self._address = address
        self._proxy = proxy_for(address.url)
        self._timeout = httpx2.Timeout(None, connect=connect_s)
        self._trust = trust
        self._opening = asyncio.Lock()
        self._open: httpx2.AsyncHTTPTransport | None = None

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """As `Transport`."""
        opened = await self._opened()
        try:
            await self._post(opened, {**self._address.headers, **headers}, body, on_response)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            failure = self._failure(error)
        else:
            return
        # raised outside the handler, so that it does not have the other error as its context
        raise ConnectionFailedError(failure)

    async def _post(
        self,
        opened: httpx2.AsyncHTTPTransport,
        headers: Mapping[str, str],
        body: bytes,
        on_response: OnResponse,
    ) -> None:
        # one for each request, as a client keeps the cookies that it is given, for whomever; it is
        # not closed, which would close what all of them share
        client = httpx2.AsyncClient(transport=opened, trust_env=False, timeout=self._timeout)
        kept, auth = httpx2.Headers(dict(headers)), None
        if login := _LOGIN.fullmatch(kept.get("authorization", "")):
            del kept["authorization"]
            scheme = httpx2.BasicAuth if login[1].lower() == "basic" else httpx2.DigestAuth
            auth = scheme(login[2], login[3])
        cookies = _cookies_in(kept.pop("cookie", ""))
        request = client.build_request("POST", self._address.url, headers=kept, content=body)
        for _ in range(MOST_REDIRECTS + 1):
            if cookies:
                request.headers["Cookie"] = _header_of(cookies)
            response = await client.send(request, stream=True, auth=auth)
            try:
                cookies |= {each.name: each.value or "" for each in response.cookies.jar}
                following = self._redirect(response)
                if following is None:
                    on_body = self._heard(response, cookies, on_response)
                    async for piece in response.aiter_bytes():
                        on_body(piece)
                    return
            finally:
                await response.aclose()
            request = following
            # what the jar of the client holds is what `cookies` holds
            client.cookies.clear()
        words = f"more than {MOST_REDIRECTS} redirects"
        raise ConnectionFailedError(Failure(Cause.NOT_HTTP, words))

    def _redirect(self, response: httpx2.Response) -> httpx2.Request | None:
        """The request that a redirect leads to; None where it is not followed: keys and messages
        are for this host alone, and never for one without encryption."""
        following = response.next_request
        if not self._address.follow_redirects or following is None:
            return None
        here, there = httpx2.URL(self._address.url), following.url
        is_upgrade = (here.scheme, there.scheme) == ("http", "https") and here.host == there.host
        same = (here.scheme, here.host, here.port) == (there.scheme, there.host, there.port)
        return following if same or is_upgrade else None

    def _heard(
        self, response: httpx2.Response, cookies: Mapping[str, str], on_response: OnResponse
    ) -> OnBody:
        status, headers = response.status_code, dict(response.headers)
        if self._is_relayed and is_of_proxy(status, headers):
            raise ConnectionFailedError(Failure(Cause.PROXY, status=status))
        return on_response(status, headers | ({"cookie": _header_of(cookies)} if cookies else {}))

    @property
    def _is_relayed(self) -> bool:
        return self._proxy is not None and self._address.url.startswith("http://")

    async def _opened(self) -> httpx2.AsyncHTTPTransport:
        """Load certificates once, on a thread as that is slow."""
        async with self._opening:
            if self._open is None:
                try:
                    self._open = await asyncio.to_thread(self.new_transport)
                except OSError as error:
                    failure = no_trust(error)
                else:
                    return self._open
                raise ConnectionFailedError(failure)
            return self._open

    def new_transport(self) -> httpx2.AsyncHTTPTransport:
        """Slow, as it reads certificates. Raises `OSError` if they cannot be read."""
        is_secure = "https://" in f"{self._address.url} {self._proxy}"
        return self._kind(
            verify=self._trust() if is_secure else False,
            proxy=self._proxy,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,
        )

    def _failure(self, error: BaseException | None) -> Failure:
        """Contains nothing of the request."""
        cause = next(_system_errors(error), None)
        match error:
            case httpx2.ProxyError():
                status = _STATUS.match(str(error))
                return Failure(Cause.PROXY, status=int(status[0]) if status else None)
            case httpx2.ConnectTimeout() | httpx2.ConnectError():
                peer = self._proxy or self._address.url
                found = failure_of(cause or TimeoutError(), str(HostPort.of(self._address.url)))
                nobody = {Cause.UNKNOWN_HOST, Cause.NO_CONNECTION}
                if self._proxy is not None and found.cause in nobody:
                    words = found.message or "there is no such host"
                    return Failure(Cause.NO_PROXY, f"{HostPort.of(peer)}: {words}")
                return found
            case httpx2.DecodingError():
                return Failure(Cause.NOT_HTTP, "its body cannot be decompressed")
            case httpx2.RemoteProtocolError() if "closed" in str(error) or "disc" in str(error):
                return CLOSED
            case httpx2.ProtocolError():
                return Failure(Cause.NOT_HTTP)
            case _:
                return Failure(Cause.BROKEN, error_name(cause)) if cause else CLOSED

    def waits_for(self) -> str | None:
        """As `Transport`: for an open file."""
        return None if any_left() else wait_words()

    async def close(self) -> None:
        """As `Transport`."""
        if self._open is not None:
            await self._open.aclose()


def _cookies_in(header: str) -> dict[str, str]:
    try:
        return {name: each.value for name, each in SimpleCookie(header).items()}
    except CookieError:
        return {}


def _header_of(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def _system_errors(error: BaseException | None) -> Iterator[OSError | UnicodeError]:
    """The errors of the system behind one of httpx, the first cause first."""
    if error is None:
        return
    yield from _system_errors(error.__cause__ or error.__context__)
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _system_errors(each)
    if isinstance(error, OSError | UnicodeError) and not isinstance(error, TimeoutError):
        yield error
