"""How much of a stage is done at once, of rows and of single calls; and pausing and stopping a run
between two messages, never within one."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from engine.benchmark import Stage


class RemainingRows(Protocol):
    """What an order has to do of the stage."""

    @property
    def left(self) -> int: ...


class Slots:
    """At most `number` at once. A row of work keeps its slot from its first call to its last, so
    that what is begun is soon finished, and a slot that comes free goes to the target that has the
    fewest, so that a slow one starves no other.

    Where fewer rows are left than would fill the slots twice, slots would stand empty while the
    last rows, one call after the other, come to their end. Then all that are left are begun, and a
    slot is kept for one call and goes to the row with the most calls before it, or first to a
    target that has less than half of an even share. In the order in which they came, 24 rows of
    unequal length at 10 take a tenth longer, and calls to targets that hang come to hold every
    slot. Belongs to one event loop.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._orders: list[RemainingRows] = []
        self._begun = 0
        self._room = asyncio.Event()
        self._taken: Counter[str] = Counter()
        self._waiting: defaultdict[str, list[tuple[int, int, asyncio.Future[None]]]] = defaultdict(
            list
        )
        """By target, those with the most calls before them first."""
        self._came = 0
        self.between: Counter[str] = Counter()
        """Rows that have begun and wait for the slot of their next call, by target."""

    @property
    def number(self) -> int:
        return self._number

    def resize(self, number: int) -> None:
        """From now on. What is at work beyond a smaller number is finished first."""
        self._number = number
        self._room.set()
        self._hand_out()

    @property
    def few_left(self) -> bool:
        """Whether a slot is kept for one call only."""
        return sum(rows.left for rows in self._orders) < 2 * self._number

    @contextmanager
    def doing(self, rows: RemainingRows) -> Iterator[None]:
        """Count what is left of these while the block lasts."""
        self._orders.append(rows)
        try:
            yield
        finally:
            self._orders.remove(rows)

    async def begin(self) -> None:
        """Wait until one more row is to be begun: as many as there are slots, or all that are left.
        `end` follows."""
        # a thousand rows that have begun would each hold a conversation in memory and wait for a
        # slot
        while self._begun >= self._number and not self.few_left:
            self._room.clear()
            await self._room.wait()
        self._begun += 1

    def end(self) -> None:
        """A row that `begin` let begin is over."""
        self._begun -= 1
        self._room.set()

    @asynccontextmanager
    async def one(self, target: str = "", calls: int = 0) -> AsyncIterator[None]:
        """One of them, for as long as the block lasts. `calls` are still to be made in it."""
        try:
            await self._turn(target, calls)
            yield
        finally:
            self._taken[target] -= 1
            self._hand_out()

    async def next_call(self, target: str, calls: int) -> None:
        """Between two calls of a row that has one: where few rows are left, wait for its turn."""
        if self.few_left:
            self._taken[target] -= 1
            self.between[target] += 1
            try:
                await self._turn(target, calls)
            finally:
                self.between[target] -= 1

    async def _turn(self, target: str, calls: int) -> None:
        """Wait for a slot. Whoever is cancelled meanwhile has one, too, to give back."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._came += 1
        waiting = (-calls, self._came, turn)
        # by calls to make, then by when it came: `_hand_out` takes the first of them where few are
        # left, and else the last, which has the fewest to make and so gives its slot back soonest
        insort(self._waiting[target], waiting)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            # otherwise it was given the slot in the same turn of the loop, and the `finally` of
            # `one` gives it back
            if turn.cancelled():
                if waiting in self._waiting[target]:
                    self._waiting[target].remove(waiting)
                self._taken[target] += 1
            raise

    def _hand_out(self) -> None:
        few_left = self.few_left
        while self._taken.total() < self._number:
            waiting = {target: turns for target, turns in self._waiting.items() if turns}
            if not waiting:
                return
            target = min(waiting, key=self._taken.__getitem__)
            targets = len(waiting.keys() | +self._taken)
            # half of its even share is what a target has in any case; beyond it the longest
            # conversation goes first, as the run ends with that
            if few_left and self._taken[target] * targets * 2 >= self._number:
                target = min(waiting, key=waiting.__getitem__)
            _, _, turn = waiting[target].pop(0 if few_left else -1)
            # one that gave up: it is passed over, and the slot goes to the next
            if not turn.cancelled():
                self._taken[target] += 1
                turn.set_result(None)


class StopRequested(Exception):  # noqa: N818  (not an error: a run that was asked to stop has come to rest)
    """Raised at a checkpoint of a run that is asked to stop."""


class Control:
    """What a run asks before it begins something new. Belongs to the run's event loop."""

    def __init__(self, at_once: Mapping[Stage, int]) -> None:
        self._running = asyncio.Event()
        self._running.set()
        self.draining = False
        self.slots = {stage: Slots(number) for stage, number in at_once.items()}
        """Of all orders together."""

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    def pause(self) -> None:
        """Let nothing new begin until `resume`. A run that is to stop is not paused: it would never
        end."""
        if not self.draining:
            self._running.clear()

    def resume(self) -> None:
        """End a pause: what waits at a checkpoint goes on."""
        self._running.set()

    def drain(self) -> None:
        """Ask the run to stop: what waits is woken, and comes to rest at its next checkpoint."""
        self.draining = True
        # a paused run that is asked to stop must wake to do so
        self._running.set()

    async def may_begin(self) -> bool:
        """Wait out a pause; False where the run is asked to stop and nothing new may begin."""
        if not self._running.is_set():
            await self._running.wait()
        return not self.draining

    async def next_call(self, stage: Stage, target: str, calls: int) -> None:
        """A checkpoint between two calls of a row, when it is the row's turn; it has `calls` more
        to make. Raises `StopRequested`."""
        await self.slots[stage].next_call(target, calls)
        await self.checkpoint()

    async def checkpoint(self) -> None:
        """Raise `StopRequested` where the run is asked to stop: a row of work is left half done."""
        if not await self.may_begin():
            raise StopRequested


