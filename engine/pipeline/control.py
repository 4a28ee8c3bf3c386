"""Limits how many rows and calls of a stage run at once, and pauses or stops a run between two
messages, never within one."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from engine.benchmark import Stage
from engine.errors import StopRequested


class RemainingRows(Protocol):
    """The rows of a stage that an order still has to do."""

    @property
    def left(self) -> int: ...


class Slots:
    """Allows at most `number` rows or calls at once. A row of work normally keeps its slot from its
    first call to its last, so that it finishes soon after it has begun. A free slot goes to the
    target that holds the fewest, so that a slow target does not starve the others.

    When fewer rows remain than would fill the slots twice, slots would stay empty while the last
    rows make their calls one by one. From then on all remaining rows are begun and a slot is held
    for one call only. It goes to the row with the most calls left, but first to a target that has
    less than half of an even share. In order of arrival instead, 24 rows of unequal length at 10
    slots take a tenth longer, and calls to hanging targets end up holding every slot. Belongs to
    one event loop.
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
        """By target, sorted by most remaining calls first."""
        self._came = 0
        self.between: Counter[str] = Counter()
        """Begun rows that wait for the slot of their next call, by target."""

    @property
    def number(self) -> int:
        return self._number

    def resize(self, number: int) -> None:
        """Change the number of slots. Work beyond a smaller number is finished first."""
        self._number = number
        self._room.set()
        self._hand_out()

    @property
    def few_left(self) -> bool:
        """Whether few rows remain, so that a slot is held for one call only."""
        return sum(rows.left for rows in self._orders) < 2 * self._number

    @contextmanager
    def counting_remaining(self, rows: RemainingRows) -> Iterator[None]:
        """Count the remaining rows of an order while the block lasts."""
        self._orders.append(rows)
        try:
            yield
        finally:
            self._orders.remove(rows)

    async def begin(self) -> None:
        """Wait until one more row may be begun: up to the number of slots, or any while few are
        left. Each call needs an `end`."""
        # a thousand begun rows would each hold a conversation in memory while they wait for a slot
        while self._begun >= self._number and not self.few_left:
            self._room.clear()
            await self._room.wait()
        self._begun += 1

    def end(self) -> None:
        """Mark a row that `begin` admitted as over."""
        self._begun -= 1
        self._room.set()

    @asynccontextmanager
    async def hold(self, target: str = "", calls: int = 0) -> AsyncIterator[None]:
        """Hold a slot for the block, in which `calls` calls are still to be made."""
        try:
            await self._turn(target, calls)
            yield
        finally:
            self._taken[target] -= 1
            self._hand_out()

    async def next_call(self, target: str, calls: int) -> None:
        """Between two calls of a row: give its slot back and wait again, if few rows are left."""
        if self.few_left:
            self._taken[target] -= 1
            self.between[target] += 1
            try:
                await self._turn(target, calls)
            finally:
                self.between[target] -= 1

    async def _turn(self, target: str, calls: int) -> None:
        """Wait for a slot. A cancelled caller counts as holding one, which it gives back."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._came += 1
        waiting = (-calls, self._came, turn)
        # sorted by remaining calls, then by arrival. `_hand_out` takes the first while few are
        # left, else the last, which has the fewest calls left and so frees its slot soonest
        insort(self._waiting[target], waiting)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            # otherwise the slot was granted in the same iteration of the loop, and the `finally` of
            # `hold` gives it back
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
            # each target gets half of its even share first; beyond that the longest conversation
            # goes first, because the run ends with it
            if few_left and self._taken[target] * targets * 2 >= self._number:
                target = min(waiting, key=waiting.__getitem__)
            _, _, turn = waiting[target].pop(0 if few_left else -1)
            # a cancelled waiter is skipped, and the slot goes to the next
            if not turn.cancelled():
                self._taken[target] += 1
                turn.set_result(None)


class Control:
    """Tells a run whether it may begin something new. Belongs to the run's event loop."""

    def __init__(self, at_once: Mapping[Stage, int]) -> None:
        self._running = asyncio.Event()
        self._running.set()
        self.draining = False
        self.slots = {stage: Slots(number) for stage, number in at_once.items()}
        """The slots of each stage, shared by all orders."""

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    def pause(self) -> None:
        """Begin nothing new until `resume`. A stopping run is not paused, as it would never end."""
        if not self.draining:
            self._running.clear()

    def resume(self) -> None:
        """End a pause: whatever waits at a checkpoint goes on."""
        self._running.set()

    def drain(self) -> None:
        """Ask the run to stop: waiters are woken, and stop at their next checkpoint."""
        self.draining = True
        # a paused run must wake up in order to stop
        self._running.set()

    async def may_begin(self) -> bool:
        """Wait out a pause; return False if the run is to stop and nothing new may begin."""
        if not self._running.is_set():
            await self._running.wait()
        return not self.draining

    async def next_call(self, stage: Stage, target: str, calls: int) -> None:
        """Wait at a checkpoint between two calls of a row that has `calls` more to make, until it
        has a slot again. Raises `StopRequested`."""
        await self.slots[stage].next_call(target, calls)
        await self.checkpoint()

    async def checkpoint(self) -> None:
        """Wait out a pause. Raises `StopRequested` if the run is to stop."""
        if not await self.may_begin():
            raise StopRequested


@dataclass(frozen=True, slots=True)
class _Claim:
    again: bool
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Claims:
    """The rows of work that orders have claimed and not released. Belongs to one event loop."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[str, Stage, str], _Claim] = {}
        self._files: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def claim(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Claim a row; return whether it was free."""
        return self._claim((benchmark, stage, unit), again=False)

    def _claim(self, row: tuple[str, Stage, str], *, again: bool) -> bool:
        if row in self._claimed:
            return False
        self._claimed[row] = _Claim(again)
        return True

    async def claim_again(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Claim a row to repeat it, once an order that does it for the first time has released it;
        return False if another order is repeating it already."""
        row = (benchmark, stage, unit)
        # checked again each time: of several waiters, one has claimed it before the others wake up
        while row in self._claimed:
            hold = self._claimed[row]
            if hold.again:
                return False
            await hold.released.wait()
        return self._claim(row, again=True)

    def is_claimed(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Whether a row is being done."""
        return (benchmark, stage, unit) in self._claimed

    def release(self, benchmark: str, stage: Stage, unit: str) -> None:
        """Release a row and wake its waiters; does nothing if it was not claimed."""
        hold = self._claimed.pop((benchmark, stage, unit), None)
        if hold is not None:
            hold.released.set()

    def files(self, benchmark: str) -> asyncio.Lock:
        """The lock to hold while the files of a benchmark are written."""
        return self._files[benchmark]


T = TypeVar("T")


async def run_together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the jobs concurrently; return their results in order. No job outlives this call."""
    async with side_by_side() as group:
        tasks = [group.create_task(job) for job in jobs]
    return [task.result() for task in tasks]


@asynccontextmanager
async def side_by_side() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises its first error itself instead of an exception group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        # callers expect the error, not a group; the other errors are cancellations that it caused
        raise _first_error(errors) from None


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
