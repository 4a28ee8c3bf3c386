"""Pausing and stopping a run between two messages, never within one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.benchmark import Stage
from engine.pipeline.slots import Slots


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
        """Let what waits begin."""
        self._running.set()

    def drain(self) -> None:
        """Ask the run to stop: what waits is woken, and comes to rest at its next checkpoint."""
        self.draining = True
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
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
