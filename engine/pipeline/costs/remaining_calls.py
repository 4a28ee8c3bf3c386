"""Estimates what is still to be paid: for a whole run, and for the conversations that are open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Role
from engine.config.schema import ModelId
from engine.pipeline.costs.ranges import SPEAKING

WEIGHT: Final = 20.0
"""After this many calls of a run, their mean cost weighs as much as the earlier estimate."""

CallKind = tuple[str, Role, ModelId]
"""Calls of similar cost: the benchmark, the role and the model."""


@dataclass(slots=True)
class ExpectedCalls:
    """The calls of one role to one model that are still to be made, and what was seen of them."""

    number: float
    """They are counted by weight, as calls of mean cost."""
    usd: float
    """The mean cost of one, as estimated before."""
    first: float = 1.0
    """The cost of a conversation's first call as a share of the mean: later calls are told all that
    was said before."""
    turns: int = 1
    made: float = 0.0
    cost: float = 0.0
    """Of those that were made."""

    def weight(self, turn: int) -> float:
        """The expected cost of a call as a multiple of the mean. Turns count from 1; a call with
        turn 0 belongs to none."""
        middle = (self.turns - 1) / 2
        if not turn or not middle:
            return 1.0
        # each turn adds about as much to what the next call is told
        return 1.0 + (1.0 - self.first) * (turn - 1 - middle) / middle

    def each_usd(self, *, refuted: bool) -> float:
        """The expected cost of one call; with `refuted`, never below the mean of the calls seen."""
        # a weighted mean: the earlier estimate counts as WEIGHT observed calls
        expected = (self.usd * WEIGHT + self.cost) / (WEIGHT + self.made)
        return max(expected, (self.usd + self.cost) / (1 + self.made)) if refuted else expected


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """An estimate of what an order calls for one benchmark."""

    calls: Mapping[tuple[Role, ModelId], ExpectedCalls] = field(default_factory=dict)
    per_conversation: Mapping[str, Mapping[tuple[Role, ModelId], float]] = field(
        default_factory=dict
    )
    """By target, how many of the calls a whole conversation takes, its verdict included."""


class RemainingCalls:
    """The calls that a run has still to make, as far as known. Belongs to one event loop, except
    for `rest_usd`."""

    def __init__(self) -> None:
        self._left: dict[CallKind, ExpectedCalls] = {}
        self._per_conversation: dict[tuple[str, str], Mapping[tuple[Role, ModelId], float]] = {}
        """By benchmark and target."""
        self._open: dict[tuple[str, str], dict[CallKind, float]] = {}
        """By benchmark and unit, what an open conversation has still to call."""
        self._of_open: defaultdict[CallKind, float] = defaultdict(float)
        """The sum over all of them."""
        self.in_air_usd = 0.0
        """The expected cost of the calls in flight."""
        self.refuted = False
        """Whether the run exceeded the agreed amount, which refutes the earlier estimates."""

    def expect(self, benchmark: str, work: ExpectedWork) -> None:
        """Set a benchmark's remaining calls, replacing earlier ones."""
        self._left = {kind: left for kind, left in self._left.items() if kind[0] != benchmark}
        self.expect_more(benchmark, work)

    def expect_more(self, benchmark: str, work: ExpectedWork) -> None:
        """As `expect`, but add to the earlier expectations: for an order done beside the run."""
        for (role, model), expected in work.calls.items():
            left = self._left.setdefault((benchmark, role, model), replace(expected, number=0.0))
            left.number += expected.number
        self._per_conversation |= {
            (benchmark, target): calls for target, calls in work.per_conversation.items()
        }

    @property
    def rest_usd(self) -> float:
        """The expected remaining cost, calls in flight included. Callable from any thread."""
        # copied, because other threads ask while the loop changes it
        rest = (
            max(0.0, left.number) * left.each_usd(refuted=self.refuted)
            for left in list(self._left.values())
        )
        return self.in_air_usd + sum(rest)

    # Conversations

    def conversation(
        self, benchmark: str, target: str, *, turns_done: int = 0, roles: frozenset[Role]
    ) -> dict[CallKind, float]:
        """What one conversation still calls in these roles, of which so many turns are there."""
        numbers = {}
        for (role, model), number in self._per_conversation.get((benchmark, target), {}).items():
            left = self._left.get(kind := (benchmark, role, model))
            if left is not None and role in roles:
                turns = range(1, turns_done + 1) if role in SPEAKING else ()
                numbers[kind] = number - sum(map(left.weight, turns))
        return numbers

    def begin(self, benchmark: str, unit: str, calls: Mapping[CallKind, float]) -> None:
        """Count a conversation as open, with the calls that it has still to make."""
        self._open[benchmark, unit] = dict(calls)
        for kind, number in calls.items():
            self._of_open[kind] += max(0.0, number)

    def end(self, benchmark: str, unit: str) -> None:
        """Expect nothing more of a conversation; does nothing if it is not open."""
        for kind, number in self._open.pop((benchmark, unit), {}).items():
            self._of_open[kind] -= max(0.0, number)
            if kind in self._left:
                # it was shorter or longer than expected, which says nothing of the others
                self._left[kind].number -= number

    @property
    def open_conversations(self) -> int:
        return len(self._open)

    @property
    def open_usd(self) -> float:
        """The expected cost of bringing all open conversations to their end, calls in flight
        included."""
        return self.in_air_usd + self.usd_of(self._of_open)

    def usd_of(self, calls: Mapping[CallKind, float]) -> float:
        """The expected cost of these calls."""
        return sum(max(0.0, number) * self._each_usd(kind) for kind, number in calls.items())

    # Calls

    def _each_usd(self, kind: CallKind) -> float:
        left = self._left.get(kind)
        return 0.0 if left is None else left.each_usd(refuted=self.refuted)

    def call_begins(self, kind: CallKind, unit: str, turn: int, unexpected_usd: float) -> float:
        """Count a call as in flight; return what it is expected to cost: `unexpected_usd` where
        nothing was said of its kind."""
        usd = unexpected_usd
        if (left := self._left.get(kind)) is not None:
            weight = left.weight(turn)
            usd = weight * left.each_usd(refuted=self.refuted)
            # now, so that a call in flight is not expected a second time
            left.number -= weight
            if kind in (mine := self._open.get((kind[0], unit), {})):
                before = mine[kind]
                mine[kind] -= weight
                self._of_open[kind] += max(0.0, mine[kind]) - max(0.0, before)
        self.in_air_usd += usd
        return usd

    def call_ends(self, kind: CallKind, turn: int, expected_usd: float, cost: float) -> None:
        """Learn the cost of a call that `call_begins` counted; 0 if it is not known."""
        self.in_air_usd -= expected_usd
        left = self._left.get(kind)
        if left is not None and cost:
            left.made += left.weight(turn)
            left.cost += cost
