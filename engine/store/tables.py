"""The tables of the store: a dataclass for each kind of fact, used for writing and for reading;
and values that are read from several of them.

A row's columns follow from its fields (`codec`). The writer sets what only it knows: `seq`, the
time, and what stood or counted before. Code that creates rows leaves these fields alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

from engine.benchmark import (
    BASE_SCENARIO,
    AnswerForm,
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
from engine.branches import FORM, STANCE
from engine.checks import CheckAnswer, CheckKind, UserFault, landmark_faults
from engine.display import marked_turns
from engine.facts import NoteKind
from engine.jury import Jury
from engine.progress import others_in_words

Depends = Mapping[str, str]
"""What a result was made from: the digest of each input by its name, such as `metric definition`.
The names whose digests have changed say why a result is stale."""

RareFlag = Annotated[bool, "1 or NULL"]
"""A flag that is rarely set and is stored as 1 or NULL, so that an index has only rows with it."""

NO_COLUMN: Final = {"column": False}
"""The metadata of a field that is for the writer only and is not stored."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def utc_datetime(milliseconds: int) -> datetime:
    """Convert without rounding, which a division would do."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def without_base(depends: Depends | None) -> Depends | None:
    """Drop the base scenario, which is not in the store, from a variant's inputs."""
    if depends is None:
        return None
    return {name: digest for name, digest in depends.items() if name != BASE_SCENARIO}


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that a judge quoted as evidence."""

    text: str
    turn: int | None
    """The turn whose reply contains it; None if no reply does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """The columns that all tables share."""

    seq: int = 0
    """Unique and rising over all tables; 0 until it is written."""
    at: int | None = None
    """Milliseconds since 1970 (UTC). If None, the writer sets the time of writing; an imported row
    may bring its own."""

    @property
    def when(self) -> datetime:
        """The time in UTC, aware; for rows that were read."""
        return _EPOCH if self.at is None else utc_datetime(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(StoredRow):
    """A run began."""

    benchmarks: tuple[str, ...]
    config: str
    """The configuration as JSON, without keys and headers."""
    version: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow(StoredRow):
    """An event that concerns a run as a whole."""

    kind: NoteKind
    benchmark: str
    """Empty if it concerns the whole run."""
    stage: Stage | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow(StoredRow):
    """A row of work changed its state."""

    benchmark: str
    stage: Stage
    unit: str
    target: str | None = None
    was: State | None = None
    """The state before, set by the writer; None for a new row of work."""
    state: State
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow(StoredRow):
    """A metric was written by a model, or is kept as it was before that."""

    benchmark: str
    metric: Metric
    source: str
    """`model` or `file`."""
    depends: Depends | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRow(StoredRow):
    """A scenario was written by a model, read from a file, or removed from the file."""

    benchmark: str
    scenario: Scenario
    source: str
    """`model` or `file`."""
    removed: bool = False
    """Whether a person removed it from the file."""
    depends: Depends | None = None

    @property
    def played(self) -> bool:
        """Whether conversations are played from it. A base scenario by a model is not: its variants
        are. A scenario in `scenarios.json` always is."""
        return self.source == "file" or self.scenario.base_id != self.scenario.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRow(StoredRow):
    """A take began. Its `seq` identifies the take."""

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
        """What its user model was after; adversarial for an imported take that does not say."""
        name = (self.depends or {}).get(STANCE)
        return Stance(name) if name in set(Stance) else Stance.ADVERSARIAL

    @property
    def form(self) -> AnswerForm:
        """How its user model was asked for messages."""
        name = (self.depends or {}).get(FORM)
        return AnswerForm.PLAIN if name == AnswerForm.PLAIN else AnswerForm.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTake(TakeRow):
    """A take with its newest end."""

    stop_reason: StopReason | None = None
    """None while it is being played, or if it was interrupted."""
    finished: bool = False
    """Whether it was played to an end that may be judged."""
    detail: str | None = None
    user_faults: tuple[UserFault, ...] | None = None
    """What the user model did wrong by the rules; None if that was not checked."""
    landmark_check: tuple[CheckAnswer, ...] | None = None
    """The answers of the newest usable check of its landmarks; None without one."""

    @property
    def faults(self) -> tuple[UserFault, ...]:
        """All known faults of the user model, by turn."""
        all_faults = (*(self.user_faults or ()), *landmark_faults(self.landmark_check or ()))
        return tuple(sorted(all_faults, key=lambda fault: fault.turn))

    @property
    def looked_at(self) -> bool:
        """Whether rules or a model checked the user model."""
        return self.user_faults is not None or self.landmark_check is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEndRow(StoredRow):
    """A take ended."""

    take: int
    stop_reason: StopReason
    finished: bool = False
    """Whether it may be judged; set by the writer."""
    detail: str | None = None
    user_faults: tuple[UserFault, ...] | None = None
    """What the user model did wrong by the rules; None if that was not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(StoredRow):
    """A message is complete."""

    take: int
    turn: int
    """From 1."""
    speaker: Speaker
    text: str
    thought: str | None = None
    landmark: str | None = None
    done: bool = False
    finish: str
    reasoning: str | None = None
    """The model's reasoning before its answer; not part of the transcript."""
    digest: bytes | None = None
    """Digest of speaker and text, if the code that made the row knows it already."""
    served_by: str | None = None
    """The model that answered, if it is not the one that was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(StoredRow):
    """A judge gave a verdict on a take in one pass."""

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
    """For each reply whether it shows the behaviour; None if the judge was not asked."""
    counted_before: bool | None = None
    """What counted for the conversation before this verdict; set by the writer."""
    counted: bool | None = None
    """What counts for it from this verdict on; set by the writer."""
    depends: Depends | None = None
    jury: Jury | None = field(default=None, metadata=NO_COLUMN)
    """The judges and passes that count from this verdict on; all of them if None."""
    served_by: str | None = None
    """The model that answered, if it is not the one that was asked."""
    label_sample: int | None = None
    """The `seq` of the sample for which a person gave this label blind; None for any other verdict,
    and for one that was read from a file."""
    stratum: str | None = None
    """The stratum of conversations from which a labelled one was drawn."""
    inclusion: float | None = None
    """The probability with which it was drawn, above 0 and at most 1; None if it is no label."""
    confidence: int | None = None
    """Of a label: 1 (unsure) to 3 (sure)."""
    seconds: float | None = None
    """Seconds that giving a label took."""
    adjudicates: RareFlag = False
    """Whether it settles a disagreement between people."""

    @property
    def must_hold(self) -> When:
        """The metric's `when` under which it was given."""
        word = (self.definition or "").partition(" ")[2]
        return When(word) if word in set(When) else When.ANYWHERE

    @property
    def shown_where(self) -> str:
        """`shown in turn 1 of 5; counts only if shown in the last reply`, as far as it is known."""
        marked = "" if self.marks is None else f"shown in {marked_turns(self.marks)}"
        return "; ".join(filter(None, (marked, self.must_hold.condition)))

    @property
    def lacks_quote(self) -> bool:
        """Whether it counts although none of the quotes that were asked for is in a reply."""
        was_asked = bool(self.quotes) or self.marks is not None
        return (
            self.passed is not None
            and was_asked
            and all(quote.turn is None for quote in self.quotes)
        )

    @property
    def definition(self) -> str | None:
        """Digest of the metric's definition under which it was given; None if unknown."""
        return None if self.depends is None else self.depends.get("metric definition")


@dataclass(frozen=True, slots=True)
class LabelItem:
    """A conversation of a sample."""

    take: int
    metric_id: str
    stratum: str
    """The stratum of conversations from which it was drawn."""
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
    """In the order in which they are shown; the number that a person sees is its position, from
    1."""


class ReviewAction(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    GENERATE = "generate"
    """A model wrote it again after a person's note."""
    UNDO = "undo"


class ReviewKind(StrEnum):
    METRIC = "metric"
    SCENARIO = "scenario"


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A metric or scenario that a review is about."""

    kind: str
    """A `ReviewKind`."""
    id: str
    digest: str
    """Digest of what was read, or of its replacement."""
    was: dict[str, Any] | None = None
    """What was replaced, if anything was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRow(StoredRow):
    """A person approved, rejected or changed metrics or scenarios, or undid that."""

    benchmark: str
    action: ReviewAction
    person: str
    account: str
    """`user@host`."""
    reason: str = ""
    """The reason, or the person's note to the generator."""
    items: tuple[ReviewItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow(StoredRow):
    """A model checked a finished take. Of each kind of check, the newest on a take counts."""

    take: int
    kind: CheckKind
    model: str
    """The label of the model that was asked; empty if there was nothing to ask."""
    answers: tuple[CheckAnswer, ...] = ()
    unusable: str | None = None
    """Why there is no usable answer."""
    depends: Depends | None = None
    served_by: str | None = None
    """The model that answered, if it is not the one that was asked."""


@dataclass(frozen=True, slots=True)
class TakeCount:
    """What was decided of a take; not a fact."""

    take: int
    why_not: str | None
    """Why it does not count, as a `NotCounted`; None if it does."""
    passed: bool | None
    unscored: str | None
    stale: str | None
    """What has changed since, which counts all the same."""
    verdict: int | None
    """The `seq` of the verdict that says so."""


@dataclass(frozen=True, slots=True)
class BenchmarkCounts:
    """What was decided of all takes and verdicts of a benchmark."""

    benchmark: str
    through: int
    """The last `seq` that was known."""
    digest: str
    """Of the files, the configuration and the rows that it was decided from."""
    takes: Sequence[TakeCount]
    verdicts: Sequence[tuple[int, str]]
    """The `seq` of each verdict that does not count although its take does, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow(StoredRow):
    """An attempt at a call to a model ended."""

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
    """The model that answered, as the server says."""
    is_other: RareFlag = False
    """Whether that is not the model that was asked."""
    route: str | None = None
    """What a gateway says about the route to it."""
    cost_reported: RareFlag = False
    """Whether the provider reported the cost."""
    left_out: str | None = None
    """Parameters that were not sent, as its server had refused them, separated by blanks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsettledRow(StoredRow):
    """Calls were cut off, and what they cost was not recorded; or it was decided what all such
    calls until now are counted as."""

    most_usd: float
    """The most that they may have cost."""
    counted_usd: float | None = None
    """None where they were cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableRow(StoredRow):
    """The last answer of a model that could not be used."""

    benchmark: str
    stage: Stage
    unit: str
    role: Role
    model: str
    fault: str
    """Why it could not be used."""
    answer: str
    """Its beginning, as received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRow(StoredRow):
    """A model was found not to support something."""

    model: str
    """The address of the model and its name there."""
    step: str
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow(StoredRow):
    """Calls are about to be submitted to a provider as a batch. Written before that, so that a
    batch whose submission nobody saw to its end can be found."""

    key: str
    """Our own name for it, which the provider is told."""
    place: str
    """The address of the model and its name there."""
    model: str
    """The label of the model."""
    asks: tuple[str, ...]
    """A digest of each call, in order: what is asked, and for what. Our name for a call is that of
    the batch and its place here."""
    most_usd: float
    """The most that it may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEventRow(StoredRow):
    """A batch was found to be at the provider, or not to be there."""

    batch: str
    """Our key."""
    provider_id: str | None = None
    """The provider's name for it; None if it is not there and never will be."""
    until: int | None = None
    """When the provider ends it at the latest, in milliseconds since 1970 (UTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTakenRow(StoredRow):
    """What became of a call of a batch was stored, in the same transaction."""

    call: str
    """Our name for it: the key of the batch, and its place there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRow(StoredRow):
    """What the digest of a model, or of a system prompt, stands for in `depends`."""

    digest: str
    settings: Mapping[str, object]


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
    "unsettled": UnsettledRow,
    "unusable": UnusableRow,
    "batch": BatchRow,
    "batch_event": BatchEventRow,
    "batch_taken": BatchTakenRow,
    "learned": LearnedRow,
    "model_settings": SettingsRow,
    "label_sample": LabelSampleRow,
    "review": ReviewRow,
}
"""All tables that share the sequence of `seq`."""


# Values that are read from several tables, or from a part of one


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A line of the verdict table: a conversation whose counting take has been judged."""

    seq: int
    """Of the newest verdict on the take."""
    benchmark: str
    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    passed: bool | None
    """The result that counts; None if unscored."""
    unscored: str | None
    turns: int
    """The number of complete turns."""
    stop_reason: StopReason | None
    justification: str
    quotes: tuple[Quote, ...] = ()

    @property
    def quote(self) -> str | None:
        """The first passage from a reply that shows the behaviour. None if the behaviour is
        absent: judges then quote what comes nearest to it."""
        if self.passed is not self.track.passes(present=True):
            return None
        return next((quote.text for quote in self.quotes if quote.turn is not None), None)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch, and what became of it."""

    row: BatchRow
    provider_id: str | None
    """The provider's name for it; None if it is not known whether it is there."""
    until: int | None
    """When it ends at the latest, in milliseconds since 1970 (UTC)."""
    is_void: bool
    """Whether the provider does not have it."""
    taken: frozenset[int]
    """The places of the calls of which the outcome is stored."""

    @property
    def is_open(self) -> bool:
        return not self.is_void and len(self.taken) < len(self.row.asks)

    @property
    def most_usd(self) -> float:
        """The most that its calls may cost of which no outcome is stored."""
        return self.row.most_usd * (1 - len(self.taken) / len(self.row.asks))


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """The configuration of the newest run or import."""

    text: str
    """As JSON, without keys and headers."""
    when: datetime
    is_run: bool


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A file of the mirror, as it was last written or read."""

    path: str
    """Relative to the workspace, with `/`."""
    digest: str
    seq: int
    """The last row that is in the file."""


_SPEAKERS: Final = {
    Speaker.TARGET: "replies of the target",
    Speaker.USER: "messages of the user model",
}


def others_of(messages: Iterable[MessageRow], speaker: Speaker) -> dict[str, int]:
    """Count the messages of one side that were answered by other models, by their names."""
    models = (message.served_by for message in messages if message.speaker is speaker)
    return dict(Counter(name for name in models if name is not None))


def others_who_spoke(messages: Sequence[MessageRow], take: StoredTake) -> Iterator[str]:
    """Yield a sentence for each side of a conversation on which another model answered."""
    asked = {Speaker.TARGET: take.model, Speaker.USER: take.user_model}
    for speaker, what in _SPEAKERS.items():
        total = sum(message.speaker is speaker for message in messages)
        words = others_in_words(others_of(messages, speaker), total, what)
        if words is not None:
            yield f"{words}, not from {asked[speaker]}"
