"""What an engine and its agents say to each other: bytes of MessagePack, read against these classes
on both sides, so that nothing that is heard is ever run.

A batch says what to begin and what to cut off; a report what was heard since the last one. No key
is in either, but in `Batch.values` where a person asked for that.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Final, TypeVar

import msgspec

from engine.errors import CrosswindError
from engine.providers.agents import RemoteRequest
from engine.providers.attempts import Cause, Failure
from engine.providers.http.transport import Fault, HostPort
from engine.providers.model import Finish
from engine.providers.protocols.base import Tokens
from engine.providers.served import NO_ROUTE, GatewayRoute

WIRE_VERSION: Final = 1
"""Rises when one side begins to say what the other would not understand."""

LONGEST_FAULT: Final = 200
"""In characters: what is said of bytes that are not understood, which may hold some of them."""

T = TypeVar("T")


class WireError(CrosswindError):
    """What was heard is not what it should be."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the engine says first."""

    wire: int
    crosswind: str
    lease_s: float
    """After which an agent that is not asked for a report cuts its calls off."""
    root: str | None = None
    """The workspace, whose `.env` is read where the agent is on the same machine."""


@dataclass(frozen=True, slots=True)
class AgentHello:
    """What an agent says of itself."""

    wire: int
    crosswind: str
    python: str
    host: str
    pid: int
    capacity: int
    """Calls that it takes at once."""

    def fault(self) -> str | None:
        """Why this engine cannot work with it."""
        ours, theirs = own_version(), self.crosswind
        if theirs != ours:
            return f"Crosswind {theirs} there, {ours} here: install the same version on both"
        if self.wire != WIRE_VERSION:
            return f"version {self.wire} of its messages, {WIRE_VERSION} here: install it anew"
        return None


@dataclass(frozen=True, slots=True)
class Batch:
    """What to do from now on."""

    calls: Mapping[int, RemoteRequest] = field(default_factory=dict)
    probes: Mapping[int, HostPort] = field(default_factory=dict)
    cancelled: tuple[int, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that the engine gives, beside those that the agent has itself."""


@dataclass(frozen=True, slots=True)
class SentFailure:
    """A `Failure`, its cause by name."""

    cause: str
    message: str = ""
    status: int | None = None
    type: str = ""
    code: str = ""
    param: str = ""
    retry_after_s: float | None = None

    @classmethod
    def of(cls, failure: Failure) -> SentFailure:
        return cls(**asdict(failure))

    @property
    def failure(self) -> Failure:
        known = _CAUSES.get(self.cause, Fault.BROKEN)
        told = self.type, self.code, self.param, self.retry_after_s
        return Failure(known, self.message, self.status, *told)


_CAUSES: Final[Mapping[str, Cause | Fault]] = {one.value: one for one in (*Cause, *Fault)}


@dataclass(slots=True)
class CallOutcome:
    """What is known of a request when it is over, with no key in it. As `CallResult`."""

    failure: SentFailure | None = None
    lacks: tuple[str, ...] = ()
    """Variables that this agent does not have as they are needed; then nothing was sent."""
    why: str = ""
    """In words that show no value."""
    status: int | None = None
    request_id: str | None = None
    finish: Finish | None = None
    reasoning: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    named: tuple[str, ...] = ()
    provider: str | None = None
    route: GatewayRoute = NO_ROUTE
    session: str | None = None
    first_token_s: float | None = None
    """From the moment it was sent, by the agent's own clock."""


@dataclass(slots=True)
class CallNews:
    """What came of a call since the last report."""

    text: str = ""
    voided: bool = False
    """Whether what was reported before `text` does not count."""
    accepted: bool = False
    """Whether the server has begun to answer."""
    outcome: CallOutcome | None = None


@dataclass(slots=True)
class AgentReport:
    """What was heard since the last one."""

    calls: dict[int, CallNews] = field(default_factory=dict)
    probes: dict[int, bool] = field(default_factory=dict)
    lapsed: bool = False
    """Whether it was not asked for so long that it has cut off what it was given."""


def own_version() -> str:
    return version("crosswind")


def own_python() -> str:
    return platform.python_version()


def _plain(value: object) -> Any:
    """Mappings that are no `dict`."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not cross")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)


def encoded(value: object) -> bytes:
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # half a character, which is sent to no server either
        return _ENCODER.encode(_whole(msgspec.to_builtins(value, enc_hook=_plain)))


def _whole(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_whole(key): _whole(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_whole(inner) for inner in value]
        case _:
            return value


_DECODERS: Final[dict[type, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (Greeting, AgentHello, Batch, AgentReport)
}


def decoded(raw: bytes, kind: type[T]) -> T:
    """Raises `WireError`."""
    try:
        found: T = _DECODERS[kind].decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError, OverflowError) as error:
        raise WireError(f"not understood: {error}"[:LONGEST_FAULT]) from None
    return found
