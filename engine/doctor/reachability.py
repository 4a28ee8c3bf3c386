"""One request to each account, with another HTTP client than a run's but under the same rules."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import httpx2

from engine.doctor.findings import Area, Diagnostic, Severity
from engine.doctor.models import ModelInUse
from engine.errors import InputError
from engine.providers.attempts import (
    LONGEST_REFUSAL,
    Cause,
    Failure,
    describe,
    redirect_words,
    refuses_key,
    server_words,
    transport_failure,
)
from engine.providers.endpoint import NO_KEY, Wire, address, checked_headers
from engine.providers.http.connector import NO_TLS_ANSWER, no_trust
from engine.providers.http.proxies import proxy_for
from engine.providers.http.transport import Fault, HostPort
from engine.providers.protocols.anthropic import VERSION
from engine.providers.redaction import Redactor
from engine.trust import UntrustedError

# the client ends a step that takes too long, and closes its socket; cancelled from outside during a
# handshake it would leave it open
_CLOSING_S: Final = 0.5
_CARRIES_KEY: Final = frozenset({"authorization", "x-api-key"})
_MODELS: Final = "/models"
_NO_TLS: Final = "it was connected, but could not agree on TLS"
_TRUST_REMEDY: Final = "let it name a file of certificates, or unset it to trust the system's"
_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH})


@dataclass(frozen=True, slots=True)
class Destination:
    """One account that can be asked for its list of models."""

    wire: Wire
    base_url: str
    key: str | None = field(repr=False)
    """None where it is missing: the request is then sent without a key."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    """The values of variables in its address and in the name of a model there."""
    key_name: str = field(compare=False)
    """The name of the key for people: its variable."""
    hides_path: bool = field(default=False, compare=False)
    """Whether a variable is in its address, so that its path may be a key."""

    @property
    def subject(self) -> str:
        return urlsplit(self.base_url).netloc

    def redactor(self) -> Redactor:
        """Return a redactor of everything secret in its requests."""
        return Redactor([self.key or "", *(value for _, value in self.headers), *self.secrets])


@dataclass(slots=True)
class _RequestProgress:
    """How far a request got."""

    url: str
    proxy: str | None
    reached: bool = False
    """Whether the first peer, which may be the proxy, accepted a connection."""
    connected: bool = False
    in_tls: bool = False
    """Whether the server that is to be asked has not answered TLS yet."""
    status: int | None = None
    """The last status that was received, even if from the proxy."""

    async def follow(self, event: str, details: Mapping[str, Any]) -> None:
        """A trace callback of the HTTP client."""
        match event:
            case "connection.connect_tcp.complete":
                self.reached = True
                # through a proxy that has to open a tunnel first, its own connection says little
                self.connected = self.proxy is None or urlsplit(self.url).scheme != "https"
            case "connection.start_tls.started":
                self.in_tls = self.proxy is None
            case "proxy.start_tls.started":
                self.connected = self.in_tls = True
            case "connection.start_tls.complete" | "proxy.start_tls.complete":
                self.in_tls = False
            case "http11.receive_response_headers.complete":
                self.status = details["return_value"][1]

    @property
    def silence(self) -> str:
        """What did not come in time, said of the server."""
        if self.in_tls:
            return NO_TLS_ANSWER
        if self.connected:
            # a proxy without a tunnel accepts connections whether there is a server or not
            relayed = self.proxy is not None and urlsplit(self.url).scheme != "https"
            return "does not answer" if relayed else "accepts connections but does not answer"
        return "was not reached: no connection came about"

    @property
    def silence_cause(self) -> Fault:
        if self.in_tls:
            return Fault.NO_TLS_ANSWER
        return Fault.BROKEN if self.connected else Fault.NO_CONNECTION


def destinations(models: Sequence[ModelInUse]) -> list[Destination]:
    """The accounts that a run would use, without duplicates, in the order of the models."""
    return list(dict.fromkeys(_destinations(models)))


def _destinations(models: Sequence[ModelInUse]) -> Iterator[Destination]:
    for model in models:
        endpoint = model.endpoint
        if endpoint is None:
            continue
        key: str | None
        try:
            key = endpoint.key()
        except UntrustedError:
            raise
        except InputError:
            key = None
        try:
            headers = checked_headers(endpoint.headers())
        except InputError:
            headers = {}
        apikey = model.spec.apikey
        name = "" if apikey is None else ", ".join(apikey.variables)
        yield Destination(
            endpoint.wire,
            endpoint.base_url,
            key,
            tuple(headers.items()),
            endpoint.secrets,
            name or "apikey",
            hides_path=model.hides_path,
        )


async def check_reachability(
    places: Sequence[Destination], *, longest_s: float
) -> list[Diagnostic]:
    """Ask all concurrently; the findings are in the order of the places."""
    if not places:
        return []
    try:
        trust = await asyncio.to_thread(httpx2.create_ssl_context)
    except OSError as error:
        return await _unsafe(places, describe(transport_failure(no_trust(error))), longest_s)
    return list(await asyncio.gather(*(_reach(place, trust, longest_s) for place in places)))


async def _unsafe(places: Sequence[Destination], why: str, longest_s: float) -> list[Diagnostic]:
    """Without trusted certificates, ask only the places that need none."""
    # a context without certificates: any TLS connection, as behind a proxy, is refused
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    findings = []
    for place in places:
        if urlsplit(place.base_url).scheme == "https":
            findings.append(
                _finding(place, Severity.PROBLEM, f"was not tried: {why}", _TRUST_REMEDY)
            )
        else:
            findings.append(await _reach(place, nobody, longest_s))
    return findings


async def _reach(place: Destination, trust: ssl.SSLContext, longest_s: float) -> Diagnostic:
    url, headers = await asyncio.to_thread(_question, place)
    redact = place.redactor()
    try:
        proxy = proxy_for(url)
    except InputError as error:
        return _finding(place, Severity.PROBLEM, f"was not tried: {error}")
    way = _RequestProgress(url, proxy)
    try:
        # before the clock starts, as the first client loads many modules
        async with await asyncio.to_thread(_client, trust, proxy, longest_s) as client:
            began = time.monotonic()
            async with (
                asyncio.timeout(longest_s + _CLOSING_S),
                client.stream(
                    "GET", url, headers=headers, extensions={"trace": way.follow}
                ) as response,
            ):
                took = round((time.monotonic() - began) * 1000)
                body = b""
                if response.is_client_error:
                    body = await anext(response.aiter_bytes(LONGEST_REFUSAL), b"")
                location = response.headers.get("location", "")
                return _answered(place, response.status_code, location, took, body)
    except (TimeoutError, httpx.TimeoutException):
        sentence = f"{way.silence} within {longest_s:g} s"
        remedy = _remedy(way.silence_cause, place, proxy)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        sentence, cause = _failure_words(error, way)
        remedy = _remedy(cause, place, proxy)
    return _finding(place, Severity.PROBLEM, redact(sentence), remedy)


def _question(place: Destination) -> tuple[str, Mapping[str, str]]:
    """The address of the list of models, or of an application itself, and the headers of a run. As
    slow as `address` the first time."""
    where = address(place.wire, place.base_url, place.key or NO_KEY)
    headers = {**where.headers, "Accept": "application/json"}
    if place.key is None:
        headers = {
            name: value for name, value in headers.items() if name.lower() not in _CARRIES_KEY
        }
    if place.wire.is_application:
        return where.url, {**headers, **dict(place.headers)}
    if place.wire is Wire.ANTHROPIC:
        headers["anthropic-version"] = VERSION
    tail = "/messages" if place.wire is Wire.ANTHROPIC else "/chat/completions"
    return where.url.removesuffix(tail) + _MODELS, {**headers, **dict(place.headers)}


def _client(trust: ssl.SSLContext, proxy: str | None, longest_s: float) -> httpx.AsyncClient:
    """A client with the certificates, proxy and redirect rules of a run. No step may take longer
    than `longest_s`."""
    way = None
    if proxy is not None:
        # otherwise a proxy that speaks TLS would be checked against other certificates
        checked = trust if urlsplit(proxy).scheme == "https" else None
        way = httpx.Proxy(proxy, ssl_context=checked)
    client = httpx.AsyncClient(
        verify=trust, proxy=way, trust_env=False, follow_redirects=False, timeout=longest_s
    )
    # a run sends the name of the official client, which is among the request's headers
    del client.headers["User-Agent"]
    return client


def _failure_words(error: Exception, way: _RequestProgress) -> tuple[str, Cause | Fault]:
    """The failure in words that contain nothing of the request, and its cause."""
    failure = _failure(error, way)
    return (_NO_TLS, Fault.TLS) if failure is None else (describe(failure), failure.cause)


def _failure(error: Exception, way: _RequestProgress) -> Failure | None:
    """None where the two sides could not agree on TLS."""
    if isinstance(error, httpx.ProxyError):
        return Failure(Fault.PROXY, status=way.status)
    beneath = list(_causes(error))
    for fault in beneath:
        match fault:
            case ssl.SSLCertVerificationError():
                return Failure(Fault.CERTIFICATE)
            case ssl.SSLEOFError():
                # no TLS disagreement: the other side hung up
                continue
            # after its two more specific subclasses
            case ssl.SSLError():
                return None
            case socket.gaierror():
                # no answer from the resolver differs from a name that does not exist
                again = fault.errno == socket.EAI_AGAIN
                return Failure(Fault.NETWORK) if again else _not_there(way, Fault.UNKNOWN_HOST, "")
    # this error has no other cause, unless the answer was not HTTP
    if isinstance(error, httpx.RemoteProtocolError) and len(beneath) > 2:
        return Failure(Fault.NOT_HTTP)
    if not isinstance(error, httpx.ConnectError):
        return Failure(Fault.BROKEN, _connection_failure(error, beneath))
    numbers = _numbers(beneath)
    no_way = bool(numbers) and _NO_WAY.issuperset(numbers)
    word = _errno_word(numbers)
    return Failure(Fault.NETWORK, word) if no_way else _not_there(way, Fault.NO_CONNECTION, word)


def _not_there(way: _RequestProgress, fault: Fault, word: str) -> Failure:
    """The failure of the first peer, which may be the proxy."""
    if way.proxy is None or way.reached:
        return Failure(fault, word)
    return Failure(Fault.NO_PROXY, f"{HostPort.of(way.proxy)}: {word or 'there is no such host'}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all its causes, including one for each address that was tried."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _causes(part)
    earlier = error.__cause__ or error.__context__
    if earlier is not None:
        yield from _causes(earlier)


def _connection_failure(error: Exception, beneath: Sequence[BaseException]) -> str:
    if isinstance(error, httpx.RemoteProtocolError):
        return "the server closed it"
    return _errno_word(_numbers(beneath))


def _numbers(beneath: Sequence[BaseException]) -> list[int]:
    """The system's error numbers; those of TLS have another meaning."""
    return [
        fault.errno
        for fault in beneath
        if isinstance(fault, OSError)
        and not isinstance(fault, ssl.SSLError)
        and fault.errno is not None
    ]


