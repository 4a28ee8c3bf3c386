"""One request to each account, by the HTTP client of a run; where that fails, one by another."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from engine.display import one_line
from engine.doctor.findings import Area, Diagnostic, Effect, Severity
from engine.doctor.models import ModelInUse
from engine.errors import InputError
from engine.providers.attempts import (
    LONGEST_REFUSAL,
    describe,
    redirect_words,
    refuses_key,
    server_words,
)
from engine.providers.endpoint import NO_KEY, PATHS, Endpoint, Wire, address, checked_headers
from engine.providers.failures import Cause, Failure
from engine.providers.http.connector import NO_TLS_ANSWER, system_trust
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.proxies import proxy_for
from engine.providers.http.transport import (
    Address,
    ConnectionFailedError,
    HostPort,
    OnBody,
)
from engine.providers.protocols.anthropic import VERSION
from engine.providers.redaction import Redactor
from engine.trust import UntrustedError

_CARRIES_KEY: Final = frozenset({"authorization", "api-key", "x-api-key"})
_MODELS: Final = "/models"
COMPLETE: Final = frozenset(
    {
        "api.openai.com",
        "api.anthropic.com",
        "api.groq.com",
        "api.mistral.ai",
        "api.x.ai",
        "openrouter.ai",
    }
)
"""Hosts that list every model that they serve to a key. Other servers accept unlisted names:
llama-server takes any, gateways have wildcards, some load models on demand."""
_MAY_NOT_LIST: Final = (b"scope", b"permission")
"""What a refusal says where the key is good, but not for lists."""


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
    follow_redirects: bool = field(default=False, compare=False)

    @property
    def subject(self) -> str:
        return urlsplit(self.base_url).netloc

    def redactor(self) -> Redactor:
        """Return a redactor of everything secret in its requests."""
        return Redactor([self.key or "", *(value for _, value in self.headers), *self.secrets])


def names_by_destination(models: Iterable[ModelInUse]) -> dict[Destination, list[str]]:
    """The accounts that a run would use, in the order of the models, each with the names of the
    models that are wanted from it."""
    wanted: dict[Destination, list[str]] = {}
    for model in models:
        if model.endpoint is not None:
            place = _destination(model, model.endpoint)
            wanted.setdefault(place, []).append(model.endpoint.model)
    return wanted


def _destination(model: ModelInUse, endpoint: Endpoint) -> Destination:
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
    return Destination(
        endpoint.wire,
        endpoint.base_url,
        key,
        tuple(headers.items()),
        endpoint.secrets,
        name or "apikey",
        hides_path=model.hides_path,
        follow_redirects=bool(endpoint.application and endpoint.application.follow_redirects),
    )


LONGEST_LIST: Final = 4 * 1024 * 1024
"""Bytes. OpenRouter's list has half a megabyte."""
_TO_CONNECT: Final = 0.9
"""The share of the time in which there must be a connection: then it is known what was late."""


class _EnoughError(Exception):
    """All is read of an answer that is looked at."""


@dataclass(slots=True)
class _Listing:
    """The answer of an account that was asked for its models by the client of a run."""

    status: int | None = None
    """None where there was no answer."""
    location: str = ""
    """Where a redirect leads."""
    took_ms: int = 0
    """Until the answer began."""
    body: bytearray = field(default_factory=bytearray)
    """The first `LONGEST_LIST` bytes."""
    failure: Failure | None = None
    silence: str = ""
    """What did not come in time, said of the server; then there is a failure, too."""
    proxy: str | None = None
    """The proxy on the way, if there is one."""


async def _listed(place: Destination, longest_s: float) -> _Listing:
    """An account's list of models. Never raises: the result has the failure."""
    url, headers = await asyncio.to_thread(_question, place)
    listing = _Listing()
    try:
        listing.proxy = proxy_for(url)
        pool = ConnectionPool(Address(url, headers), connect_s=longest_s * _TO_CONNECT)
    except InputError as error:
        listing.failure = Failure(Cause.NO_PROXY, str(error))
        return listing
    began = time.monotonic()

    def keep(piece: bytes) -> None:
        listing.body += piece
        if len(listing.body) >= LONGEST_LIST:
            raise _EnoughError

    def on_response(status: int, headers: Mapping[str, str]) -> OnBody:
        listing.took_ms = round((time.monotonic() - began) * 1000)
        listing.status, listing.location = status, headers.get("location", "")
        return keep

    try:
        async with asyncio.timeout(longest_s):
            await pool.get(on_response)
    except _EnoughError:
        pass
    except ConnectionFailedError as error:
        listing.failure = error.failure
        if listing.failure.cause is Cause.NO_TLS_ANSWER:
            listing.silence = f"{NO_TLS_ANSWER} within {longest_s:g} s"
    except TimeoutError:
        listing.failure = Failure(Cause.BROKEN)
        relayed = listing.proxy is not None and not url.startswith("https:")
        silence = "does not answer" if relayed else "accepts connections but does not answer"
        listing.silence = f"{silence} within {longest_s:g} s"
    finally:
        await pool.close()
    return listing


