"""How a model is reached: its address, its key, and the parameters of every request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from engine.addresses import KEYLESS, PUBLIC_ADDRESSES
from engine.errors import InputError, Problem
from engine.providers.http.transport import LOOPBACK, Address


class Wire(StrEnum):
    """The protocol of a server."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"
    """OpenAI's newer one, without which some of its models cannot be reached."""
    APPLICATION = "http"
    """No standard protocol: a template and paths describe it."""
    SESSION = "http, a session each"
    """As `APPLICATION`, but the server remembers the conversation, so nothing may be sent twice."""

    @property
    def is_application(self) -> bool:
        return self in {Wire.APPLICATION, Wire.SESSION}


NO_KEY: Final = "no-key"
"""Sent if a server asks for no key, as the protocol cannot leave it out."""


@dataclass(frozen=True, slots=True)
class RequestParams:
    """Parameters of a request. None is not sent."""

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    seed: int | None = None


def no_key() -> str:
    return NO_KEY


def _no_headers() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, repr=False)
class ExtraBody:
    """What a person adds to the body of each request, expanded. Has no `repr`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Texts in it that came from variables, and must not be shown."""


_NO_EXTRA_BODY: Final = ExtraBody()


def no_extra_body() -> ExtraBody:
    return _NO_EXTRA_BODY


@dataclass(frozen=True, slots=True)
class Application:
    """How an application answers, for which there is no standard protocol."""

    reply: str | None
    stream: str | None
    keeps_session: bool = False
    session_from: str | None = None
    """Where an answer has the application's name for the conversation: a path, `header NAME`, or
    `cookies`. None if the name is ours."""
    follow_redirects: bool = False


@dataclass(frozen=True, slots=True)
class AsWritten:
    """The unexpanded parts of an endpoint, for workers that send its requests."""

    url: str
    """The address with unexpanded variables."""
    variables: tuple[str, ...]
    """All variables in the address, key, headers and body."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one address."""

    model: str
    """The model's name on the wire."""
    source: str
    """In lower case."""
    base_url: str
    """As `model_address` or `application_address` returns it."""
    key: Callable[[], str] = field(default=no_key, repr=False)
    """Returns the key when a call is made; it is stored nowhere."""
    headers: Callable[[], Mapping[str, str]] = field(default=_no_headers, repr=False)
    """Sent with every request, and as secret as the key."""
    params: RequestParams = field(default_factory=RequestParams)
    extra_body: Callable[[], ExtraBody] = field(default=no_extra_body, repr=False)
    served_as: tuple[str, ...] = ()
    """Other names by which the server may call the model."""
    only_this: bool = False
    """Whether a reply of another model is refused."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The values of variables in its name and its address."""
    application: Application | None = None
    """None for a chat protocol. For an application, `extra_body` is the template."""
    speaks_responses: bool = False
    slots: int | None = None
    """How many replies its server writes at once; None if that is not configured."""
    as_written: AsWritten | None = None
    """Set if key, headers and body have unexpanded variables, which the worker that sends the
    request looks up."""

    @property
    def wire(self) -> Wire:
        if self.application is not None:
            return Wire.SESSION if self.application.keeps_session else Wire.APPLICATION
        if self.source == "anthropic":
            return Wire.ANTHROPIC
        return Wire.RESPONSES if self.speaks_responses else Wire.OPENAI

    @property
    def address_key(self) -> str:
        """The configuration key of the address."""
        return "base_url" if self.application is None else "url"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def local(self) -> bool:
        return self.host in LOOPBACK

    @property
    def unencrypted(self) -> bool:
        """Whether key and messages cross a network unencrypted."""
        return self.base_url.startswith("http://") and not self.local


def model_address(model: str, source: str, base_url: str | None, *, has_key: bool) -> str:
    """Return the address of a model in the configuration.

    Raises `InputError` if it is missing or invalid, or a needed key is missing.
    """
    address = base_url or PUBLIC_ADDRESSES.get(source)
    if address is None:
        known = ", ".join(sorted(PUBLIC_ADDRESSES))
        raise InputError(
            Problem(
                f"model {model!r} has the source {source!r}, whose address is not known here",
                hint=f"write base_url: https://… beside it, or one of the sources {known}",
            )
        )
    url = checked_address(address, source)
    if not has_key and base_url is None and source not in KEYLESS:
        raise InputError(
            Problem(
                f"model {model!r} of {source} has no apikey",
                hint=f"write apikey: ${{{source.upper()}_API_KEY}} beside it",
            )
        )
    return url


def application_address(url: str) -> str:
    """Return the address of an application, otherwise unchanged. Raises `InputError` if it is
    invalid."""
    url = url.strip()
    if _holds_credentials(url):
        hint = "send them as a header, from a variable"
        raise InputError(Problem("url holds a user name or password", hint=hint))
    try:
        parts = urlsplit(url)
        fault = _address_fault(parts.scheme, parts.hostname, parts.port)
    except ValueError:
        fault = "is not an address"
    else:
        fault = fault or ("has a fragment" if parts.fragment else None)
    if fault is not None:
        hint = "it looks like https://host.example/chat"
        raise InputError(Problem(f"url {url!r} {fault}", hint=hint))
    return url