def _errno_word(numbers: Sequence[int]) -> str:
    """The name of an error number; of several, one that shows that a host was reached."""
    # a host may have several addresses, and one without a route says nothing about the others
    met = [number for number in numbers if number not in _NO_WAY] or numbers
    return errno.errorcode.get(met[0], "").lower() if met else ""


def _answered(
    place: Destination, status: int, location: str, took_ms: int, body: bytes
) -> Diagnostic:
    reached = f"reached in {took_ms} ms"
    if place.wire.is_application and status in _OF_NO_MESSAGE:
        # it was sent a GET, not a message, so these answers say little
        sentence = f"{reached}; `crosswind doctor --call` sends it a message"
        return _finding(place, Severity.OK, sentence)
    no_key = refuses_key(status, body)
    if place.key is None and (no_key or status == 403):
        return _finding(
            place, Severity.OK, f"{reached}; {place.key_name} is missing, so no key was tried"
        )
    if no_key:
        own = place.redactor()(server_words(status, body))
        return _finding(
            place,
            Severity.PROBLEM,
            f"{reached}, but the key was refused ({status}): {place.key_name}"
            + (f" ({own})" if own else ""),
            "check the key: is it of this provider, and still valid?",
        )
    match status:
        # keys can be limited to calls, so the key may be valid
        case 403:
            return _finding(
                place,
                Severity.NOTE,
                f"{reached}, but the key may not list models (403); it may be able to call them",
                "`crosswind doctor --call` tries each model",
            )
        case 407:
            return _finding(
                place,
                Severity.PROBLEM,
                "407: the proxy asks for a password",
                "write it into the proxy's address, http://name:password@host",
            )
        case 404 | 405:
            return _finding(
                place,
                Severity.NOTE,
                f"{reached}, but there is no list of models at this address ({status})",
                "see that base_url is right; `crosswind doctor --call` tries each model",
            )
        case 429:
            return _finding(place, Severity.NOTE, f"{reached}; it limits requests at present (429)")
    return _answered_otherwise(place, status, location, reached)


