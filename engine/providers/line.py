"""What the sender needs of a connection: a request goes out, bytes come back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from engine.providers.attempts import Failure
from engine.providers.endpoint import LOOPBACK


class ConnectionFailedError(Exception):
    """No connection, or one that broke. Holds nothing of the request: its headers carry a key."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Answer(Protocol):
    """What a server answers with: its status at once, its body as it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By names in lower case."""
        ...

    async def chunk(self) -> bytes:
        """The bytes that have come since; empty at the end. Raises `ConnectionFailedError`."""
        ...


class Line(Protocol):
    """The connections of one account."""

    def post(self, headers: Mapping[str, str], body: bytes) -> AbstractAsyncContextManager[Answer]:
        """Send it. Raises `ConnectionFailedError`; whatever the server says is an answer."""
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
