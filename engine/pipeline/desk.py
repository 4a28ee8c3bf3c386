"""What is being worked on in one engine, so that two orders side by side never do the same."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from engine.benchmark import Stage


@dataclass(frozen=True, slots=True)
class _Hold:
    again: bool
    put_down: asyncio.Event = field(default_factory=asyncio.Event)


class Desk:
    """Rows of work that an order has taken on and not put down. Belongs to one event loop."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, Stage, str], _Hold] = {}
        self._files: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def take(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Whether it was free; it is taken now."""
        return self._take((benchmark, stage, unit), again=False)

    def _take(self, row: tuple[str, Stage, str], *, again: bool) -> bool:
        if row in self._taken:
            return False
        self._taken[row] = _Hold(again)
        return True

    async def take_again(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Take a row to do it once more, when whoever does it for the first time has put it down;
        False where it is being done once more already."""
        row = (benchmark, stage, unit)
        while row in self._taken:
            hold = self._taken[row]
            if hold.again:
                return False
            await hold.put_down.wait()
        return self._take(row, again=True)

    def is_taken(self, benchmark: str, stage: Stage, unit: str, *, again: bool = False) -> bool:
        """Whether it is being done; with `again`, whether that is once more."""
        hold = self._taken.get((benchmark, stage, unit))
        return hold is not None and (hold.again or not again)

    def put_down(self, benchmark: str, stage: Stage, unit: str) -> None:
        hold = self._taken.pop((benchmark, stage, unit), None)
        if hold is not None:
            hold.put_down.set()

    def files(self, benchmark: str) -> asyncio.Lock:
        """To be held while the files of a benchmark are written."""
        return self._files[benchmark]
