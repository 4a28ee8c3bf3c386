"""Amounts that are not known yet: how many, how much, from the least to the most that is likely."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Role
from engine.config.schema import ModelSpec


@dataclass(frozen=True, slots=True)
class Range:
    """From the least to the most that is likely, and what is expected between them."""

    low: float
    high: float
    expected: float

    @classmethod
    def exactly(cls, amount: float) -> Range:
        """Where there is no doubt."""
        return cls(amount, amount, amount)

    def up_to(self, most: Range) -> Range:
        """From the least of this to the most of that. Expected is their geometric mean: what is
        only guessed at is off by a factor."""
        low, high = self.expected, most.expected
        return Range(self.low, most.high, (low * high) ** 0.5 if low else high / 2)

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high, self.expected + other.expected)

    def __mul__(self, other: Range | float) -> Range:
        by = other if isinstance(other, Range) else Range.exactly(other)
        return Range(self.low * by.low, self.high * by.high, self.expected * by.expected)

    def capped(self, most: float | None) -> Range:
        """None of it above `most`."""
        if most is None:
            return self
        return Range(min(self.low, most), min(self.high, most), min(self.expected, most))


NONE: Final = Range(0.0, 0.0, 0.0)


def fewest_turns(turns: int) -> int:
    """That conversations have on average at the least, where that was not measured: what a person
    is to do is laid out up to the last turn, so that few end long before it."""
    return (turns + 1) // 2


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one role to one model for one stage."""

    role: Role
    spec: ModelSpec
    answers: Range
    """That are wanted. Each takes a call, and more where it must be asked for again."""
    conversations: Range = field(default=NONE)
    """New ones among what is played, which may end before their last turn."""
    target: ModelSpec | None = None
    """Whose conversations they are."""
    items: int = 1
    """Scenarios or metrics that are written in one answer."""

    def up_to(self, most: Calls) -> Calls:
        """These calls, fewer here and more there."""
        answers = self.answers.up_to(most.answers)
        return replace(
            most, answers=answers, conversations=self.conversations.up_to(most.conversations)
        )
