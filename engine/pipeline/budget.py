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

ROUNDING: Final = 1e-9
"""US dollars by which sums of costs may be wrong."""

WEIGHT: Final = 20.0
"""After this many calls of a run, their mean cost weighs as much as the earlier estimate."""

WIDER: Final = 1.25
"""The least factor by which an agreed amount is raised."""

MEASURED_WIDTH: Final = 1.5
"""The likely maximum as a multiple of the expected cost, once that follows from a run's own calls;
from the first few of them, it is still too low."""


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """One budget that must not be exceeded."""

    key: str
    """Its key in the configuration."""
    usd: float
    before_usd: float = 0.0
    """What had already been spent against this limit before the run."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call of a kind may cost."""

    usual_usd: float
    """An assumption, until one has been answered."""
    most_usd: float
    """The cost of a call that is told as much as is assumed, and whose answer is as long as it may
    be."""
    answer_usd: float = 0.0
    """The part of the longest answer in it."""
    token_usd: float = 0.0
    """The cost of each token that a call is told."""


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

    For each call in flight, the most that it may cost is reserved: what it is told, and an answer
    as long as it may be, which costs ten times the usual or more; or else the cost of the dearest
    of the last ones like it. So a limit is not passed even if all answers are that long at once;
    near it, fewer calls are made at once, and up to one such answer stays unspent. Only what the
    prices do not tell can pass it: a call that was billed for a failed attempt, too, or a server
    that charges more, or writes more, than it says.
    """

    def __init__(
        self,
        limits: Sequence[BudgetLimit] = (),
        *,
        cost_of: Callable[[Role, str], CallCost] = lambda _role, _model: CallCost(0.0, 0.0),
        on_spent: Callable[[BudgetLimit, float], None] = lambda _limit, _usd: None,
        on_beyond: Callable[[], Awaitable[bool]] = _never,
        may_begin: Callable[[], Awaitable[bool]] = _always,
        waits: StoppableWaits | None = None,
    ) -> None:
        self.limits = limits
        self._find_cost = cost_of
        self._on_spent = on_spent
        self._on_beyond = on_beyond
        self._may_begin = may_begin
        self._waits = waits or StoppableWaits()
        self._costs: defaultdict[tuple[Role, str], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        self._left: dict[CallKind, _Left] = {}
        self._dearest: dict[tuple[Role, str], float] = {}
        self._found_costs: dict[tuple[Role, str], CallCost] = {}
        self._reserved: defaultdict[tuple[Role, str], float] = defaultdict(float)
        """US dollars for the calls in flight, by kind."""
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
        self, role: Role, model: str, benchmark: str = "", unit: str = "", told: int = 0
    ) -> AsyncIterator[Callable[[float | None], None]]:
        """Reserve room for one call, which is told at most `told` tokens, while the block lasts;
        yields a function that books the cost of each attempt.

        A call that does not fit beside those in flight waits until they have ended; calls for a
        `unit` that had one already go first. Raises `StopRequested` if it does not fit alone, after
        reporting that the budget is spent, or if the run is asked to stop meanwhile.
        """
        most = 0.0
        if self.limits:
            most = self.most_usd(role, model, told)
            await self._room(role, model, most, (benchmark, unit))
        usual = self.usual_usd(role, model)
        left = self._left.get((benchmark, role, model))
        expected = usual if left is None else left.each_usd(refuted=self._refuted)
        if left is not None:
            # at the beginning, so that a call in flight is not expected a second time
            left.calls -= 1
        self._in_air[role, model] += 1
        self._reserved[role, model] += most
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
            self._reserved[role, model] -= most
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

    async def _room(self, role: Role, model: str, usd: float, row: tuple[str, str]) -> None:
        self._came += 1
        place = (row not in self._begun, self._came)
        lacking = self.limits[0].key
        while True:
            full = self._full(usd)
            # of those that wait, one that comes later does not overtake another of its kind
            if full is None and (not self._waiting or place < self._waiting[0][:2]):
                break
            if not self._in_air.total():
                if full is None:
                    break
                self._on_spent(full, usd)
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
            why = (
                f"`{one.limit}` leaves no room beside the calls in flight, which may cost up to "
                f"${self.in_flight_usd:.2f}"
            )
            before = found.get(one.model)
            found[one.model] = HeldCalls(why, None, 1 if before is None else before.calls + 1)
        return found

    def _full(self, usd: float) -> BudgetLimit | None:
        """The limit that a call of this cost might break now."""
        after = self.spent_usd + self.in_flight_usd + usd
        for limit in self.limits:
            if limit.before_usd + after > limit.usd + ROUNDING:
                return limit
        return None

    def most_usd(self, role: Role, model: str, told: int = 0) -> float:
        """The most that a call may cost that is told at most so many tokens."""
        cost = self._cost_of(role, model)
        dearest = self._dearest.get((role, model), 0.0)
        return max(cost.most_usd, cost.answer_usd + told * cost.token_usd, dearest)

    def _cost_of(self, role: Role, model: str) -> CallCost:
        kind = (role, model)
        if kind not in self._found_costs:
            self._found_costs[kind] = self._find_cost(role, model)
        return self._found_costs[kind]

    def usual_usd(self, role: Role, model: str) -> float:
        """The 95th percentile of the latest calls of this role to this model."""
        costs = sorted(self._costs[role, model])
        if not costs:
            return self._cost_of(role, model).usual_usd
        return costs[min(len(costs) - 1, int(len(costs) * USUAL))]

    @property
    def in_flight_usd(self) -> float:
        """The reserved cost of all calls in flight."""
        # a dear call says something of those that began before it ended
        calls = list(self._in_air.items())
        return sum(
            max(self._reserved[kind], count * self._dearest.get(kind, 0.0))
            for kind, count in calls
            if count
        )

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
        # how wide the first quote was says nothing of costs that are measured
        self._width = MEASURED_WIDTH

    def goes_beyond(self, role: Role, model: str) -> bool:
        """Whether this call, or the rest of the run, costs more than was agreed to."""
        if self.agreed_usd is None:
            return False
        # before any call of this kind only the expectation counts: `cost_of` serves the limits and
        # is deliberately high
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
