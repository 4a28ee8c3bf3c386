"""What is being worked on in one engine, so that two orders side by side never do the same."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from engine.benchmark import Stage


class Desk:
    """Rows of work that an order has taken on and not put down. Belongs to one event loop."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, Stage, str]] = set()
        self._files: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def take(self, benchmark: str, stage: Stage, unit: str) -> bool:
        """Whether it was free; it is taken now."""
        row = (benchmark, stage, unit)
        if row in self._taken:
            return False
        self._taken.add(row)
        return True

    def is_taken(self, benchmark: str, stage: Stage, unit: str) -> bool:
        return (benchmark, stage, unit) in self._taken

    def put_down(self, benchmark: str, stage: Stage, unit: str) -> None:
        self._taken.discard((benchmark, stage, unit))

    def files(self, benchmark: str) -> asyncio.Lock:
        """To be held while the files of a benchmark are written."""
        return self._files[benchmark]
