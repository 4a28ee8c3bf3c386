"""How much of one kind is done at once: a number that can change while work goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """At most `number` at once. Belongs to one event loop."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def number(self) -> int:
        return self._number

    def resize(self, number: int) -> None:
        """From now on. What is at work beyond a smaller number is finished first."""
        self._number = number
        self._wake()

    async def acquire(self) -> None:
        while self._taken >= self._number:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # what was meant for this one is another's
                raise
        self._taken += 1

    def release(self) -> None:
        self._taken -= 1
        self._wake()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """One of them, for as long as the block lasts."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    def _wake(self) -> None:
        free = self._number - self._taken
        while free > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1
