"""What is read out of the store: rows as values, already parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.benchmark import (
    ConversationKey,
    Role,
    Scenario,
    Speaker,
    Stage,
    State,
    StopReason,
    Track,
)
from engine.progress import others_in_words

Depends = Mapping[str, str]
"""What a result was made from: the name of each input, such as `metric definition`, and its
digest. Two of them that differ tell by their names why a result is stale."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Evidence that a judge gave."""

    text: str
    turn: int | None
    """The turn in whose reply it was found; None where it was found in none."""


@dataclass(frozen=True, slots=True)
class StoredScenario:
    seq: int
    benchmark: str
    scenario: Scenario
    source: str
    """`model` or `file`."""
    depends: Depends | None

    @property
    def played(self) -> bool:
        """Whether conversations are played from it. A base scenario that a model wrote is not: its
        variants are. What stands in `scenarios.json` always is."""
        return self.source == "file" or self.scenario.base_id != self.scenario.id


@dataclass(frozen=True, slots=True)
class StoredTake:
    seq: int
    at: datetime
    benchmark: str
    key: ConversationKey
    number: int
    scenario_seq: int | None
    user_model: str
    model: str
    scripted: bool
    stop_reason: StopReason | None
    """None while it is being played, or was interrupted."""
    finished: bool
    """Whether it was played to an end that may be judged."""
    detail: str | None
    depends: Depends | None


@dataclass(frozen=True, slots=True)
class UsedCall:
    """What one call used that was answered."""

    seq: int
    benchmark: str
    stage: Stage
    unit: str
    role: Role
    model: str
    """Its label."""
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    seq: int
    at: datetime
    turn: int
    speaker: Speaker
    text: str
    thought: str | None
    landmark: str | None
    done: bool
    finish: str
    reasoning: str | None = None
    """What a model thought aloud before it answered; no part of the transcript."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it; None where none did, or nobody
    said so."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    seq: int
    at: datetime
    take_seq: int
    metric_id: str
    track: Track
    judge: str
    source: str
    """`model` or `human`."""
    number: int
    present: bool | None
    passed: bool | None
    unscored: str | None
    justification: str
    quotes: tuple[Quote, ...]
    depends: Depends | None
    counted: bool | None = None
    """What counted for the conversation from this verdict on."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """Where a row of work stands now."""

    unit: str
    target: str | None
    state: State
    reason: str | None
    seq: int


@dataclass(frozen=True, slots=True)
class FailedUnit:
    """A row of work that failed and was not done since."""

    seq: int
    at: datetime
    benchmark: str
    stage: Stage
    unit: str
    target: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One attempt at a call, as it went."""

    at: datetime
    """When it was over."""
    role: Role
    model: str
    outcome: str
    """`answer`, or the class of what went wrong."""
    status: int | None
    duration_ms: int
    detail: str | None
    """What the server or the connection said."""
    served: str | None = None
    """The model that the server says answered."""
    is_other: bool = False
    """Whether that is another one than was asked."""
    route: str | None = None
    """What a gateway said of the way there."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One line of the verdict table: a conversation whose counting take has been judged."""

    seq: int
    """Of the newest verdict on it."""
    benchmark: str
    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    passed: bool | None
    """What counts; None where it is unscored."""
    unscored: str | None
    turns: int
    """Complete ones."""
    stop_reason: StopReason | None
    justification: str


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run, with the configuration that it ran under."""

    seq: int
    at: datetime
    benchmarks: tuple[str, ...]
    config: str
    """JSON, without keys and headers."""
    version: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A file of the mirror as it was last written or read."""

    path: str
    """Relative to the workspace, with `/`."""
    at: datetime
    digest: str
    seq: int
    """Rows beyond it are not in the file yet."""


_SPEAKERS: Final = {
    Speaker.TARGET: "replies of the target",
    Speaker.USER: "messages of the user model",
}


def others_of(messages: Iterable[StoredMessage], speaker: Speaker) -> dict[str, int]:
    """How many messages of one side came from which other model."""
    said = (one.served_by for one in messages if one.speaker is speaker)
    return dict(Counter(name for name in said if name is not None))


def others_who_spoke(messages: Sequence[StoredMessage], take: StoredTake) -> Iterator[str]:
    """A sentence for each side of a conversation for which another model spoke."""
    asked = {Speaker.TARGET: take.model, Speaker.USER: take.user_model}
    for speaker, what in _SPEAKERS.items():
        total = sum(one.speaker is speaker for one in messages)
        words = others_in_words(others_of(messages, speaker), total, what)
        if words is not None:
            yield f"{words}, not from {asked[speaker]}"