_API_VERSION: Final = re.compile(r"api-version=[\w.-]+", re.ASCII)
"""The only query that an address may have: Azure's."""


def checked_address(base_url: str, source: str) -> str:
    """Normalize the address of a chat protocol. Raises `InputError` if it is invalid."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/")
    if _holds_credentials(url):
        raise InputError(
            Problem("base_url holds a user name or password", hint="put the key into apikey")
        )
    try:
        parts = urlsplit(url)
        fault = _address_fault(parts.scheme, parts.hostname, parts.port)
    except ValueError:
        fault = "is not an address"
    else:
        is_version = source != "anthropic" and _API_VERSION.fullmatch(query)
        if parts.fragment or (mark and not is_version):
            fault = "has something behind the path"
    if fault is not None:
        raise InputError(
            Problem(
                f"base_url {base_url!r} {fault}",
                hint="it looks like https://api.example.com/v1, and ends before /chat/completions",
            )
        )
    for tail in ("/chat/completions", "/messages", "/responses"):
        url = url.removesuffix(tail)
    # the Anthropic protocol adds the version to the path by itself
    return url.removesuffix("/v1") if source == "anthropic" else url + mark + query


def _holds_credentials(url: str) -> bool:
    """Whether a user name or password stands before the host."""
    # not left to the parser: it gives up at an invalid port or bracket, and the message about an
    # invalid address must not contain a password
    authority = url.partition("://")[2] or url
    for end in "/?#":
        authority = authority.partition(end)[0]
    return "@" in authority


def _address_fault(scheme: str, host: str | None, port: int | None) -> str | None:
    if scheme not in {"http", "https"}:
        return "does not begin with https:// or http://"
    if not host or not _is_host(host):
        return "names no host"
    return "has the port 0" if port == 0 else None


def _is_host(host: str) -> bool:
    if ":" in host:
        return True  # in brackets, and so checked by the parser
    try:
        # as the resolver does, which raises errors of its own
        ascii_host = host.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return re.fullmatch(r"[A-Za-z0-9._-]+", ascii_host) is not None


def checked_key(key: str) -> str:
    """Return the key as it is sent. Raises `InputError`, without the key, if it cannot be sent."""
    key = key.strip()
    if not key:
        raise InputError(Problem("the key is empty", hint="check apikey and the variable it names"))
    return _checked_value(key, "the key")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers as they are sent. Raises `InputError`, without any value."""
    checked = {}
    for name, value in headers.items():
        if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise InputError(Problem(f"extra_headers: {name!r} is no name of a header"))
        if name.lower() in {"host", "content-length", "transfer-encoding", "connection"}:
            raise InputError(
                Problem(f"extra_headers: {name} is set by the connection itself", hint="remove it")
            )
        checked[name] = _checked_value(value.strip(), f"extra_headers: the value of {name}")
    return checked


def _checked_value(value: str, what: str) -> str:
    for place, char in enumerate(value, 1):
        if not " " <= char <= "~":
            kind = "a line break" if char in "\r\n" else "a character that no header can carry"
            raise InputError(
                Problem(
                    f"{what} has {kind} at place {place} of {len(value)}",
                    hint="copy it again; it has only plain letters, digits and signs",
                )
            )
    return value


PATHS: Final = {
    Wire.OPENAI: "/chat/completions",
    Wire.ANTHROPIC: "/v1/messages",
    Wire.RESPONSES: "/responses",
}
_ANY_ANSWER: Final = "application/json, text/event-stream"


def address(wire: Wire, base_url: str, key: str, *, follow_redirects: bool = False) -> Address:
    """Return the URL and headers that the official clients would use, which the tests compare.

    OpenAI's own client sends what speaks the Responses protocol or goes to an address with a
    version. For all else the clients are not imported, as that takes 0.5 s of CPU (openai) or 1.1 s
    (anthropic), as much as 300 or 700 streamed calls; without them a run costs 1.8 times the CPU of
    a bare client, and may cost twice that.

    Slow the first time, because of an import, and so to be called on a thread. `key` must have been
    checked.
    """
    import httpx2  # imported here, as it is slow

    headers = {
        "Accept": _ANY_ANSWER if wire.is_application else "text/event-stream",
        # a compressed stream is held back until it fills a block, and can hide how large it is
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "crosswind",
    }
    if wire.is_application:
        url = str(httpx2.URL(base_url))
        return Address(url, headers, of_application=True, follow_redirects=follow_redirects)
    is_versioned = "?" in base_url
    headers |= {"api-key": key} if is_versioned else {"Authorization": f"Bearer {key}"}
    if is_versioned or wire is Wire.RESPONSES:
        import engine.providers.http.official  # noqa: F401  (slow, and needed for a request)

        return Address(str(httpx2.URL(base_url)), headers, key=key)
    return Address(str(httpx2.URL(base_url.removesuffix("/") + PATHS[wire])), headers)
