"""What can be written into the store: one value for each thing that became true.

The writer adds what only it knows: `seq`, the time, and what stood or counted before. A row that
comes from elsewhere may bring its own time, `at`, in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.benchmark import (
    ConversationKey,
    Metric,
    Role,
    Scenario,
    Speaker,
    Stage,
    State,
    StopReason,
    Track,
    Usage,
)
from engine.facts import NoteKind
from engine.jury import Jury
from engine.store.records import Depends, Quote


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run begins."""

    benchmarks: Sequence[str]
    config: str
    """JSON, without keys and headers."""
    version: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """Something happened to a run as a whole."""

    kind: NoteKind
    benchmark: str
    """Empty where it concerns the whole run."""
    stage: Stage | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """A row of work moves to another state."""

    benchmark: str
    stage: Stage
    unit: str
    target: str | None = None
    state: State
    reason: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """A metric was written, or is kept as it stood."""

    benchmark: str
    metric: Metric
    source: str
    """`model` or `file`."""
    depends: Depends | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow:
    """A scenario was written, was read from a file, or was taken out of it."""

    benchmark: str
    scenario: Scenario
    source: str
    """`model` or `file`."""
    removed: bool = False
    depends: Depends | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRow:
    """A conversation begins to be played. The `seq` it gets is the take's identity."""

    benchmark: str
    key: ConversationKey
    number: int
    scenario_seq: int | None
    user_model: str
    model: str
    scripted: bool
    depends: Depends | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEndRow:
    """That playing came to an end."""

    take: int
    stop_reason: StopReason
    detail: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One message is complete."""

    take: int
    turn: int
    """1-based."""
    speaker: Speaker
    text: str
    thought: str | None = None
    landmark: str | None = None
    done: bool = False
    finish: str
    reasoning: str | None = None
    digest: bytes | None = None
    """Of speaker and text, where whoever made the row knows it already."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVerdict:
    """A judge has answered on one take in one pass."""

    take: int
    metric_id: str
    track: Track
    judge: str
    source: str
    """`model` or `human`."""
    number: int
    present: bool | None
    passed: bool | None
    unscored: str | None = None
    justification: str
    quotes: tuple[Quote, ...] = ()
    depends: Depends | None = None
    jury: Jury | None = None
    """Whose verdicts count from this one on; everybody's without one."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt at one call to a model came to an end."""

    benchmark: str
    stage: Stage
    unit: str
    target: str | None = None
    role: Role
    model: str
    outcome: str
    status: int | None = None
    duration_ms: int
    usage: Usage
    detail: str | None = None
    first_token_ms: int | None = None
    served: str | None = None
    """The model that the server says answered."""
    is_other: bool = False
    """Whether that is another one than was asked."""
    route: str | None = None
    """What a gateway said of the way there."""
    cost_reported: bool = False
    """Whether the provider itself told what it cost."""
    at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRow:
    """A model turned out not to take something."""

    model: str
    """Its address and its name there."""
    step: str
    dropped: Sequence[str]


Row = (
    RunRow
    | NoteRow
    | StateRow
    | MetricRow
    | ScenarioRow
    | TakeRow
    | TakeEndRow
    | MessageRow
    | NewVerdict
    | AttemptRow
    | LearnedRow
)
