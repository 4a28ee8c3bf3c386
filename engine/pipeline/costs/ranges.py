"""Calls and what they use, as uncertain amounts: from the least to the most that is likely, with an
expected value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from engine.benchmark import Role, Stage
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

    def from_share(self, share: float) -> Range:
        """From this share of the range's minimum to its maximum. The expected value is the
        geometric mean of the share and the whole, since errors of guesses are factors."""
        return Range(self.low * share, self.high, self.expected * share**0.5)

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

SPEAKING: Final = frozenset({Role.USER, Role.TARGET})
"""The roles that take turns in a conversation."""
JUDGING: Final = frozenset({Role.EVALUATOR, Role.CHECKER})


def fewest_turns(turns: int) -> int:
    """The assumed least mean number of turns, where that was not measured. Few conversations end
    long before the last turn, because landmarks are laid out up to it."""
    return (turns + 1) // 2


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The total usage of a set of calls."""

    calls: Range = NONE
    """Includes repeated calls after unusable answers."""
    input_tokens: Range = NONE
    output_tokens: Range = NONE
    usd: Range = NONE
    """The cost of the calls whose price is known."""
    unpriced: Range = NONE
    """The calls whose price is unknown."""
    measured: bool = True
    """Whether everything is based on measured calls."""
    tried_again: float = 0.0
    """Likely additional calls after failures, from the rate of failures so far."""

    def __add__(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.measured and other.measured,
            self.tried_again + other.tried_again,
        )

    @property
    def is_free(self) -> bool:
        return not self.unpriced.high and not self.usd.high


NOTHING: Final = CostEstimate()


class CallCost(NamedTuple):
    """What a call of a kind may cost, in US dollars."""

    usual_usd: float
    """An assumption, until one has been answered."""
    most_usd: float
    """The cost of a call that is told as much as is assumed, and whose answer is as long as it may
    be."""
    answer_usd: float = 0.0
    """The part of the longest answer in it."""
    token_usd: float = 0.0
    """The cost of each token that a call is told."""


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

    def from_share(self, share: float) -> Calls:
        """The range from this share of them to all of them."""
        return replace(
            self,
            answers=self.answers.from_share(share),
            conversations=self.conversations.from_share(share),
        )

    def of_one_conversation(self, rows: Range, turns: int) -> Calls:
        """The calls that one whole conversation takes, of those that so many take together."""
        if self.role in SPEAKING:
            whole = Range(fewest_turns(turns), turns, turns)
            return replace(self, answers=whole, conversations=Range.exactly(1))
        return replace(self, answers=self.answers * (1 / rows.expected))


@dataclass(frozen=True, slots=True)
class StageCalls:
    """The calls of a stage; when playing and judging, for one target."""

    stage: Stage
    target: str | None
    rows: Range
    """Rows of work, including those that depend on unwritten scenarios."""
    parts: Sequence[Calls]
    scenarios: Range = NONE
    """Base scenarios to be written, for that stage."""
    variants: Range = NONE
    """Variants to be written from new or existing bases, one call each. None without demographics,
    where a variant needs no call of its own."""

    cost: CostEstimate = NOTHING
    """What they are estimated to use, in a plan that is priced."""

    def from_share(self, share: float) -> StageCalls:
        """The range from this share of them to all of them."""
        return replace(
            self,
            rows=self.rows.from_share(share),
            scenarios=self.scenarios.from_share(share),
            variants=self.variants.from_share(share),
            parts=[part.from_share(share) for part in self.parts],
        )

    @property
    def checks(self) -> Range:
        """How many of the answers are checks."""
        return sum((part.answers for part in self.parts if part.role is Role.CHECKER), NONE)
