"""Keeps a run within its budget: a call is made only if it still fits."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from engine.benchmark import Role
from engine.config.schema import ModelId
from engine.errors import StopRequested
from engine.pipeline.costs.ranges import SPEAKING, CallCost
from engine.providers.accounts import StoppableWaits
from engine.providers.limiter import HeldCalls
from engine.providers.model import Reserve

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


USUAL: Final = 0.95
"""The quantile of a role's call costs that a new call is assumed to cost."""


RECENT: Final = 200
"""How many of the latest calls that quantile is taken from."""

ROUNDING: Final = 1e-9
"""US dollars by which sums of costs may be wrong."""

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
    counts_batches: bool = False
    """Whether what earlier runs left in batches counts against it."""


class CallBooking(NamedTuple):
    """What a call may do with its room in a budget."""

    spend: Callable[[float | None], None]
    """Books the cost of an attempt."""
    reserve: Reserve
    """Reserves room for a call in a batch; given what it counts as if an earlier run left it in
    one. Raises `StopRequested`."""


class _WaitingCall(NamedTuple):
    """A call that waits for room; the least goes first."""

    is_first: bool
    """Whether it is the first of its row of work."""
    came: int
    turn: asyncio.Future[None]
    model: ModelId
    limit: str
    """The key of the limit that left no room."""


async def _never(_rest_usd: float) -> bool:
    return False


async def _always() -> bool:
    return True


async def _begun(_usd: float) -> None:
    pass


