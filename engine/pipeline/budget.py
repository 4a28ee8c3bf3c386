"""Keeps a run within its budget: a call is made only if it still fits."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.benchmark import Role
from engine.errors import StopRequested
from engine.providers.accounts import StoppableWaits
from engine.providers.sender import HeldCalls

USUAL: Final = 0.95
"""The quantile of a role's call costs that a new call is assumed to cost."""


RECENT: Final = 200
"""How many of the latest calls that quantile is taken from."""

KNOWN: Final = 20
"""Calls of a kind from which on the dearest of them says what another may cost."""

MARGIN: Final = 0.02
"""The largest share of a limit that is kept free for a call dearer than the last ones."""

WEIGHT: Final = 20.0
"""After this many calls of a run, their mean cost weighs as much as the earlier estimate."""

WIDER: Final = 1.25
"""The least factor by which an agreed amount is raised."""


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """One budget that must not be exceeded."""

    key: str
    """Its key in the configuration."""
    usd: float
    before_usd: float = 0.0
    """What had already been spent against this limit before the run."""


@dataclass(frozen=True, slots=True)
class FirstCall:
    """Assumptions about calls of a kind of which none has been answered."""

    usual_usd: float
    most_usd: float
    longest_usd: float = 0.0
    """The cost of a call whose answer is as long as it may be; applies to later calls, too."""


CallKind = tuple[str, Role, str]
"""Calls of similar cost: the benchmark, the role and the model's label."""


@dataclass(slots=True)
class _Left:
    """The calls of one kind that are still to be made, as far as known."""

    calls: float
    usd: float
    """The earlier estimate for one call."""
    made: int = 0
    cost: float = 0.0

    def each_usd(self, *, refuted: bool) -> float:
        """The expected cost of one call; with `refuted`, never below the mean of the calls seen."""
        # a weighted mean: the earlier estimate counts as WEIGHT observed calls
        expected = (self.usd * WEIGHT + self.cost) / (WEIGHT + self.made)
        return max(expected, (self.usd + self.cost) / (1 + self.made)) if refuted else expected

    def rest_usd(self, *, refuted: bool) -> float:
        return max(0.0, self.calls) * self.each_usd(refuted=refuted)


class _WaitingCall(NamedTuple):
    """A call that waits for room; the least goes first."""

    is_first: bool
    """Whether it is the first of its row of work."""
    came: int
    turn: asyncio.Future[None]
    model: str
    limit: str
    """The key of the limit that left no room."""


async def _never() -> bool:
    return False


async def _always() -> bool:
    return True