async def check_reachability(
    wanted: Mapping[Destination, Sequence[str]], *, longest_s: float, again: bool = True
) -> list[Diagnostic]:
    """Ask all concurrently; the findings are in the order of the places. With `again`, another
    HTTP client is asked where ours fails."""
    reached = (_reach(place, names, longest_s, again=again) for place, names in wanted.items())
    return [finding for findings in await asyncio.gather(*reached) for finding in findings]


async def _reach(
    place: Destination, names: Sequence[str], longest_s: float, *, again: bool
) -> list[Diagnostic]:
    listing = await _listed(place, longest_s)
    failure = listing.failure
    if failure is None:
        return [_answered(place, listing), *_unlisted(place, names, listing)]
    effect, then = _after(failure, listing)
    words = place.redactor()(listing.silence or describe(failure)) + then
    if again:
        words += await asyncio.to_thread(_second_opinion, place, longest_s)
    remedy = _remedy(failure.cause, place, listing.proxy)
    return [_finding(place, Severity.PROBLEM, words, remedy, effect)]


def _after(failure: Failure, listing: _Listing) -> tuple[Effect, str]:
    """What the failure does to a run, and that in words."""
    match failure.cause:
        case Cause.NO_TRUST | Cause.CERTIFICATE:
            return Effect.STOPS, ""
        case Cause.NOT_HTTP:
            return Effect.WARNS, ""
        case Cause.TLS:
            return Effect.WARNS, "; every call fails"
        case _:
            again = "; a run tries it again" if listing.silence else "; a run waits for it"
            return Effect.WARNS, again


def _second_opinion(place: Destination, longest_s: float) -> str:
    """What another HTTP client says where ours failed; empty where it fails, too."""
    # 165 ms, half of what the check before a run would take to load
    import httpx

    url, headers = _question(place)
    try:
        with httpx.Client(
            verify=system_trust(), proxy=proxy_for(url), trust_env=False, timeout=longest_s
        ) as client:
            status = client.get(url, headers=headers).status_code
    except (httpx.HTTPError, httpx.InvalidURL, OSError, InputError):
        return ""
    return f"; another HTTP client is answered with {status}: this is a fault of Crosswind's own"


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
    tail = PATHS[place.wire].removeprefix("/v1")
    url, mark, query = where.url.partition("?")
    return url.removesuffix(tail) + _MODELS + mark + query, {**headers, **dict(place.headers)}


def _answered(place: Destination, listing: _Listing) -> Diagnostic:
    status, body = listing.status or 0, bytes(listing.body[:LONGEST_REFUSAL])
    reached = f"reached in {listing.took_ms} ms"
    say = partial(_finding, place)
    if place.wire.is_application and status in _OF_NO_MESSAGE:
        # it was sent a GET, not a message, so these answers say little
        return say(Severity.OK, f"{reached}; `crosswind doctor --call` sends it a message")
    no_key = refuses_key(status, body)
    # a key that may call and not list is answered like a wrong one, but for the words
    says_so = any(word in body.lower() for word in _MAY_NOT_LIST)
    may_not_list = says_so if no_key else status == 403
    if place.key is None and (no_key or may_not_list):
        return say(Severity.OK, f"{reached}; {place.key_name} is missing, so no key was tried")
    if no_key and not may_not_list:
        own = place.redactor()(server_words(status, body))
        refusal = f"refuses the key {place.key_name} ({status})" + (own and f", and says: {own}")
        remedy = "check the key: is it of this provider, and still valid?"
        return say(Severity.PROBLEM, refusal, remedy, Effect.STOPS)
    if may_not_list:
        words = f"but the key may not list models ({status}); it may be able to call them"
        return say(
            Severity.NOTE, f"{reached}, {words}", "`crosswind doctor --call` tries each model"
        )
    if 200 <= status < 300:
        # not more: some servers show their models to anybody
        with_key = "" if place.key in {None, NO_KEY} else f", {place.key_name} was not refused"
        return say(Severity.OK, f"{reached}{with_key}")
    if 300 <= status < 400:
        return _redirected(place, status, listing.location, reached)
    if status == 407:
        remedy = "write it into the proxy's address, http://name:password@host"
        return say(Severity.PROBLEM, "407: the proxy asks for a password", remedy)
    if status in {404, 405}:
        words = f"{reached}, but there is no list of models at this address ({status})"
        remedy = "see that base_url is right; `crosswind doctor --call` tries each model"
        return say(Severity.NOTE, words, remedy)
    if status == 429:
        return say(Severity.NOTE, f"{reached}; it limits requests at present (429)")
    state = Severity.PROBLEM if status >= 500 else Severity.NOTE
    return say(state, f"{reached}, but it answers with {status}")


