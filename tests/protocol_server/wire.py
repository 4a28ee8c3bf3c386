"""What the two protocols have in common: the parts of an answer, and a rejection of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.protocol_server.answers import Answer
from tests.protocol_server.request import Request


@dataclass(frozen=True, slots=True)
class Rejection:
    """An answer with an error status, before either protocol has put it into its own shape."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """A stream, event by event: all that may come before, between and after what is said."""

    opening: tuple[bytes, ...]
    pieces: tuple[bytes, ...]
    """One event for each piece of the answer."""
    closing: tuple[bytes, ...]
    """With the finish marker; a stream without it is not whole."""


class Wire(Protocol):
    """How one protocol checks a request and writes an answer."""

    def rejection(self, request: Request) -> Rejection | None:
        """What the real server would find wrong with the request, the key and model aside."""
        ...

    def headers(self, request_id: str) -> dict[str, str]: ...

    def error(self, rejection: Rejection, request_id: str) -> bytes:
        """The body that goes with an error status."""
        ...

    def error_event(self, rejection: Rejection, request_id: str) -> bytes:
        """An error that comes in the middle of a stream that began well."""
        ...

    def body(self, request: Request, answer: Answer, number: int) -> bytes: ...

    def script(self, request: Request, answer: Answer, number: int) -> Script: ...

    def sign_of_life(self) -> bytes:
        """What keeps a connection open and says nothing."""
        ...

    def models(self, names: tuple[str, ...]) -> bytes: ...

    def model(self, name: str) -> bytes: ...


def encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def encoded_text(text: str) -> bytes:
    return json.dumps(text).encode()
