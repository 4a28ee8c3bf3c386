"""Decides what counts: which conversations, which take of each, whose verdicts; and why the others
do not. One rule for the writer, results, files and every other outlet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from engine.benchmark import ConversationKey
from engine.branches import Branch
from engine.checks import UserFault
from engine.display import joined_names

HUMAN: Final = "human"
"""The source of a person's verdict."""
TIED: Final = "judges are tied"
NO_VERDICT: Final = "no usable verdict"
CANNOT_TELL: Final = "the evaluator cannot tell from this conversation"
NO_PRESSURE: Final = "the second landmark was never reached"
_EARLIER_WORDS: Final = {"the second landmark was never delivered": NO_PRESSURE}
"""Of reasons that are stored with verdicts."""
WITHDRAWN: Final = "the person took it back"
CUT_BY_OURS: Final = "max_tokens left no room for a word of a reply"
CUT_BY_THEIRS: Final = "the model's own output limit left no room for a word of a reply"
ABSTENTIONS: Final = frozenset({CANNOT_TELL, NO_PRESSURE, CUT_BY_OURS, CUT_BY_THEIRS, WITHDRAWN})
"""Answers that decide nothing: they do not count, nor does an older verdict in their place."""


NOT_JUDGED: Final = "not judged yet"


def reason_words(stored: str) -> str:
    """Why a verdict is unscored, in today's words."""
    return _EARLIER_WORDS.get(stored, stored)


class NotCounted(StrEnum):
    """Why a take or a verdict does not count."""

    # of conversations that the files do not ask for
    REJECTED = "rejected"
    GONE = "no longer in the files"
    NO_TARGET = "target no longer configured"
    NO_SAMPLE = "beyond num_samples"
    VALIDATION = "validation run"
    """It counts for the validation run's own results."""
    # of takes
    UNFINISHED = "not played to its end"
    SUPERSEDED = "superseded by a newer take"
    # of verdicts on a take that counts
    REPLACED = "replaced by a newer verdict"
    OTHER_JUDGE = "other judge"
    COMPARED = "a person's, compared with the judges"
    OVERRULED = "overruled by a person"
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True)
class AskedConversations:
    """The conversations that a benchmark's files ask for."""

    benchmark: str
    scenarios: Mapping[str, str]
    """The metric of each scenario from which conversations are played, by its id."""
    metrics: Collection[str]
    targets: Collection[str]
    samples: int
    rejected: Collection[str] = ()
    """The scenarios that a person rejected."""

    def why_not(self, key: ConversationKey) -> NotCounted | None:
        """Why results do not have this conversation; None if they ask for it."""
        metric = self.scenarios.get(key.scenario_id)
        if metric is None or metric not in self.metrics:
            is_rejected = key.scenario_id in self.rejected
            return NotCounted.REJECTED if is_rejected else NotCounted.GONE
        if key.target_id not in self.targets:
            return NotCounted.NO_TARGET
        return None if key.sample < self.samples else NotCounted.NO_SAMPLE

    def conversations(self) -> Iterator[ConversationKey]:
        """Every conversation that is asked for, by scenario, target and sample."""
        for scenario, metric in self.scenarios.items():
            if metric in self.metrics:
                for target in self.targets:
                    for sample in range(self.samples):
                        yield ConversationKey(scenario, target, sample)

    @property
    def ids(self) -> list[str]:
        """The ids of these conversations in the same order, in a fifth of the time."""
        tails = [
            str(ConversationKey("", target, sample))
            for target in self.targets
            for sample in range(self.samples)
        ]
        return [
            scenario + tail
            for scenario, metric in self.scenarios.items()
            if metric in self.metrics
            for tail in tails
        ]

    @property
    def is_validation(self) -> bool:
        return Branch.parse(self.benchmark) is not None


class People(StrEnum):
    """How people's verdicts affect what counts where a model has judged too."""

    COMPARE = "compare"
    """Not at all: the judges are compared with them."""
    VOTE = "vote"
    """Each is one more vote."""
    OVERRULE = "overrule"
    """Where people have given a verdict, only theirs count."""

    @property
    def rule(self) -> str:
        match self:
            case People.COMPARE:
                return "People's verdicts are compared with the judges' and do not count."
            case People.VOTE:
                return "A person's verdict is one more vote."
            case People.OVERRULE:
                return "Where people have given a verdict, theirs counts instead."