class Budget:
    """Tracks a run's cost: spent, in flight, and usual for each role.

    For each call in flight, the most that it may cost is reserved: what it is told, and an answer
    as long as it may be, which costs ten times the usual or more. So a limit is not passed even if
    all answers are that long at once; near it, fewer calls are made at once, and up to one such
    answer stays unspent. Only what prices and `max_tokens` do not tell can pass it: a server that
    ignores `max_tokens`, charges more than its price, or bills failed attempts. By how much a call
    has cost too much is reserved for each later one like it, and for those in flight: so a limit is
    passed by what the calls in flight then cost too much, at most.
    """

    def __init__(
        self,
        limits: Sequence[BudgetLimit] = (),
        *,
        cost_of: Callable[[Role, ModelId], CallCost] = lambda _role, _model: CallCost(0.0, 0.0),
        on_spent: Callable[[BudgetLimit, float], None] = lambda _limit, _usd: None,
        on_enough: Callable[[BudgetLimit], None] = lambda _limit: None,
        on_excess: Callable[[Role, ModelId, float, float], None] = lambda *_: None,
        on_beyond: Callable[[float], Awaitable[bool]] = _never,
        on_begin: Callable[[float], Awaitable[None]] = _begun,
        on_end: Callable[[float], None] = lambda _usd: None,
        may_begin: Callable[[], Awaitable[bool]] = _always,
        waits: StoppableWaits | None = None,
        batched_usd: float = 0.0,
    ) -> None:
        """`batched_usd` is the most that calls may cost which earlier runs left in batches."""
        self.limits = limits
        self.batched_usd = batched_usd
        self._find_cost = cost_of
        self._on_spent = on_spent
        self._on_enough = on_enough
        self._on_excess = on_excess
        self._on_beyond = on_beyond
        self._on_begin = on_begin
        self._on_end = on_end
        self._may_begin = may_begin
        self._waits = waits or StoppableWaits()
        self._costs: defaultdict[tuple[Role, ModelId], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        self.remaining = RemainingCalls()
        self._excess: defaultdict[tuple[Role, ModelId], float] = defaultdict(float)
        """By how much a call has cost more than the most that was said of it."""
        self._found_costs: dict[tuple[Role, ModelId], CallCost] = {}
        self._reserved: defaultdict[tuple[Role, ModelId], float] = defaultdict(float)
        """US dollars for the calls in flight, by kind."""
        self._in_air: Counter[tuple[Role, ModelId]] = Counter()
        self._begun: set[tuple[str, str]] = set()
        self._waiting: list[_WaitingCall] = []
        """In their order."""
        self._came = 0
        self._rows_waiting: list[asyncio.Future[None]] = []
        """Conversations that wait to be begun."""
        self.agreed_usd: float | None = None
        """The agreed maximum for the run; None where nobody is asked."""
        self._width = WIDER
        """The likely maximum as a multiple of the expected cost."""
        self.spent_usd = 0.0
        """The known spending; calls of unknown cost add nothing."""

    @asynccontextmanager
    async def call(
        self,
        role: Role,
        model: ModelId,
        benchmark: str = "",
        unit: str = "",
        *,
        turn: int = 0,
        input_tokens: int = 0,
        leased: bool = True,
    ) -> AsyncIterator[CallBooking]:
        """Reserve room for one call, of at most `input_tokens`, while the block lasts;
        yields what books the cost of each attempt. What it may cost is told to
        `on_begin` before, and to `on_end` when its attempts are booked; not if it is not `leased`,
        as a call in a batch, which outlives this process, and for which room is reserved once it is
        known whether it is in a batch already.

        A call that does not fit beside those in flight waits until they have ended; calls for a
        `unit` that had one already go first. Raises `StopRequested` if it does not fit alone, after
        reporting that the budget is spent, or if the run is asked to stop meanwhile.
        """
        most = self.most_usd(role, model, input_tokens)
        if leased and self.limits:
            await self._room(role, model, most, (benchmark, unit))
        kind = (benchmark, role, model)
        expected = self.remaining.call_begins(kind, unit, turn, self.usual_usd(role, model))
        reserved, cost = False, 0.0

        def take() -> None:
            nonlocal reserved
            if not reserved:
                reserved = True
                self._in_air[role, model] += 1
                self._reserved[role, model] += most

        async def reserve(batched_usd: float | None) -> None:
            if batched_usd is not None:
                self.batch_claimed(batched_usd)
            elif self.limits and not reserved:
                await self._room(role, model, most, (benchmark, unit))
            take()

        if leased:
            take()
        promised = most + self._excess[role, model] if leased else 0.0

        def spend(usd: float | None) -> None:
            nonlocal cost
            cost += usd or 0.0
            self.spent_usd += usd or 0.0

        try:
            if promised:
                await self._on_begin(promised)
            yield CallBooking(spend, reserve)
        finally:
            if promised:
                self._on_end(promised)
            self.remaining.call_ends(kind, turn, expected, cost)
            self._end_call(role, model, most, cost, reserved=reserved)

    def _end_call(
        self, role: Role, model: ModelId, most: float, cost: float, *, reserved: bool
    ) -> None:
        if reserved:
            self._in_air[role, model] -= 1
            self._reserved[role, model] -= most
        # a call of unknown cost says nothing about usual costs
        if cost:
            self._costs[role, model].append(cost)
            if self.limits and cost > most + self._excess[role, model] + ROUNDING:
                self._excess[role, model] = cost - most
                self._on_excess(role, model, cost, most)
        self._wake_next()
        self._wake_rows()

    def batch_claimed(self, usd: float) -> None:
        """Note that a call in a batch of an earlier run is asked for again, or costs nothing: until
        then it counts as the most that it may cost."""
        self.batched_usd = max(0.0, self.batched_usd - usd)
        self._wake_next()
        self._wake_rows()

    async def _room(self, role: Role, model: ModelId, usd: float, row: tuple[str, str]) -> None:
        self._came += 1
        place = (row not in self._begun, self._came)
        lacking = self.limits[0].key
        while True:
            most = usd + self._excess[role, model]
            full = self._exceeded(self.in_flight_usd + most)
            # of those that wait, one that comes later does not overtake another of its kind
            if full is None and (not self._waiting or place < self._waiting[0][:2]):
                break
            if not self._in_air.total():
                if full is None:
                    break
                self._on_spent(full, most)
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

    async def begin(self, benchmark: str, unit: str, calls: Mapping[CallKind, float]) -> None:
        """Open a conversation that is expected to take these calls.

        As long as others are open, it waits until the money that is left is likely to be enough for
        all of them and for this one, verdicts included: a small budget buys a few judged
        conversations and not the beginnings of many. Raises `StopRequested` if the run is asked to
        stop meanwhile.
        """
        while self.remaining.open_conversations and (limit := self._short(calls)) is not None:
            self._on_enough(limit)
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._rows_waiting.append(turn)
            async with self._waits.waiting():
                await turn
            if not await self._may_begin():
                raise StopRequested
        self.remaining.begin(benchmark, unit, calls)

    def end(self, benchmark: str, unit: str) -> None:
        """Mark a conversation as over: judged, failed or stopped."""
        self.remaining.end(benchmark, unit)
        self._wake_rows()

    def _short(self, calls: Mapping[CallKind, float]) -> BudgetLimit | None:
        """The limit that is likely to end the run before all open conversations and one with these
        calls are over."""
        # the last call, too, is made only if there is room for an answer as long as it may be
        spare = max(
            (self.most_usd(role, model) + self._excess[role, model] for _, role, model in calls),
            default=0.0,
        )
        return self._exceeded(self.remaining.open_usd + self.remaining.usd_of(calls) + spare)

    def _wake_rows(self) -> None:
        """Let the conversations that wait to be begun look for room again."""
        waiting, self._rows_waiting = self._rows_waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _wake_next(self) -> None:
        """Let the call that waits first look for room again."""
        if self._waiting:
            turn = self._waiting.pop(0).turn
            if not turn.done():
                turn.set_result(None)

    def held(self) -> dict[ModelId, HeldCalls]:
        """The calls that wait for room, by model. Callable from any thread."""
        calls: dict[ModelId, HeldCalls] = {}
        for call in list(self._waiting):
            why = (
                f"`{call.limit}` leaves no room beside the calls in flight, which may cost up to "
                f"${self.in_flight_usd:.2f}"
            )
            before = calls.get(call.model)
            calls[call.model] = HeldCalls(why, None, 1 if before is None else before.calls + 1)
        return calls

    def _exceeded(self, usd: float) -> BudgetLimit | None:
        """The limit that would be passed if so much were spent from now on."""
        for limit in self.limits:
            batched = self.batched_usd if limit.counts_batches else 0.0
            if limit.before_usd + batched + self.spent_usd + usd > limit.usd + ROUNDING:
                return limit
        return None

    def most_usd(self, role: Role, model: ModelId, input_tokens: int = 0) -> float:
        """The most that a call may cost that is told at most so many tokens."""
        cost = self._cost_of(role, model)
        return max(cost.most_usd, cost.answer_usd + input_tokens * cost.token_usd)

    def _cost_of(self, role: Role, model: ModelId) -> CallCost:
        kind = (role, model)
        if kind not in self._found_costs:
            self._found_costs[kind] = self._find_cost(role, model)
        return self._found_costs[kind]

    def usual_usd(self, role: Role, model: ModelId) -> float:
        """The 95th percentile of the latest calls of this role to this model."""
        costs = sorted(self._costs[role, model])
        if not costs:
            return self._cost_of(role, model).usual_usd
        return costs[min(len(costs) - 1, int(len(costs) * USUAL))]

    @property
    def in_flight_usd(self) -> float:
        """The reserved cost of all calls in flight."""
        # a call that cost too much says something of those that began before it ended
        calls = list(self._in_air.items())
        return sum(
            self._reserved[kind] + count * self._excess.get(kind, 0.0)
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

    def more_usd(self, rest_usd: float) -> float:
        """The total to agree to so that a rest of this expected cost is likely to fit."""
        likely = self.spent_usd + rest_usd * self._width
        return max(likely, (self.agreed_usd or self.spent_usd) * WIDER)

    def use_measured_costs(self) -> None:
        """From now on, estimate from the costs of this run: the earlier estimates were too low, and
        keeping them would ask again and again."""
        self.remaining.refuted = True
        # how wide the first quote was says nothing of costs that are measured
        self._width = MEASURED_WIDTH

    def rest_usd(self, role: Role, model: ModelId) -> float:
        """What the rest of the run, beginning with such a call, is expected to cost."""
        # before any call of this kind only the expectation counts: `cost_of` serves the limits and
        # is deliberately high
        seen = self.usual_usd(role, model) if self._costs[role, model] else 0.0
        return max(self.remaining.in_air_usd + seen, self.remaining.rest_usd)

    def goes_beyond(self, role: Role, model: ModelId) -> bool:
        """Whether this call, or the rest of the run, costs more than was agreed to."""
        if self.agreed_usd is None:
            return False
        return self.spent_usd + self.rest_usd(role, model) > self.agreed_usd

    async def wait_until_agreed(self, role: Role, model: ModelId) -> None:
        """Before a call: wait until its cost is agreed to. Raises `StopRequested` otherwise."""
        # checked again: another waiting call may have used the agreed amount
        while self.goes_beyond(role, model):
            self.use_measured_costs()
            async with self._waits.waiting():
                is_agreed = await self._on_beyond(self.rest_usd(role, model))
            if not is_agreed:
                raise StopRequested