def _unlisted(place: Destination, names: Sequence[str], listing: _Listing) -> Iterator[Diagnostic]:
    """A finding for each name that a list, if it has come, does not have."""
    if place.wire.is_application or not 200 <= (listing.status or 0) < 300:
        return
    known, redact = model_names(bytes(listing.body)), place.redactor()
    for name in dict.fromkeys(names):
        if not known or is_listed(name, known):
            continue
        if place.subject in COMPLETE:
            words = f"has no model {redact(name)!r} for this key"
            remedy = "see the provider's list, or leave the model out"
            yield _finding(place, Severity.PROBLEM, words, remedy, Effect.STOPS)
        else:
            words = f"does not list a model {redact(name)!r}; it lists {_some_names(known, redact)}"
            yield _finding(place, Severity.NOTE, words, effect=Effect.WARNS)


_OF_NO_MESSAGE: Final = frozenset({*range(200, 300), 400, 401, 403, 404, 405, 406, 415, 422})


def _redirected(place: Destination, status: int, location: str, reached: str) -> Diagnostic:
    target = "" if place.hides_path else redirect_words(location)
    elsewhere = f" to {target}" if target else ""
    if place.follow_redirects:
        words = f"{reached}; it redirects{elsewhere} ({status}): a run follows on the same host"
        return _finding(place, Severity.NOTE, words)
    words = f"{reached}, but it redirects{elsewhere} ({status}), which a run does not follow"
    hint = f"write the address that it redirects to without {_MODELS} into base_url, if you"
    if place.wire.is_application:
        hint = "write that address into url, or `follow_redirects: true` on the same host, if you"
    return _finding(place, Severity.PROBLEM, words, f"{hint} trust it")


_OF_PROXY: Final = "look at HTTPS_PROXY and NO_PROXY, and ask whoever runs the proxy"
_REMEDIES: Final[Mapping[Cause, str]] = {
    Cause.PROXY: _OF_PROXY,
    Cause.NO_PROXY: _OF_PROXY,
    Cause.NO_TRUST: "let SSL_CERT_FILE name a file of certificates, or unset it to trust the "
    "system's",
    Cause.CERTIFICATE: "add it to those that this system trusts, or name a file in SSL_CERT_FILE, "
    "if it is known to be right",
    Cause.TLS: "write http:// in base_url, if the server speaks no TLS, or another port",
    Cause.NO_TLS_ANSWER: "write http:// in base_url, if the server speaks no TLS; else see its "
    "port and its log",
    Cause.NOT_HTTP: "see what answers at base_url: it is no server of models",
}


def _remedy(cause: Cause, place: Destination, proxy: str | None) -> str:
    if cause in _REMEDIES:
        return _REMEDIES[cause]
    if cause is Cause.BROKEN:
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
    place: Destination,
    state: Severity,
    sentence: str,
    remedy: str | None = None,
    effect: Effect = Effect.NONE,
) -> Diagnostic:
    if remedy is not None and place.wire.is_application:
        remedy = remedy.replace("base_url", "url")
    return Diagnostic(Area.REACH, place.subject, state, sentence, remedy, effect)


def _some_names(known: Collection[str], redact: Redactor) -> str:
    first = sorted(known)[:3]
    more = f" and {len(known) - len(first)} more" if len(known) > len(first) else ""
    return ", ".join(one_line(redact(name), 80) for name in first) + more


def model_names(body: bytes) -> frozenset[str]:
    """The names in a list of models; empty for an invalid list, or only its first page."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return frozenset()
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or answer.get("has_more"):
        return frozenset()
    ids = (model.get("id") for model in data if isinstance(model, dict))
    names = frozenset(name for name in ids if isinstance(name, str) and name)
    # a gateway that forwards any name lists a pattern, in which no name is missing
    return frozenset() if any("*" in name for name in names) else names


_DATED: Final = re.compile(r"[-@]?(\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest)\Z")
_LONGEST_DATE: Final = len("-2025-01-31")


def is_listed(name: str, known: Collection[str]) -> bool:
    """Whether a list may include this name. Providers accept aliases, dated snapshots, fine-tuned
    models and variants whose base alone is listed, or with a prefix."""
    # a fine-tuned model belongs to its owner and is in no list
    if name.startswith("ft:"):
        return True
    wanted = _bases(name)
    return any(not wanted.isdisjoint(_bases(listed)) for listed in known)


def _bases(name: str) -> frozenset[str]:
    whole = name.casefold()
    short = whole.removeprefix("models/").partition(":")[0]
    return frozenset({whole, short, _undated(short)})


def _undated(name: str) -> str:
    return name[:-_LONGEST_DATE] + _DATED.sub("", name[-_LONGEST_DATE:])
