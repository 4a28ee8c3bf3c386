"""What the sender needs of a connection: a request goes out, its answer is heard as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from engine.providers.attempts import Failure
from engine.providers.endpoint import LOOPBACK

OnBody = Callable[[bytes], None]
"""Told of each piece of an answer's body. What it raises ends the request."""
OnAnswer = Callable[[int, Mapping[str, str]], OnBody]
"""Told of the status and the headers, by names in lower case, when a server begins to answer; gives
what is to hear the body."""


class ConnectionFailedError(Exception):
    """No connection, or one that broke. Holds nothing of the request: its headers carry a key."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Line(Protocol):
    """The connections of one account."""

    async def post(self, headers: Mapping[str, str], body: bytes, on_answer: OnAnswer) -> None:
        """Send it, and have the answer heard to its end, on this event loop but in no task: to wake
        one for each piece would cost more than to hear it.

        Raises `ConnectionFailedError`, and what the hearer raises; whatever the server says is an
        answer.
        """
        ...

    def can_send(self) -> bool:
        """Whether a request can go out now; what others keep for later is closed for it."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Door:
    """Where one knocks to reach a host."""

    host: str
    port: int
    local: bool
    """Whether it is this machine, which can be reached without a network."""

    @classmethod
    def of(cls, url: str) -> Door:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(host, port, host in LOOPBACK)
