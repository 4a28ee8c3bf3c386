"""How much of one stage is done at once: rows of work, and single calls when few rows are left."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol


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
            if few_left and self._taken[target] * targets * 2 >= self._number:
                target = min(waiting, key=waiting.__getitem__)
            _, _, turn = waiting[target].pop(0 if few_left else -1)
            # one that gave up: it is passed over, and the slot goes to the next
            if not turn.cancelled():
                self._taken[target] += 1
                turn.set_result(None)