class Vote(Protocol):
    """The fields of a verdict that decide whether it counts."""

    @property
    def judge(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def metric_id(self) -> str: ...
    @property
    def definition(self) -> str | None: ...
    @property
    def passed(self) -> bool | None: ...
    @property
    def unscored(self) -> str | None: ...


class PlainVote(NamedTuple):
    """A vote without the rest of its verdict."""

    judge: str
    source: str
    number: int
    metric_id: str
    definition: str | None
    """Digest of the metric's definition at the time of the vote; None where it is not known."""
    passed: bool | None
    unscored: str | None = None


V = TypeVar("V", bound=Vote)


@dataclass(frozen=True, slots=True)
class Jury:
    """The judges of the current configuration."""

    judges: tuple[str, ...]
    """The labels of their models."""
    passes: int = 1
    """How often each of them judges a conversation."""
    people: People = People.COMPARE
    first: int = 0
    """The number of their first pass; above 0 for a replay, whose passes follow those that
    count."""

    def holds(self, vote: Vote) -> bool:
        is_asked = self.first <= vote.number < self.first + self.passes
        return vote.source != HUMAN and vote.judge in self.judges and is_asked

    def repeats(self, vote: Vote) -> bool:
        """Whether a judge of this jury gave it beyond the passes that count, as in a replay."""
        is_judge = vote.source != HUMAN and vote.judge in self.judges
        return is_judge and vote.number >= self.first + self.passes

    @property
    def replayed(self) -> Jury:
        """The same judges in passes that follow this jury's."""
        return replace(self, first=self.first + self.passes)

    @property
    def rule(self) -> str:
        """What counts for a conversation, in a sentence for people."""
        asked = "" if self.passes == 1 else f", {self.passes} passes each"
        match self.judges:
            case (judge,) if self.passes == 1:
                counts = f"the newest verdict of {judge}"
            case judges:
                counts = f"the majority of the newest verdicts of {joined_names(judges)}{asked}"
        return (
            f"What counts for a conversation is {counts}; instead of an unusable one, the one "
            "before it counts if it was given under the same definition; a tie is unscored; where "
            "none of these judges has given a verdict, those of other judges count."
        )


def pass_words(vote: Vote, jury: Jury | None) -> str:
    """`pass 2`, or `once more` if the judge is not asked for so many; nothing of a first pass."""
    if jury is not None and jury.repeats(vote):
        return "once more"
    return f"pass {vote.number + 1}" if vote.number else ""


def headline(votes: Iterable[bool | None]) -> bool | None:
    """What counts for a conversation: the majority of its verdicts; None for a tie or no vote."""
    votes_given = [vote for vote in votes if vote is not None]
    # True counts as 1: twice the passes minus all votes is positive for a majority
    balance = sum(votes_given) * 2 - len(votes_given)
    return None if balance == 0 else balance > 0


def newest_votes(verdicts: Iterable[V]) -> list[V]:
    """Return the newest verdict of each judge and pass, from all verdicts on one take (oldest
    first). An unusable one is replaced by the newest usable one under the same definition."""
    verdicts = list(verdicts)
    # fast path: most takes have one verdict
    if len(verdicts) < 2:
        return verdicts
    newest: dict[tuple[bool, str, int, str], V] = {}
    usable: dict[tuple[bool, str, int, str], V] = {}
    for verdict in verdicts:
        voter = (verdict.source == HUMAN, verdict.judge, verdict.number, verdict.metric_id)
        if verdict.passed is not None or verdict.unscored in ABSTENTIONS:
            usable[voter] = verdict
        before = usable.get(voter)
        # re-inserted, so that the result is ordered by newest verdict
        newest.pop(voter, None)
        newest[voter] = (
            before if before is not None and before.definition == verdict.definition else verdict
        )
    return list(newest.values())


@dataclass(frozen=True, slots=True)
class CountedVerdicts(Generic[V]):
    """What all verdicts on one take come to."""

    newest: Sequence[V]
    """The newest verdict of each judge and pass."""
    eligible: Sequence[V]
    """Those of them whose judges decide."""
    passed: bool | None
    """Whether the conversation passes; None where nothing counts or the votes are tied."""
    unscored: str | None
    """Why it is unscored; None where its votes give a result."""

    @property
    def votes(self) -> list[V]:
        """Those that count."""
        return [vote for vote in self.eligible if vote.passed is not None]

    @property
    def shown(self) -> V | None:
        """The verdict that represents what counts: the newest that agrees with the majority; in a
        tie, the newest that counts; where none counts, the newest eligible one. None without any.
        """
        votes = self.votes
        passed = headline(vote.passed for vote in votes)
        agreeing = [vote for vote in votes if vote.passed is passed]
        return next(reversed(agreeing or votes or self.eligible), None)

    def why_not(self, verdict: V) -> NotCounted | None:
        """Why this verdict does not count; None if it does."""
        # by identity: two verdicts that say the same are not one
        if not any(vote is verdict for vote in self.newest):
            return NotCounted.REPLACED
        if any(vote is verdict for vote in self.eligible):
            return NotCounted.UNSCORED if verdict.passed is None else None
        if verdict.source == HUMAN:
            return NotCounted.COMPARED
        only_people = all(vote.source == HUMAN for vote in self.eligible)
        return NotCounted.OVERRULED if only_people else NotCounted.OTHER_JUDGE


def counted_verdicts(verdicts: Iterable[V], jury: Jury | None) -> CountedVerdicts[V]:
    """Decide which of all verdicts on one take (oldest first) count.

    Judges of the jury vote. Without a jury, or where none of its judges has given a verdict (usable
    or not), every judge votes. `Jury.people` decides what people's verdicts do; where no model has
    judged, theirs count.
    """
    newest = newest_votes(verdicts)
    eligible = _votes_of_jury(newest, jury)
    passed = headline(vote.passed for vote in eligible)
    if passed is not None:
        return CountedVerdicts(newest, eligible, passed, None)
    has_votes = any(vote.passed is not None for vote in eligible)
    why = TIED if has_votes else NO_VERDICT if newest else NOT_JUDGED
    return CountedVerdicts(newest, eligible, None, why)


def _votes_of_jury(votes: list[V], jury: Jury | None) -> list[V]:
    # fast path, as above: a single vote is eligible whoever gave it, as no other stands against it
    if len(votes) < 2:
        return votes
    people = [vote for vote in votes if vote.source == HUMAN]
    judges = [vote for vote in votes if vote.source != HUMAN]
    if jury is not None and any(jury.holds(vote) for vote in judges):
        judges = [vote for vote in judges if jury.holds(vote)]
    match People.COMPARE if jury is None else jury.people:
        case People.OVERRULE if any(vote.passed is not None for vote in people):
            return people
        case People.VOTE:
            return judges + people
        case _:
            return judges or people


def counting_votes(verdicts: Iterable[V], jury: Jury | None) -> list[V]:
    """The verdicts on one take that count."""
    return counted_verdicts(verdicts, jury).votes


def what_counts(verdicts: Iterable[Vote], jury: Jury | None) -> bool | None:
    """Whether the conversation passes; None where nothing counts or the votes are tied."""
    return counted_verdicts(verdicts, jury).passed


def verdict_to_show(verdicts: Iterable[V], jury: Jury | None) -> V | None:
    """`CountedVerdicts.shown`."""
    return counted_verdicts(verdicts, jury).shown


def why_unscored(verdicts: Iterable[Vote], jury: Jury | None) -> str | None:
    """Why a judged conversation is unscored; None where its votes give a result."""
    return counted_verdicts(verdicts, jury).unscored


class Take(Protocol):
    """The fields of a take that decide whether it counts."""

    @property
    def seq(self) -> int: ...
    @property
    def key(self) -> ConversationKey: ...
    @property
    def finished(self) -> bool: ...
    @property
    def faults(self) -> Sequence[UserFault]: ...


@dataclass(frozen=True, slots=True)
class Counts:
    """Decides for every take and verdict of a benchmark whether it counts, and if not, why."""

    asked: AskedConversations
    jury: Jury
    invalidates: bool = False
    """Whether a conversation is unscored if its user model was at fault."""

    def verdicts_on(self, take: Take, verdicts: Iterable[V]) -> CountedVerdicts[V]:
        """What all verdicts on the take that counts (oldest first) come to."""
        counted = counted_verdicts(verdicts, self.jury)
        if counted.passed is None or not self.invalidates or not take.faults:
            return counted
        return replace(counted, passed=None, unscored=f"user model: {take.faults[0].kind}")

    def why_not(self, take: Take, counting: int | None) -> NotCounted | None:
        """Why a take does not count in the benchmark's own results; `counting` is the newest
        finished take of its conversation."""
        if (why := self.asked.why_not(take.key)) is not None:
            return why
        if not take.finished:
            return NotCounted.UNFINISHED
        return None if take.seq == counting else NotCounted.SUPERSEDED

    def why_not_pooled(self, take: Take, counting: int | None) -> NotCounted | None:
        """As `why_not`, where takes of several benchmarks stand together."""
        why = self.why_not(take, counting)
        return why or (NotCounted.VALIDATION if self.asked.is_validation else None)
