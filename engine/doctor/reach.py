"""One question to each account, sent the way a run sends its own: is anybody there?"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import httpx2
from yarl import URL

from engine.doctor.findings import Area, Finding, State
from engine.doctor.models import ModelInUse, usable_proxy
from engine.errors import InputError
from engine.providers.anthropic_wire import VERSION
from engine.providers.attempts import Cause, describe
from engine.providers.endpoint import NO_KEY, Wire, checked_headers
from engine.providers.line import Door
from engine.providers.redaction import Redactor
from engine.providers.sdk import address
from engine.providers.transport import failure_of

_CARRIES_KEY: Final = frozenset({"authorization", "x-api-key"})


@dataclass(frozen=True, slots=True)
class Destination:
    """One account, as it is asked for the list of its models."""

    wire: Wire
    base_url: str
    key: str | None = field(repr=False)
    """None where it is missing: then it is asked without one."""
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    key_name: str = field(compare=False)
    """What people call the key: its variable."""

    @property
    def subject(self) -> str:
        return urlsplit(self.base_url).netloc


@dataclass(slots=True)
class _Way:
    """How far a request came."""

    name_found: bool = False
    connected: bool = False

    @property
    def silence(self) -> str:
        if self.connected:
            return "it was connected, but did not answer"
        return (
            "its name was found, but nothing took the connection"
            if self.name_found
            else ("no connection came about")
        )


def destinations(models: Sequence[ModelInUse]) -> list[Destination]:
    """Every account that a run would use, once, in the order of the models."""
    return list(dict.fromkeys(_destinations(models)))


def _destinations(models: Sequence[ModelInUse]) -> Iterator[Destination]:
    for model in models:
        endpoint = model.endpoint
        if endpoint is None:
            continue
        key: str | None
        try:
            key = endpoint.key()
        except InputError:
            key = None
        try:
            headers = checked_headers(endpoint.headers())
        except InputError:
            headers = {}
        apikey = model.spec.apikey
        name = "" if apikey is None else ", ".join(apikey.variables)
        yield Destination(
            endpoint.wire, endpoint.base_url, key, tuple(headers.items()), name or "apikey"
        )


async def reach(places: Sequence[Destination], *, longest_s: float) -> list[Finding]:
    """Asks all at once; the findings come in the order of the places."""
    if not places:
        return []
    trust = await asyncio.to_thread(httpx2.create_ssl_context)
    return list(await asyncio.gather(*(_reach(place, trust, longest_s) for place in places)))


async def _reach(place: Destination, trust: ssl.SSLContext, longest_s: float) -> Finding:
    url, headers = await asyncio.to_thread(_question, place)
    redact = Redactor([place.key or "", *(value for _, value in place.headers)])
    try:
        proxy = usable_proxy(url)
    except InputError as error:
        return _finding(place, State.PROBLEM, f"was not tried: {error}")
    way = _Way()
    began = time.monotonic()
    try:
        async with (
            asyncio.timeout(longest_s),
            _session(trust, way) as session,
            session.get(
                URL(url, encoded=True), headers=headers, allow_redirects=False, proxy=proxy
            ) as response,
        ):
            took = round((time.monotonic() - began) * 1000)
            location = response.headers.get("location", "")
            return _answered(place, response.status, location, took)
    except TimeoutError:
        sentence, cause = f"{way.silence} within {longest_s:g} s", Cause.NO_CONNECTION
    except aiohttp.ClientConnectorSSLError:
        sentence, cause = "it was connected, but could not agree on TLS", Cause.BROKEN
    except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
        failure = failure_of(error)
        sentence, cause = redact(describe(failure)), failure.cause
    return _finding(place, State.PROBLEM, sentence, _remedy(cause, place, proxy))


def _question(place: Destination) -> tuple[str, Mapping[str, str]]:
    """Where the list of models is, and the headers of a run. Imports the official clients."""
    where = address(place.wire, place.base_url, place.key or NO_KEY)
    headers = {**where.headers, "Accept": "application/json"}
    if place.key is None:
        headers = {
            name: value for name, value in headers.items() if name.lower() not in _CARRIES_KEY
        }
    if place.wire is Wire.ANTHROPIC:
        headers["anthropic-version"] = VERSION
    tail = "/messages" if place.wire is Wire.ANTHROPIC else "/chat/completions"
    return where.url.removesuffix(tail) + "/models", {**headers, **dict(place.headers)}


def _session(trust: ssl.SSLContext, way: _Way) -> aiohttp.ClientSession:
    """As the connections of a run are opened, but kept for one question."""
    trace = aiohttp.TraceConfig()

    async def found(*_: object) -> None:
        way.name_found = True

    async def connected(*_: object) -> None:
        way.connected = True

    trace.on_dns_resolvehost_end.append(found)
    trace.on_connection_create_end.append(connected)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trust, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent",),
        trust_env=False,
        trace_configs=[trace],
    )


def _answered(place: Destination, status: int, location: str, took_ms: int) -> Finding:
    reached = f"reached in {took_ms} ms"
    match status:
        case 401 | 403 if place.key is None:
            return _finding(
                place, State.OK, f"{reached}; {place.key_name} is missing, so no key was tried"
            )
        case 401:
            return _finding(
                place,
                State.PROBLEM,
                f"{reached}, but the key was refused (401): {place.key_name}",
                "check the key: is it of this provider, and still valid?",
            )
        case 403:
            return _finding(
                place,
                State.NOTE,
                f"{reached}, but the key may not list models (403); it may be able to call them",
                "`crosswind doctor --call` tries each model",
            )
        case 407:
            return _finding(
                place,
                State.PROBLEM,
                "the proxy asks for a password (407)",
                "write it into the proxy's address, http://name:password@host",
            )
        case 404 | 405:
            return _finding(
                place,
                State.NOTE,
                f"{reached}, but there is no list of models at this address ({status})",
                "see that base_url is right; `crosswind doctor --call` tries each model",
            )
        case 429:
            return _finding(place, State.NOTE, f"{reached}; it limits requests at present (429)")
    if 200 <= status < 300:
        # no more than that: some servers show their models to anybody
        with_key = "" if place.key in {None, NO_KEY} else f", {place.key_name} was not refused"
        return _finding(place, State.OK, f"{reached}{with_key}")
    if 300 <= status < 400:
        # not the whole address: what is behind the host may hold anything
        target = urlsplit(location).hostname
        elsewhere = f" to {target}" if target else ""
        return _finding(
            place,
            State.PROBLEM,
            f"{reached}, but it redirects{elsewhere} ({status}), which a run never follows",
            "write the address that it redirects to into base_url, if you trust it",
        )
    state = State.PROBLEM if status >= 500 else State.NOTE
    return _finding(place, state, f"{reached}, but it answers with {status}")


def _remedy(cause: Cause, place: Destination, proxy: str | None) -> str:
    if cause is Cause.CERTIFICATE:
        return "add the certificate to those that this system trusts, if it is known to be right"
    if Door.of(place.base_url).local:
        return "start the server, or see that base_url has its port"
    if proxy is not None:
        return "check base_url and the proxy (HTTPS_PROXY, NO_PROXY)"
    return "check base_url, the network, and whether a proxy is needed (HTTPS_PROXY)"


def _finding(place: Destination, state: State, sentence: str, remedy: str | None = None) -> Finding:
    return Finding(Area.REACH, place.subject, state, sentence, remedy)
