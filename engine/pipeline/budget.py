"""Keeps a run within what it may cost: a call is only made while it fits."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from engine.benchmark import Role
from engine.pipeline.control import StopRequested

USUAL: Final = 0.95
"""The share of a role's calls that cost no more than what a call is expected to cost."""


RECENT: Final = 200
"""Calls that what is usual is taken from."""

WEIGHT: Final = 20.0
"""Calls of a run after which they say as much of the rest as what was expected before."""

WIDER: Final = 1.25
"""By how much more at least is agreed to where more is."""


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """What may not be spent more than."""

    key: str
    """In the configuration."""
    usd: float
    before_usd: float = 0.0
    """What counts and was spent before the run."""


CallKind = tuple[str, Role, str]
"""Calls that cost alike: their benchmark, their role, the label of the model."""


@dataclass(slots=True)
class _Left:
    """Calls of one kind that are still to be made, as far as it is known."""

    calls: float
    usd: float
    """Of each, as it was expected."""
    made: int = 0
    cost: float = 0.0

    def each_usd(self, *, refuted: bool) -> float:
        """With `refuted`, what was expected is no reason to think that calls get cheaper again."""
        # a weighted mean of both: what was expected counts as so many calls that were seen
        expected = (self.usd * WEIGHT + self.cost) / (WEIGHT + self.made)
        return max(expected, (self.usd + self.cost) / (1 + self.made)) if refuted else expected

    def rest_usd(self, *, refuted: bool) -> float:
        return max(0.0, self.calls) * self.each_usd(refuted=refuted)


async def _never() -> bool:
    return False


class Budget:
    """What a run has spent, what is in the air, and what a call of each role usually costs.

    A call whose role and model have not answered yet is expected to cost `first_usd`. What a call
    costs beyond what was expected of it is what a limit may be overshot by.
    """

    def __init__(
        self,
        limits: Sequence[BudgetLimit] = (),
        *,
        first_usd: Callable[[Role, str], float] = lambda _role, _model: 0.0,
        on_spent: Callable[[BudgetLimit], None] = lambda _limit: None,
        on_beyond: Callable[[], Awaitable[bool]] = _never,
    ) -> None:
        self.limits = limits
        self._first = first_usd
        self._on_spent = on_spent
        self._on_beyond = on_beyond
        self._costs: defaultdict[tuple[Role, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        self._left: dict[CallKind, _Left] = {}
        self._in_air = 0.0
        self._expected_in_air = 0.0
        self.agreed_usd: float | None = None
        """What was agreed that the run may cost; None where nobody is asked."""
        self._width = WIDER
        """What is likely at most, as a multiple of what is expected."""
        self._refuted = False
        """Whether the run left what was agreed to, and so what was expected of its calls."""
        self.spent_usd = 0.0
        """What is known to have been spent; a call without a known price adds nothing."""

    @contextmanager
    def call(
        self, role: Role, model: str, benchmark: str = ""
    ) -> Iterator[Callable[[float | None], None]]:
        """Around one call. Hand what each attempt cost to what this gives.

        Raises `StopRequested` where the call does not fit, after telling that the budget is spent.
        """
        usual = self.usual_usd(role, model)
        for limit in self.limits:
            # with what is in the air: a thousand calls that each fit would together not
            if limit.before_usd + self.spent_usd + self._in_air + usual > limit.usd:
                self._on_spent(limit)
                raise StopRequested
        left = self._left.get((benchmark, role, model))
        expected = usual if left is None else left.each_usd(refuted=self._refuted)
        if left is not None:
            # counted when it begins, so that what is in the air is not expected a second time
            left.calls -= 1
        self._in_air += usual
        self._expected_in_air += expected
        cost = 0.0

        def spend(usd: float | None) -> None:
            nonlocal cost
            cost += usd or 0.0
            self.spent_usd += usd or 0.0

        try:
            yield spend
        finally:
            self._in_air -= usual
            self._expected_in_air -= expected
            # a call whose price is not known says nothing of what calls usually cost
            if cost:
                self._costs[role, model].append(cost)
            if left is not None:
                left.made += 1
                left.cost += cost

    def usual_usd(self, role: Role, model: str) -> float:
        """The 95th percentile of what this role's last calls to this model cost."""
        costs = sorted(self._costs[role, model])
        if not costs:
            return self._first(role, model)
        return costs[min(len(costs) - 1, int(len(costs) * USUAL))]

    @property
    def overshoot_usd(self) -> float:
        """What may be spent beyond the limit, if each call in the air costs twice the usual."""
        return self._in_air

    # What was agreed

    def agree(self, high_usd: float | None, expected_usd: float = 0.0) -> None:
        """To a run that is quoted at so much; with None for `high_usd` nobody is asked."""
        self.agreed_usd = high_usd
        if high_usd is not None and expected_usd:
            self._width = max(WIDER, high_usd / expected_usd)

    def agree_more(self, usd: float) -> None:
        """To something that is done beside it."""
        if self.agreed_usd is not None:
            self.agreed_usd += usd

    def expect(self, benchmark: str, calls: Mapping[tuple[Role, str], tuple[float, float]]) -> None:
        """How many calls of a benchmark are left, and what each will cost, in place of what was
        expected of it before."""
        self._left = {kind: left for kind, left in self._left.items() if kind[0] != benchmark}
        self.expect_more(benchmark, calls)

    def expect_more(
        self, benchmark: str, calls: Mapping[tuple[Role, str], tuple[float, float]]
    ) -> None:
        """As `expect`, on top of what is expected: for something that is done beside it."""
        for (role, model), (number, usd) in calls.items():
            before = self._left.get((benchmark, role, model))
            found = 0.0 if before is None else before.calls
            self._left[benchmark, role, model] = _Left(found + number, usd)

    @property
    def rest_usd(self) -> float:
        """What is expected to be spent still."""
        # copied first: other threads ask while the loop adds to it
        rest = sum(left.rest_usd(refuted=self._refuted) for left in list(self._left.values()))
        return self._expected_in_air + rest

    @property
    def more_usd(self) -> float:
        """What would have to be agreed to for the rest to be likely to fit."""
        likely = self.spent_usd + self.rest_usd * self._width
        return max(likely, (self.agreed_usd or self.spent_usd) * WIDER)

    def refute(self) -> None:
        """Go by what the calls of this run cost, now that it left what was agreed to: else the rest
        is told too low, and somebody is asked again and again."""
        self._refuted = True

    def goes_beyond(self, role: Role, model: str) -> bool:
        """Whether this call, or what follows it, costs more than was agreed to."""
        if self.agreed_usd is None:
            return False
        # before a kind of call was seen only what was expected counts: `first_usd` is meant for
        # limits, and is high on purpose
        seen = self.usual_usd(role, model) if self._costs[role, model] else 0.0
        rest = max(self._expected_in_air + seen, self.rest_usd)
        return self.spent_usd + rest > self.agreed_usd

    async def covered(self, role: Role, model: str) -> None:
        """Before one call: wait until somebody has agreed to what it costs. Raises `StopRequested`
        where nobody does."""
        # asked again: of several that wait for the same answer one may have used what was agreed
        # to
        while self.goes_beyond(role, model):
            if not await self._on_beyond():
                raise StopRequested
