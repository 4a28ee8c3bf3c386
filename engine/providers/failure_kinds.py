"""The kinds of failed requests, and what comes after each: the one table of that."""

from __future__ import annotations

from enum import Enum, auto

from engine.providers.limiter import Signal
from engine.providers.model import Finish


class Next(Enum):
    """What comes after a failure, unless the request can be changed so that it may be taken."""

    ELSEWHERE = auto()
    """Again at once, as nothing was tried: this machine or a worker is to blame."""
    LATER = auto()
    """Again when the server has room, without counting as a try: the request is not to blame."""
    AGAIN = auto()
    """Again after a pause, a few times."""
    RECONNECT = auto()
    """The same for a host that was reached before; any other parks the model then."""
    PARK = auto()
    """No call to this model can succeed until a person does something, or a quota begins anew."""
    FAIL = auto()
    FAIL_FOR_NOW = auto()
    """The call fails now, and may succeed in a later run."""


class FailureKind(Enum):
    """Of each kind: the outcome under which the attempt is stored, what comes next, or how the
    conversation ends with it, and what the limiter learns."""

    RATE_LIMITED = "rate_limited", Next.LATER, Signal.REFUSED
    OVERLOADED = "rate_limited", Next.LATER, Signal.TROUBLE
    """The server has too many requests, no matter whose."""
    SERVER_FAILED = "transient", Next.AGAIN, Signal.TROUBLE
    TRANSIENT = "transient", Next.AGAIN, Signal.NOTHING
    """A broken connection says nothing about how much the server can take."""
    UNREACHABLE = "transient", Next.RECONNECT, Signal.NOTHING
    """There was no connection, so nothing was sent."""
    STALLED = "stalled", Next.AGAIN, Signal.NOTHING
    EMPTY = "empty", Next.AGAIN, Signal.NOTHING
    FATAL_TARGET = "fatal_target", Next.PARK, Signal.NOTHING
    QUOTA_SPENT = "rate_limited", Next.PARK, Signal.NOTHING
    FATAL_REQUEST = "fatal_request", Next.FAIL, Signal.NOTHING
    NO_JSON = "no_json", Next.FAIL, Signal.WELL
    """The server ignored the requested schema. It did its part; the model wrote prose."""
    OTHER_MODEL = "other_model", Next.FAIL_FOR_NOW, Signal.NOTHING
    """Another model answered: a gateway falls back while its model is down."""
    AGENT_LOST = "agent_lost", Next.ELSEWHERE, Signal.NOTHING
    CONTEXT_FULL = "answer", Finish.CONTEXT_FULL, Signal.NOTHING
    """The conversation no longer fits, which is not an error."""
    FILTERED = "answer", Finish.CONTENT_FILTER, Signal.NOTHING
    """The provider did not pass the request to the model, which counts as an answer."""

    @property
    def outcome(self) -> str:
        outcome: str = self.value[0]
        return outcome

    @property
    def next(self) -> Next | Finish:
        step: Next | Finish = self.value[1]
        return step

    @property
    def signal(self) -> Signal:
        signal: Signal = self.value[2]
        return signal
