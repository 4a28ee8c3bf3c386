"""Decides whose verdicts count for a conversation: one rule for the writer, results and files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from engine.display import joined_names

HUMAN: Final = "human"
"""The source of a person's verdict."""
TIED: Final = "judges are tied"
NO_VERDICT: Final = "no usable verdict"
CANNOT_TELL: Final = "the evaluator cannot tell from this conversation"
NO_PRESSURE: Final = "the second landmark was never delivered"
WITHDRAWN: Final = "the person took it back"
ABSTENTIONS: Final = frozenset({CANNOT_TELL, NO_PRESSURE, WITHDRAWN})
"""Answers that decide nothing: they do not count, nor does an older verdict in their place."""


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


@dataclass(frozen=True, slots=True)
class PlainVote:
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


def counting_votes(verdicts: Iterable[V], jury: Jury | None) -> list[V]:
    """Return the verdicts that count, from all verdicts on one take (oldest first).

    Judges of the jury vote. Without a jury, or where none of its judges has given a verdict (usable
    or not), every judge votes. `Jury.people` decides what people's verdicts do; where no model has
    judged, theirs count.
    """
    return [
        vote for vote in _votes_of_jury(newest_votes(verdicts), jury) if vote.passed is not None
    ]


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


def what_counts(verdicts: Iterable[Vote], jury: Jury | None) -> bool | None:
    """Whether the conversation passes; None where nothing counts or the votes are tied."""
    return headline(vote.passed for vote in counting_votes(verdicts, jury))


def verdict_to_show(verdicts: Iterable[V], jury: Jury | None) -> V | None:
    """The verdict that represents what counts: the newest that agrees with the majority; in a tie,
    the newest that counts; where none counts, the newest eligible one. None without verdicts."""
    of_jury = _votes_of_jury(newest_votes(verdicts), jury)
    votes = [vote for vote in of_jury if vote.passed is not None]
    passed = headline(vote.passed for vote in votes)
    agreeing = [vote for vote in votes if vote.passed is passed]
    return next(reversed(agreeing or votes or of_jury), None)


def why_unscored(verdicts: Iterable[Vote], jury: Jury | None) -> str | None:
    """Why a judged conversation is unscored; None where its votes give a result."""
    votes = counting_votes(verdicts, jury)
    if not votes:
        return NO_VERDICT
    return TIED if headline(vote.passed for vote in votes) is None else None
