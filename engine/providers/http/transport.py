"""The words of this room: where requests go, who is told of the response, what can fail."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SPEAKS_TLS: Final = "the server expects TLS: write https:// in base_url"

OnBody = Callable[[bytes], None]
"""Told of each piece of a response's body. What it raises ends the request."""
OnResponse = Callable[[int, Mapping[str, str]], OnBody]
"""The response handler: told of the status and the headers, by names in lower case, when a server
begins to answer; gives what is to be told of the body."""


class Fault(StrEnum):
    """Why a request brought no whole response."""

    UNKNOWN_HOST = "unknown_host"
    NETWORK = "network"
    """There is no way to any host: no route, or nobody who resolves names."""
    NO_CONNECTION = "no_connection"
    """The host refuses, or does not accept a connection in time."""
    NO_FILES = "no_files"
    """This machine lets no more files be open: no fault of the host's."""
    PROXY = "proxy"
    """The proxy on the way answered in place of the server, and lets nothing through."""
    CERTIFICATE = "certificate"
    NO_TRUST = "no_trust"
    """What certificates are checked against cannot be read here."""
    TLS = "tls"
    """One side speaks TLS and the other does not, or they do not agree on it."""
    BROKEN = "broken"
    """The connection broke, or what came over it was not the protocol."""


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """What failed. Holds nothing of the request: its headers carry a key."""

    fault: Fault
    message: str = ""
    status: int | None = None
    """A proxy's."""


CLOSED: Final = TransportFailure(Fault.BROKEN, "the server closed it")


class ConnectionFailedError(Exception):
    """No connection, or one that broke."""

    def __init__(self, failure: TransportFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Transport(Protocol):
    """Sends requests to one address. Another HTTP client serves as well behind it: see
    `tests/benchmarks/transports.py`."""

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """Send it and have the response handled to its end, on this event loop but in no task: to
        wake one for each piece would cost more than to read it.

        Raises `ConnectionFailedError`, and what the handler raises; whatever the server says is a
        response.
        """
        ...

    def can_send(self) -> bool:
        """Whether a request can go out now; what others keep for later is closed for it."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go, and what every one of them carries."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    kept: bool = True
    """Whether a connection is used again; else each request has one of its own, and is sent over
    no other."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """What a connection is made to."""

    host: str
    port: int
    local: bool
    """Whether it is this machine, which can be reached without a network."""

    @classmethod
    @lru_cache(256)  # asked several times of each call
    def of(cls, url: str) -> HostPort:
        """The host and port of a URL, whose port follows from its scheme where it names none."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(host, port, host in LOOPBACK)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def error_name(error: Exception) -> str:
    """The system's short name for it, where it has one. The numbers of TLS are its own."""
    if isinstance(error, ssl.SSLError):
        return str(getattr(error, "reason", None) or "tls").lower().replace("_", " ")
    number = error.errno if isinstance(error, OSError) else None
    return "" if number is None else errno.errorcode.get(number, "").lower()
