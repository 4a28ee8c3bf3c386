"""What a watcher reads: one frozen value for each thing that became true, and the text of messages
that are still being spoken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from engine.benchmark import ConversationKey, Role, Speaker, Stage, State, StopReason, Track


class NoteKind(StrEnum):
    """Events that concern a run as a whole."""

    RUN_STARTED = "run_started"
    STAGE_STARTED = "stage_started"
    STAGE_FINISHED = "stage_finished"
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAINING = "draining"
    """Asked to stop: open messages are finished, nothing new is begun."""
    RUN_ENDED = "run_ended"
    WARNING = "warning"


class RunEnd(StrEnum):
    """How a run ended; the text of its `RUN_ENDED` note."""

    DONE = "done"
    STOPPED = "stopped"
    BROKEN = "broken off"
    """Ended by a fault of the store or of Crosswind itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Fields that all facts have."""

    seq: int
    at: datetime
    """Timezone-aware, UTC."""
    benchmark: str
    """Empty for a note about the whole run."""


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
    """None for a new row."""
    state: State
    reason: str | None
    """Why the row failed, in words; None otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeStarted(Fact):
    """A take of a conversation begins."""

    key: ConversationKey
    take: int
    """0 for the first take of this conversation, then 1, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEnded(Fact):
    """A take of a conversation ended, complete or not."""

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
    """A judge gave a verdict on one take in one pass."""

    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    number: int
    """The pass of this judge, 0-based."""
    present: bool | None
    passed: bool | None
    """None where this verdict is unusable."""
    unscored: str | None
    """Why the verdict is unusable; None where it is usable."""
    counted_before: bool | None
    """What counted for this conversation before this verdict; None where nothing did."""
    counted: bool | None
    """What counts for this conversation from this verdict on; None where nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMade(Fact):
    """One attempt of a call to a model, successful or not."""

    stage: Stage
    target: str | None
    role: Role
    model: str
    """Its name in the configuration."""
    outcome: str
    """`answer`, or the class of the failure."""
    duration_ms: int | None
    """None for a call in a batch, which says nothing about how fast a model is."""
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    other: str | None = None
    """The model that answered instead of the requested one; None where the requested one did."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A message that is being spoken right now."""

    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    landmark: str | None
    """The instruction that the user model was given for this turn."""
    began: float
    """Seconds on the engine's monotonic clock; use it only for ordering."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What a model writes for a row of work beside conversations: metrics, scenarios, a verdict."""

    benchmark: str
    stage: Stage
    unit: str
    text: str
    """The end of what is there of its answer, with the names of its parts."""


@dataclass(frozen=True, slots=True)
class LiveText:
    """The part of a message being spoken that a watcher has not seen yet."""

    speech: Speech
    text: str
    """The characters after the watcher's cursor."""
    cursor: int
    """The cursor for the next request, in characters."""

    @classmethod
    def since(cls, cursor: int, speech: Speech, text: str) -> Self:
        """Return what lies beyond the cursor. A cursor beyond the end (the message was begun again)
        returns the message from its start."""
        start = cursor if cursor <= len(text) else 0
        return cls(speech, text[start:], len(text))
