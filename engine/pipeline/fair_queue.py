"""A queue that shares its workers evenly between targets, so that a slow one starves no other."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Hands out the next item of the target that has the fewest in work.

    More items may be put in until `close`; then `next` gives None once it is empty.
    """

    def __init__(
        self, items: Iterable[tuple[str, T]] = (), *, source: FairQueue[Any] | None = None
    ) -> None:
        self._source = source
        """Whose items become items of this one."""
        self._waiting: dict[str, deque[T]] = {}
        self._in_work: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._closed = False
        for lane, item in items:
            self._waiting.setdefault(lane, deque()).append(item)

    @property
    def left(self) -> int:
        """Items that are not finished, and those that are still to come."""
        here = sum(map(len, self._waiting.values())) + self._in_work.total()
        return here + (0 if self._source is None else self._source.left)

    async def put(self, lane: str, item: T) -> None:
        async with self._changed:
            self._waiting.setdefault(lane, deque()).append(item)
            self._changed.notify()

    async def close(self) -> None:
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def next(self) -> tuple[str, T] | None:
        async with self._changed:
            while True:
                lanes = [lane for lane, items in self._waiting.items() if items]
                if lanes:
                    lane = min(lanes, key=lambda name: self._in_work[name])
                    self._in_work[lane] += 1
                    return lane, self._waiting[lane].popleft()
                if self._closed:
                    return None
                await self._changed.wait()

    def done(self, lane: str) -> None:
        """One item that was handed out is finished."""
        self._in_work[lane] -= 1