_OF_NO_MESSAGE: Final = frozenset({*range(200, 300), 400, 401, 403, 404, 405, 406, 415, 422})


def _answered_otherwise(place: Destination, status: int, location: str, reached: str) -> Diagnostic:
    if 200 <= status < 300:
        # not more: some servers show their models to anybody
        with_key = "" if place.key in {None, NO_KEY} else f", {place.key_name} was not refused"
        return _finding(place, Severity.OK, f"{reached}{with_key}")
    if 300 <= status < 400:
        target = "" if place.hides_path else redirect_words(location)
        elsewhere = f" to {target}" if target else ""
        tail = "" if place.wire.is_application else f" without {_MODELS}"
        return _finding(
            place,
            Severity.PROBLEM,
            f"{reached}, but it redirects{elsewhere} ({status}), which a run never follows",
            f"write the address that it redirects to{tail} into base_url, if you trust it",
        )
    state = Severity.PROBLEM if status >= 500 else Severity.NOTE
    return _finding(place, state, f"{reached}, but it answers with {status}")


def _remedy(cause: Cause | Fault, place: Destination, proxy: str | None) -> str:
    if cause in {Fault.PROXY, Fault.NO_PROXY}:
        return "look at HTTPS_PROXY and NO_PROXY, and ask whoever runs the proxy"
    if cause is Fault.CERTIFICATE:
        return "add the certificate to those that this system trusts, if it is known to be right"
    if cause is Fault.TLS:
        return "write http:// in base_url, if the server speaks no TLS, or another port"
    if cause is Fault.NO_TLS_ANSWER:
        return (
            "write http:// in base_url, if the server speaks no TLS; else see its port and its log"
        )
    if cause is Fault.NOT_HTTP:
        return "see what answers at base_url: it is no server of models"
    if cause is Fault.BROKEN:
        without_tls = place.base_url.startswith("http://")
        tls = "write https:// in base_url, if the server speaks TLS, or " if without_tls else ""
        return f"{tls}see what the server logs"
    # before the proxy, which is not used for this machine
    if HostPort.of(place.base_url).local:
        return "start the server, or see that base_url has its port"
    if proxy is not None:
        return "check base_url and the proxy (HTTPS_PROXY, NO_PROXY)"
    return "check base_url, the network, and whether a proxy is needed (HTTPS_PROXY)"