@dataclass(frozen=True, slots=True)
class _Hold:
    again: bool
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Claims:
    """Rows of work that an order has claimed and not released. Belongs to one event loop."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[str, Stage, str], _Hold] = {}
        self._files: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def claim(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Whether it was free; it is claimed now."""
        return self._claim((benchmark, stage, unit), again=False)

    def _claim(self, row: tuple[str, Stage, str], *, again: bool) -> bool:
        if row in self._claimed:
            return False
        self._claimed[row] = _Hold(again)
        return True

    async def claim_again(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Claim a row to do it once more, when whoever does it for the first time has released it;
        False where it is being done once more already."""
        row = (benchmark, stage, unit)
        # looked at anew each time: of several who waited, one has claimed it before the others wake
        while row in self._claimed:
            hold = self._claimed[row]
            if hold.again:
                return False
            await hold.released.wait()
        return self._claim(row, again=True)

    def is_claimed(self, benchmark: str, stage: Stage, unit: str, *, again: bool = False) -> bool:
        """Whether it is being done; with `again`, whether that is once more."""
        hold = self._claimed.get((benchmark, stage, unit))
        return hold is not None and (hold.again or not again)

    def release(self, benchmark: str, stage: Stage, unit: str) -> None:
        """Whoever waits for the row may have it. Of a row that nobody has, nothing."""
        hold = self._claimed.pop((benchmark, stage, unit), None)
        if hold is not None:
            hold.released.set()

    def files(self, benchmark: str) -> asyncio.Lock:
        """To be held while the files of a benchmark are written."""
        return self._files[benchmark]


T = TypeVar("T")


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, in order. No job outlives this call."""
    async with side_by_side() as group:
        tasks = [group.create_task(job) for job in jobs]
    return [task.result() for task in tasks]


@asynccontextmanager
async def side_by_side() -> AsyncIterator[asyncio.TaskGroup]:
    """A group whose first error comes out as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        # whoever calls expects the error and not a group; the others are cancellations that it
        # caused
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
