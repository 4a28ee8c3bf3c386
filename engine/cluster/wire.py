"""The messages between an engine and its agents: MessagePack, validated against these classes on
both sides, so that nothing received is ever executed.

A batch says what to begin and what to cancel; a report what was heard since the last one. Neither
contains a key, except in `CallChanges.values` where a person asked for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, TypeVar

import msgspec

from engine.errors import CrosswindError
from engine.providers.accounts import RemoteRequest
from engine.providers.failures import Failure
from engine.providers.http.transport import HostPort
from engine.providers.model import Finish
from engine.providers.protocols.base import Tokens
from engine.providers.served_model import NO_ROUTE, GatewayRoute

WIRE_VERSION: Final = 3
"""Incremented when one side begins to send what the other would not understand."""

LONGEST_FAULT: Final = 200
"""In characters: the most that an error says about an invalid message, which it may quote."""

T = TypeVar("T")


class WireError(CrosswindError):
    """A received message is invalid."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The engine's first message."""

    wire: int
    crosswind: str
    lease_s: float
    """Seconds after which an agent that is not asked for a report cancels its calls."""
    root: str | None = None
    """The workspace, whose `.env` is read if the agent is on the same machine."""


@dataclass(frozen=True, slots=True)
class AgentHello:
    """What an agent says about itself."""

    wire: int
    crosswind: str
    host: str
    capacity: int
    """The most concurrent calls that it accepts."""

    def fault(self) -> str | None:
        """Why this engine cannot work with it; None where it can."""
        ours, theirs = own_version(), self.crosswind
        if theirs != ours:
            return f"Crosswind {theirs} there, {ours} here: install the same version on both"
        if self.wire != WIRE_VERSION:
            return f"version {self.wire} of its messages, {WIRE_VERSION} here: install it anew"
        return None


@dataclass(frozen=True, slots=True)
class CallChanges:
    """What to begin and what to cancel."""

    calls: Mapping[int, RemoteRequest] = field(default_factory=dict)
    probes: Mapping[int, HostPort] = field(default_factory=dict)
    cancelled: tuple[int, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the engine gives to the agent, in addition to the agent's own."""


@dataclass(slots=True)
class CallOutcome:
    """The result of a request, without any key. As `CallResult`."""

    failure: Failure | None = None
    lacks: tuple[str, ...] = ()
    """Variables that this agent lacks or cannot use; nothing was sent then."""
    why: str = ""
    """The reason, in words that show no value."""
    status: int | None = None
    request_id: str | None = None
    finish: Finish | None = None
    reasoning: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    named: tuple[str, ...] = ()
    provider: str | None = None
    oddity: str | None = None
    unexplained: bool = False
    route: GatewayRoute = NO_ROUTE
    session: str | None = None
    first_token_s: float | None = None
    """Seconds from sending the request, by the agent's own clock."""


@dataclass(slots=True)
class CallNews:
    """What happened to a call since the last report."""

    text: str = ""
    voided: bool = False
    """Whether text that was reported earlier is void."""
    accepted: bool = False
    """Whether the server has begun to answer."""
    outcome: CallOutcome | None = None


@dataclass(slots=True)
class AgentReport:
    """What was heard since the last report."""

    calls: dict[int, CallNews] = field(default_factory=dict)
    probes: dict[int, bool] = field(default_factory=dict)
    lapsed: bool = False
    """Whether its lease has expired, so that it has cancelled its calls."""


def own_version() -> str:
    return version("crosswind")


def _as_dict(value: object) -> Any:
    """Convert mappings that are not a `dict`."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not cross")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_as_dict)


def encoded(value: object) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # a lone surrogate, which would not be sent to any server either
        return _ENCODER.encode(_encodable(msgspec.to_builtins(value, enc_hook=_as_dict)))


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_encodable(key): _encodable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_encodable(inner) for inner in value]
        case _:
            return value


_DECODERS: Final[dict[type, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Greeting, AgentHello, CallChanges, AgentReport)
}


def decoded(raw: bytes, kind: type[T]) -> T:
    """Decode and validate a message. Raises `WireError`."""
    try:
        message: T = _DECODERS[kind].decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError) as error:
        raise WireError(f"not understood: {error}"[:LONGEST_FAULT]) from None
    return message
