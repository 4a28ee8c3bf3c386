"""What a watcher reads: a value for each thing that became true, and what is being said before it
is one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from engine.benchmark import ConversationKey, Role, Speaker, Stage, State, StopReason, Track


class NoteKind(StrEnum):
    """What can happen to a run as a whole."""

    RUN_STARTED = "run_started"
    STAGE_STARTED = "stage_started"
    STAGE_FINISHED = "stage_finished"
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAINING = "draining"
    """Asked to stop: what is being spoken is finished, nothing new begins."""
    RUN_ENDED = "run_ended"
    WARNING = "warning"


class RunEnd(StrEnum):
    """How a run ended: what its `RUN_ENDED` note says."""

    DONE = "done"
    STOPPED = "stopped"
    BROKEN = "broken off"
    """By a fault, of the store or of Crosswind itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What all facts share."""

    seq: int
    at: datetime
    """Aware, UTC."""
    benchmark: str
    """Empty for a note that concerns the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Fact):
    """Something happened to the run."""

    kind: NoteKind
    stage: Stage | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(Fact):
    """A row of work moved from one state to another."""

    stage: Stage
    unit: str
    """The row's id: a metric's, scenario's or conversation's, or the benchmark's name."""
    target: str | None
    was: State | None
    """None for a row that is new."""
    state: State
    reason: str | None
    """Why it failed, in words; None otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeStarted(Fact):
    """A conversation begins to be played."""

    key: ConversationKey
    take: int
    """0 for the first playing of this conversation, then 1, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEnded(Fact):
    """A conversation has been played to an end of some kind."""

    key: ConversationKey
    take: int
    stop_reason: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSpoken(Fact):
    """One message of a conversation is complete and on disk."""

    key: ConversationKey
    take: int
    turn: int
    """1-based."""
    speaker: Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictGiven(Fact):
    """A judge has answered on one take in one pass."""

    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    number: int
    """Which pass of this judge, 0-based."""
    present: bool | None
    passed: bool | None
    """None where this verdict cannot be used."""
    unscored: str | None
    """Why it cannot be used; None where it can."""
    counted_before: bool | None
    """What counted for this conversation before this verdict; None where nothing did."""
    counted: bool | None
    """What counts for this conversation from this verdict on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade(Fact):
    """One attempt at one call to a model, whether it gave an answer or not."""

    stage: Stage
    unit: str
    target: str | None
    role: Role
    model: str
    """Its name in the configuration."""
    outcome: str
    """`answer`, or the class of what went wrong."""
    duration_ms: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    detail: str | None
    other: str | None = None
    """The model that answered in place of the one that was asked; None where none did."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A message that is being spoken at this moment."""

    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    landmark: str | None
    """The instruction that the user model was given for this turn."""
    began: float
    """Seconds on the engine's monotonic clock; only for ordering."""


@dataclass(frozen=True, slots=True)
class LiveText:
    """What a watcher has not yet seen of a message that is being spoken."""

    speech: Speech
    text: str
    """What was said from the cursor on."""
    cursor: int
    """Where to ask from the next time, in characters."""

    @classmethod
    def since(cls, cursor: int, speech: Speech, said: str) -> Self:
        """What of all that was said lies beyond the cursor; a cursor beyond the end, as after a
        message that began anew, is answered from the beginning."""
        start = cursor if cursor <= len(said) else 0
        return cls(speech, said[start:], len(said))
