"""Uncertain amounts: from the least to the most that is likely, with an expected value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Role
from engine.config.schema import ModelSpec


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most that is likely, and the expected value."""

    low: float
    high: float
    expected: float

    @classmethod
    def exactly(cls, amount: float) -> Range:
        """A range without uncertainty."""
        return cls(amount, amount, amount)

    def up_to(self, most: Range) -> Range:
        """From this range's minimum to the maximum of `most`. The expected value is the geometric
        mean of both, since errors of guesses are factors."""
        low, high = self.expected, most.expected
        return Range(self.low, most.high, (low * high) ** 0.5 if low else high / 2)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high, self.expected + other.expected)

    def __mul__(self, other: Range | float) -> Range:
        by = other if isinstance(other, Range) else Range.exactly(other)
        return Range(self.low * by.low, self.high * by.high, self.expected * by.expected)

    def capped(self, most: float | None) -> Range:
        """The range cut off at `most`."""
        if most is None:
            return self
        return Range(min(self.low, most), min(self.high, most), min(self.expected, most))


NONE: Final = Range(0.0, 0.0, 0.0)


def fewest_turns(turns: int) -> int:
    """The assumed least mean number of turns, where that was not measured. Few conversations end
    long before the last turn, because landmarks are laid out up to it."""
    return (turns + 1) // 2


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one role to one model for one stage."""

    role: Role
    spec: ModelSpec
    answers: Range
    """Usable answers that are wanted; each takes one call, or more where it must be repeated."""
    conversations: Range = field(default=NONE)
    """New conversations among them, which may end before their last turn."""
    target: ModelSpec | None = None
    """The target of the conversations."""
    items: int = 1
    """Scenarios or metrics written in one answer."""
    failed: int = 0
    """Answers among them that were asked for in vain before, and may take every try again."""

    def up_to(self, most: Calls) -> Calls:
        """The range from these calls to `most`."""
        answers = self.answers.up_to(most.answers)
        return replace(
            most, answers=answers, conversations=self.conversations.up_to(most.conversations)
        )
