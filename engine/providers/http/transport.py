"""Types that the HTTP client shares with its callers: addresses, handlers and failures."""

from __future__ import annotations

import errno
import os
import resource
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

from engine.providers.failures import Cause, Failure

CONNECT_S: Final = 20.0
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SPEAKS_TLS: Final = "the server expects TLS: write https:// in base_url"

OnBody = Callable[[bytes], None]
"""Called with each piece of a response's body. An exception from it ends the request."""
OnResponse = Callable[[int, Mapping[str, str]], OnBody]
"""Called with the status and the headers, whose names are in lower case, when a server begins to
answer; returns what is called with the body."""


CLOSED: Final = Failure(Cause.BROKEN, "the server closed it")


class ConnectionFailedError(Exception):
    """There was no connection, or it broke."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Transport(Protocol):
    """Sends requests to one address. Other HTTP clients can implement it, too: see
    `tests/benchmarks/calls.py`."""

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """Send a request, and return when its response was handled.

        The handler runs on this event loop, but not in a task: waking one for each piece would cost
        more than reading it. Raises `ConnectionFailedError`, and what the handler raises; any
        answer of the server is a response.
        """
        ...

    def waits_for(self) -> str | None:
        """What a request waits for before it can be sent, in words; None if it can be sent now.
        Does what makes that possible, such as closing idle connections."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go, and the headers of all of them."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    of_application: bool = False
    follow_redirects: bool = False
    """Of an application: whether to go where it redirects, on the same host."""
    key: str | None = field(default=None, repr=False)
    """Given where the provider's own client sends the requests: it shows the key by itself, and
    adds the path to the URL."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """The peer of a connection."""

    host: str
    port: int
    local: bool
    """Whether it is this machine, which can be reached without a network."""
    secure: bool = False
    """Whether it is reached by https, which may have a proxy of its own."""

    @classmethod
    @lru_cache(256)  # called several times for each call
    def of(cls, url: str) -> HostPort:
        """Return host and port of a URL; the default port is that of its scheme."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(host, port, host in LOOPBACK, parts.scheme == "https")

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def error_name(error: Exception) -> str:
    """Return the system's short name of an error, or an empty text. TLS has numbers of its own."""
    if isinstance(error, ssl.SSLError):
        return str(getattr(error, "reason", None) or "tls").lower().replace("_", " ")
    number = error.errno if isinstance(error, OSError) else None
    return "" if number is None else errno.errorcode.get(number, "").lower()


RESERVED: Final = 96
"""Kept for the store, files, watchers, name lookups, and addresses that are tried in parallel."""
FEWEST: Final = 8
"""Connections that may be opened even if they are fewer than `RESERVED` leaves."""


_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})


def raise_limit() -> None:
    """Raise the soft limit as far as this user may: shells begin with a small one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # the system has a lower limit of its own


def most_connections() -> int:
    """Return how many connections to servers this process may have, by its limit of open files."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def most_connections_raised() -> int:
    """As `most_connections`, after the limit was raised."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def any_left() -> bool:
    """Whether one more file can be opened now."""
    try:
        # tried, as what other processes use of the system's limit cannot be read anywhere
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def for_want_of_any(error: OSError | UnicodeError) -> bool:
    """Whether a connection failed for that reason, which name resolution does not say."""
    if isinstance(error, socket.gaierror):
        return not any_left()
    return isinstance(error, OSError) and error.errno in _NONE_LEFT


def wait_words() -> str:
    """Say that calls wait for open files, and what to do about it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"out of open files (the limit is {soft}): `ulimit -n 4096` before the next run"


def most_under(limit: int) -> int:
    """Return how many connections fit under a limit of open files, after `RESERVED`."""
    return 1 << 20 if limit == resource.RLIM_INFINITY else max(limit - RESERVED, FEWEST)