def _finding(
    place: Destination, state: Severity, sentence: str, remedy: str | None = None
) -> Diagnostic:
    if remedy is not None and place.wire.is_application:
        remedy = remedy.replace("base_url", "url")
    return Diagnostic(Area.REACH, place.subject, state, sentence, remedy)


# For the check before a run


@dataclass(frozen=True, slots=True)
class ModelListing:
    """The answer of an account that was asked for its models."""

    status: int | None = None
    """None where there was no answer."""
    body: bytes = b""
    """The first `LONGEST_LIST` bytes."""
    failure: Failure | None = None
    silence: str = ""
    """What did not come in time, said of the server."""


LONGEST_LIST: Final = 4 * 1024 * 1024
"""Bytes. OpenRouter's list has half a megabyte."""


async def listed(place: Destination, trust: ssl.SSLContext, *, longest_s: float) -> ModelListing:
    """An account's list of models. Never raises: the result has the failure."""
    url, headers = await asyncio.to_thread(_question, place)
    try:
        proxy = proxy_for(url)
    except InputError:
        return ModelListing(failure=Failure(Fault.PROXY))
    way = _RequestProgress(url, proxy)
    body = bytearray()
    try:
        async with await asyncio.to_thread(_client, trust, proxy, longest_s) as client:
            question = client.stream("GET", url, headers=headers, extensions={"trace": way.follow})
            async with asyncio.timeout(longest_s + _CLOSING_S), question as response:
                async for piece in response.aiter_bytes(65_536):
                    body += piece
                    if len(body) > LONGEST_LIST:
                        break
                return ModelListing(response.status_code, bytes(body[:LONGEST_LIST]))
    except (TimeoutError, httpx.TimeoutException):
        return ModelListing(silence=f"{way.silence} within {longest_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return ModelListing(failure=_failure(error, way) or Failure(Fault.TLS))
