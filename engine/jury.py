"""Whose verdicts count for a conversation: one rule for the writer, the results and the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

HUMAN: Final = "human"
"""The source of a person's verdict."""
TIED: Final = "judges are tied"


class Vote(Protocol):
    """What of a verdict decides whether it counts."""

    @property
    def judge(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def passed(self) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote and no more."""

    judge: str
    source: str
    number: int
    passed: bool | None


V = TypeVar("V", bound=Vote)


@dataclass(frozen=True, slots=True)
class Jury:
    """The judges of the present configuration."""

    judges: tuple[str, ...]
    """Their labels."""
    passes: int = 1
    """How often each of them judges a conversation."""

    def holds(self, vote: Vote) -> bool:
        return vote.source != HUMAN and vote.judge in self.judges and vote.number < self.passes

    @property
    def rule(self) -> str:
        """What counts for a conversation, in a sentence for people."""
        asked = "" if self.passes == 1 else f", {self.passes} passes each"
        match self.judges:
            case (judge,) if self.passes == 1:
                counts = f"the newest verdict of {judge}"
            case judges:
                counts = f"the majority of the newest verdicts of {_listed(judges)}{asked}"
        return (
            f"What counts for a conversation is {counts}; a person's verdict is one more vote, "
            "a tie is unscored, and where none of these judges has given a verdict, those of "
            "other judges count."
        )


def _listed(names: tuple[str, ...]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def headline(votes: Iterable[bool | None]) -> bool | None:
    """What counts for a conversation: the majority of its verdicts; None for a tie or no vote."""
    given = [vote for vote in votes if vote is not None]
    balance = sum(given) * 2 - len(given)
    return None if balance == 0 else balance > 0


def counting(verdicts: Iterable[V], jury: Jury | None) -> list[V]:
    """Those of all verdicts on one take, oldest first, that count: of each judge and pass the
    newest that can be used.

    Judges of the jury and people vote. Where none of the jury has given a usable verdict, or there
    is no jury, everybody does.
    """
    newest: dict[tuple[bool, str, int], V] = {}
    for verdict in verdicts:
        if verdict.passed is not None:
            voter = (verdict.source == HUMAN, verdict.judge, verdict.number)
            newest.pop(voter, None)
            newest[voter] = verdict
    votes = list(newest.values())
    if jury is None or not any(jury.holds(vote) for vote in votes):
        return votes
    return [vote for vote in votes if vote.source == HUMAN or jury.holds(vote)]


def what_counts(verdicts: Iterable[Vote], jury: Jury | None) -> bool | None:
    """Whether the conversation passes; None where nothing counts, or the votes are tied."""
    return headline(vote.passed for vote in counting(verdicts, jury))


def why_unscored(verdicts: Iterable[Vote], jury: Jury | None) -> str | None:
    """Why nothing counts although somebody judged; None where something does."""
    votes = counting(verdicts, jury)
    if not votes:
        return "no usable verdict"
    return TIED if headline(vote.passed for vote in votes) is None else None