class Budget:
    """Tracks a run's cost: spent, in flight, and usual for each role.

    Until a few calls of a role and model have been answered, `first_usd` says what they cost. For
    each call in flight, the cost of the dearest of the last ones like it is reserved, and `MARGIN`
    is kept free for one that costs more: reserving the longest answer for each would leave few
    calls at once, as it costs ten times the usual or more. A limit can be overshot where one call
    costs more than that, as with a limit of less than 50 times the longest answer, or where several
    do at once.
    """

    def __init__(
        self,
        limits: Sequence[BudgetLimit] = (),
        *,
        first_usd: Callable[[Role, str], FirstCall] = lambda _role, _model: FirstCall(0.0, 0.0),
        on_spent: Callable[[BudgetLimit], None] = lambda _limit: None,
        on_beyond: Callable[[], Awaitable[bool]] = _never,
        may_begin: Callable[[], Awaitable[bool]] = _always,
        waits: StoppableWaits | None = None,
    ) -> None:
        self.limits = limits
        self._first = first_usd
        self._on_spent = on_spent
        self._on_beyond = on_beyond
        self._may_begin = may_begin
        self._waits = waits or StoppableWaits()
        self._costs: defaultdict[tuple[Role, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        self._left: dict[CallKind, _Left] = {}
        self._dearest: dict[tuple[Role, str], float] = {}
        self._firsts: dict[tuple[Role, str], FirstCall] = {}
        self._in_air: Counter[tuple[Role, str]] = Counter()
        self._begun: set[tuple[str, str]] = set()
        self._waiting: list[_WaitingCall] = []
        """In their order."""
        self._came = 0
        self._expected_in_air = 0.0
        self.agreed_usd: float | None = None
        """The agreed maximum for the run; None where nobody is asked."""
        self._width = WIDER
        """The likely maximum as a multiple of the expected cost."""
        self._refuted = False
        """Whether the run exceeded the agreed amount, which refutes the earlier estimates."""
        self.spent_usd = 0.0
        """The known spending; calls of unknown cost add nothing."""

    @asynccontextmanager
    async def call(
        self, role: Role, model: str, benchmark: str = "", unit: str = ""
    ) -> AsyncIterator[Callable[[float | None], None]]:
        """Reserve room for one call while the block lasts; yields a function that books the cost of
        each attempt.

        A call that does not fit beside those in flight waits until they have ended; calls for a
        `unit` that had one already go first. Raises `StopRequested` if it does not fit alone, after
        reporting that the budget is spent, or if the run is asked to stop meanwhile.
        """
        if self.limits:
            await self._room(role, model, (benchmark, unit))
        usual = self.usual_usd(role, model)
        left = self._left.get((benchmark, role, model))
        expected = usual if left is None else left.each_usd(refuted=self._refuted)
        if left is not None:
            # at the beginning, so that a call in flight is not expected a second time
            left.calls -= 1
        self._in_air[role, model] += 1
        self._expected_in_air += expected
        cost = 0.0

        def spend(usd: float | None) -> None:
            nonlocal cost
            cost += usd or 0.0
            self.spent_usd += usd or 0.0

        try:
            yield spend
        finally:
            self._in_air[role, model] -= 1
            self._expected_in_air -= expected
            # a call of unknown cost says nothing about usual costs
            if cost:
                costs = self._costs[role, model]
                costs.append(cost)
                self._dearest[role, model] = max(costs)
            if left is not None:
                left.made += 1
                left.cost += cost
            self._wake_next()

    async def _room(self, role: Role, model: str, row: tuple[str, str]) -> None:
        self._came += 1
        place = (row not in self._begun, self._came)
        lacking = self.limits[0].key
        while True:
            full = self._full(role, model)
            # of those that wait, one that comes later does not overtake another of its kind
            if full is None and (not self._waiting or place < self._waiting[0][:2]):
                break
            if not self._in_air.total():
                if full is None:
                    break
                self._on_spent(full)
                self._wake_next()
                raise StopRequested
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            lacking = lacking if full is None else full.key
            insort(self._waiting, waiting := _WaitingCall(*place, turn, model, lacking))
            try:
                async with self._waits.waiting():
                    await turn
                    going_on = await self._may_begin()
            except (asyncio.CancelledError, StopRequested):
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
                self._wake_next()
                raise
            if not going_on:
                self._wake_next()
                raise StopRequested
        self._begun.add(row)
        # what this call leaves may be room for the next one
        asyncio.get_running_loop().call_soon(self._wake_next)

    def _wake_next(self) -> None:
        """Let the call that waits first look for room again."""
        if self._waiting:
            turn = self._waiting.pop(0).turn
            if not turn.done():
                turn.set_result(None)

    def held(self) -> dict[str, HeldCalls]:
        """The calls that wait for room, by model label. Callable from any thread."""
        found: dict[str, HeldCalls] = {}
        for one in list(self._waiting):
            why = f"`{one.limit}` leaves no room beside the calls in flight"
            before = found.get(one.model)
            found[one.model] = HeldCalls(why, None, 1 if before is None else before.calls + 1)
        return found

    def _full(self, role: Role, model: str) -> BudgetLimit | None:
        """The limit that a call might break now; one alone may cost as much as usual."""
        usd, beyond = self.usual_usd(role, model), 0.0
        if self._in_air.total():
            usd = self.most_usd(role, model)
            kinds = [kind for kind, count in list(self._in_air.items()) if count]
            beyond = max(self._longest_usd(*kind) - self.most_usd(*kind) for kind in kinds)
        beyond = max(beyond, self._longest_usd(role, model) - usd, 0.0)
        after = self.spent_usd + self.in_flight_usd + usd
        for limit in self.limits:
            if limit.before_usd + after + min(beyond, MARGIN * limit.usd) > limit.usd:
                return limit
        return None

    def _longest_usd(self, role: Role, model: str) -> float:
        return self._first_usd(role, model).longest_usd

    def most_usd(self, role: Role, model: str) -> float:
        """The cost that is reserved for a call in flight: that of the dearest of the last ones."""
        dearest = self._dearest.get((role, model), 0.0)
        known = len(self._costs[role, model]) >= KNOWN
        return dearest if known else max(dearest, self._first_usd(role, model).most_usd)

    def _first_usd(self, role: Role, model: str) -> FirstCall:
        kind = (role, model)
        if kind not in self._firsts:
            self._firsts[kind] = self._first(role, model)
        return self._firsts[kind]

    def usual_usd(self, role: Role, model: str) -> float:
        """The 95th percentile of the latest calls of this role to this model."""
        costs = sorted(self._costs[role, model])
        if not costs:
            return self._first_usd(role, model).usual_usd
        return costs[min(len(costs) - 1, int(len(costs) * USUAL))]

    @property
    def in_flight_usd(self) -> float:
        """The reserved cost of all calls in flight."""
        # worked out anew each time: a dear call says something of those that began before it ended
        calls = list(self._in_air.items())
        return sum(count * self.most_usd(*kind) for kind, count in calls if count)

    # Agreed amounts

    def agree(self, high_usd: float | None, expected_usd: float = 0.0) -> None:
        """Set what the run was quoted at; with `high_usd` None, nobody is asked about costs."""
        self.agreed_usd = high_usd
        if high_usd is not None and expected_usd:
            self._width = max(WIDER, high_usd / expected_usd)

    def agree_more(self, usd: float) -> None:
        """Raise the agreed amount for an order done beside the run."""
        if self.agreed_usd is not None:
            self.agreed_usd += usd

    def expect(self, benchmark: str, calls: Mapping[tuple[Role, str], tuple[float, float]]) -> None:
        """Set a benchmark's remaining calls, as (number, cost of each), replacing earlier ones."""
        self._left = {kind: left for kind, left in self._left.items() if kind[0] != benchmark}
        self.expect_more(benchmark, calls)

    def expect_more(
        self, benchmark: str, calls: Mapping[tuple[Role, str], tuple[float, float]]
    ) -> None:
        """As `expect`, but add to the earlier expectations: for an order done beside the run."""
        for (role, model), (number, usd) in calls.items():
            before = self._left.get((benchmark, role, model))
            found = 0.0 if before is None else before.calls
            self._left[benchmark, role, model] = _Left(found + number, usd)

    @property
    def rest_usd(self) -> float:
        """The expected remaining cost, calls in flight included."""
        # copied, because other threads ask while the loop changes it
        rest = sum(left.rest_usd(refuted=self._refuted) for left in list(self._left.values()))
        return self._expected_in_air + rest

    @property
    def more_usd(self) -> float:
        """The total to agree to so that the rest is likely to fit."""
        likely = self.spent_usd + self.rest_usd * self._width
        return max(likely, (self.agreed_usd or self.spent_usd) * WIDER)

    def use_measured_costs(self) -> None:
        """From now on, estimate from the costs of this run: the earlier estimates were too low, and
        keeping them would ask again and again."""
        self._refuted = True

    def goes_beyond(self, role: Role, model: str) -> bool:
        """Whether this call, or the rest of the run, costs more than was agreed to."""
        if self.agreed_usd is None:
            return False
        # before any call of this kind only the expectation counts: `first_usd` serves the limits
        # and is deliberately high
        seen = self.usual_usd(role, model) if self._costs[role, model] else 0.0
        rest = max(self._expected_in_air + seen, self.rest_usd)
        return self.spent_usd + rest > self.agreed_usd

    async def wait_until_agreed(self, role: Role, model: str) -> None:
        """Before a call: wait until its cost is agreed to. Raises `StopRequested` otherwise."""
        # checked again: another waiting call may have used the agreed amount
        while self.goes_beyond(role, model):
            async with self._waits.waiting():
                is_agreed = await self._on_beyond()
            if not is_agreed:
                raise StopRequested
