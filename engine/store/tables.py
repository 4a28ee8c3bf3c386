"""The tables of the store: one value for each thing that became true, written and read alike.

What stands in which column follows from the fields (`codec`). The writer adds what only it knows:
`seq`, the time, and what stood or counted before; whoever makes a row leaves that alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from engine.benchmark import (
    BASE_SCENARIO,
    ConversationKey,
    Metric,
    Role,
    Scenario,
    Speaker,
    Stage,
    Stance,
    State,
    StopReason,
    Track,
    Usage,
    When,
)
from engine.branches import STANCE
from engine.checks import CheckAnswer, CheckKind, UserFault, landmark_faults
from engine.facts import NoteKind
from engine.jury import Jury

Depends = Mapping[str, str]
"""What a result was made from: the name of each input, such as `metric definition`, and its
digest. Two of them that differ tell by their names why a result is stale."""

RareFlag = Annotated[bool, "1 or NULL"]
"""A yes that is rare: an index holds only those."""

NO_COLUMN: Final = {"column": False}
"""Of a field that is for the writer and is not stored."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def utc_datetime(milliseconds: int) -> datetime:
    """Exact, where a division would round."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def without_base(depends: Depends | None) -> Depends | None:
    """Of a variant whose base is not in the store: what names one there says that it was lost."""
    if depends is None:
        return None
    return {name: digest for name, digest in depends.items() if name != BASE_SCENARIO}


@dataclass(frozen=True, slots=True)
class Quote:
    """Evidence that a judge gave."""

    text: str
    turn: int | None
    """The turn in whose reply it was found; None where it was found in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """What all of them share."""

    seq: int = 0
    """Rises over all tables; 0 until it is written."""
    at: int | None = None
    """Milliseconds since 1970, UTC. A row that comes from elsewhere may bring its own; without one,
    it is from when it is written."""

    @property
    def when(self) -> datetime:
        """Aware, UTC; of a row that was read."""
        return _EPOCH if self.at is None else utc_datetime(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(StoredRow):
    """A run begins."""

    benchmarks: tuple[str, ...]
    config: str
    """JSON, without keys and headers."""
    version: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow(StoredRow):
    """Something happened to a run as a whole."""

    kind: NoteKind
    benchmark: str
    """Empty where it concerns the whole run."""
    stage: Stage | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow(StoredRow):
    """A row of work moves to another state."""

    benchmark: str
    stage: Stage
    unit: str
    target: str | None = None
    was: State | None = None
    """As the writer finds it; None for a row that is new."""
    state: State
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow(StoredRow):
    """A metric was written, or is kept as it stood."""

    benchmark: str
    metric: Metric
    source: str
    """`model` or `file`."""
    depends: Depends | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow(StoredRow):
    """A scenario was written, was read from a file, or was taken out of it."""

    benchmark: str
    scenario: Scenario
    source: str
    """`model` or `file`."""
    removed: bool = False
    """Whether a person took it out of the file."""
    depends: Depends | None = None

    @property
    def played(self) -> bool:
        """Whether conversations are played from it. A base scenario that a model wrote is not: its
        variants are. What stands in `scenarios.json` always is."""
        return self.source == "file" or self.scenario.base_id != self.scenario.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRow(StoredRow):
    """A conversation begins to be played. The `seq` it gets is the take's identity."""

    benchmark: str
    key: ConversationKey
    number: int
    scenario_seq: int | None
    user_model: str
    model: str
    scripted: bool
    depends: Depends | None = None

    @property
    def stance(self) -> Stance:
        """Of its user model; of a take from elsewhere, of which nothing is known, the usual one."""
        said = (self.depends or {}).get(STANCE)
        return Stance(said) if said in set(Stance) else Stance.ADVERSARIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTake(TakeRow):
    """A take with how it ended: its row, and the newest of its ends."""

    stop_reason: StopReason | None = None
    """None while it is being played, or was interrupted."""
    finished: bool = False
    """Whether it was played to an end that may be judged."""
    detail: str | None = None
    user_faults: tuple[UserFault, ...] | None = None
    """What the user model did wrong in it by the rules; None where nobody looked."""
    landmark_check: tuple[CheckAnswer, ...] | None = None
    """What the newest check of its landmarks that can be used says; None without one."""

    @property
    def faults(self) -> tuple[UserFault, ...]:
        """All that is known of the user model's, by turn."""
        found = (*(self.user_faults or ()), *landmark_faults(self.landmark_check or ()))
        return tuple(sorted(found, key=lambda one: one.turn))

    @property
    def looked_at(self) -> bool:
        """Whether rules or a model looked for faults of the user model."""
        return self.user_faults is not None or self.landmark_check is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEndRow(StoredRow):
    """That playing came to an end."""

    take: int
    stop_reason: StopReason
    finished: bool = False
    """Whether it may be judged, which the writer decides."""
    detail: str | None = None
    user_faults: tuple[UserFault, ...] | None = None
    """What the user model did wrong; None where nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(StoredRow):
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
    """What a model thought aloud before it answered; no part of the transcript."""
    digest: bytes | None = None
    """Of speaker and text, where whoever made the row knows it already."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(StoredRow):
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
    marks: tuple[bool, ...] | None = None
    """Of each reply whether it shows the behaviour; None where the judge was not asked."""
    counted_before: bool | None = None
    """What counted for the conversation before this verdict, as the writer finds it."""
    counted: bool | None = None
    """What counts for it from this verdict on."""
    depends: Depends | None = None
    jury: Jury | None = field(default=None, metadata=NO_COLUMN)
    """Whose verdicts count from this one on; everybody's without one."""
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""
    label_sample: int | None = None
    """The sample, by its `seq`, for which a person gave it without knowing which conversation it
    is; None for any other, and for one that was read from a file."""
    stratum: str | None = None
    """Of conversations, from which a labelled one was drawn."""
    inclusion: float | None = None
    """The probability with which it was drawn, above 0 and at most 1; None where it is no label."""
    confidence: int | None = None
    """1 (unsure) to 3 (sure), of a label."""
    seconds: float | None = None
    """That a label took."""
    adjudicates: RareFlag = False
    """Whether it settles what people disagreed on."""

    @property
    def must_hold(self) -> When:
        """The metric's `when` that it was given under."""
        word = (self.definition or "").partition(" ")[2]
        return When(word) if word in set(When) else When.ANYWHERE

    @property
    def lacks_quote(self) -> bool:
        """Whether it counts and none of the evidence that was asked for was found."""
        was_asked = bool(self.quotes) or self.marks is not None
        return (
            self.passed is not None and was_asked and all(one.turn is None for one in self.quotes)
        )

    @property
    def definition(self) -> str | None:
        """Digest of the metric's definition that it was given under; None where that is not
        known."""
        return None if self.depends is None else self.depends.get("metric definition")


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One conversation of a sample."""

    take: int
    metric_id: str
    stratum: str
    """Of conversations, from which it was drawn."""
    inclusion: float
    """The probability with which it was drawn, above 0 and at most 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSampleRow(StoredRow):
    """A sample was drawn for a person to label."""

    benchmark: str
    person: str
    account: str
    """`user@host`."""
    seed: str
    items: tuple[LabelItem, ...]
    """In the order in which they are shown; a number that a person sees is a place here, from 1."""


class ReviewAction(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    GENERATE = "generate"
    """A model wrote it again, for a person's note."""
    UNDO = "undo"


class ReviewKind(StrEnum):
    METRIC = "metric"
    SCENARIO = "scenario"


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One metric or scenario that an act of a person is about."""

    kind: str
    """Of `ReviewKind`."""
    id: str
    digest: str
    """Of what was read, or of what stands from then on."""
    was: dict[str, Any] | None = None
    """What stood before, where something else was put in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRow(StoredRow):
    """A person approved, rejected or changed metrics or scenarios, or took that back."""

    benchmark: str
    action: ReviewAction
    person: str
    account: str
    """`user@host`."""
    reason: str = ""
    """Why; of one that was generated again, what the generator was told."""
    items: tuple[ReviewItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow(StoredRow):
    """A model has looked at a finished take: once for each check, and newer ones replace it."""

    take: int
    kind: CheckKind
    model: str
    """The label of the model that was asked; empty where there was nothing to ask."""
    answers: tuple[CheckAnswer, ...] = ()
    unusable: str | None = None
    """Why no answer came that can be used."""
    depends: Depends | None = None
    served_by: str | None = None
    """Another model than the one that was asked, which gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(StoredRow):
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
    is_other: RareFlag = False
    """Whether that is another one than was asked."""
    route: str | None = None
    """What a gateway said of the way there."""
    cost_reported: RareFlag = False
    """Whether the provider itself told what it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRow(StoredRow):
    """A model turned out not to take something."""

    model: str
    """Its address and its name there."""
    step: str
    dropped: tuple[str, ...]


TABLES: Final[Mapping[str, type[StoredRow]]] = {
    "run": RunRow,
    "note": NoteRow,
    "state": StateRow,
    "metric": MetricRow,
    "scenario": ScenarioRow,
    "take": TakeRow,
    "take_end": TakeEndRow,
    "message": MessageRow,
    "verdict": Verdict,
    "take_check": CheckRow,
    "attempt": AttemptRow,
    "learned": LearnedRow,
    "label_sample": LabelSampleRow,
    "review": ReviewRow,
}
"""The tables that share one rising `seq`."""
