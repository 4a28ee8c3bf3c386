"""How many calls begin in one turn of the event loop: what others hear must not wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

BEGIN_AT_ONCE: Final = 16
"""To begin a call takes some half a millisecond: a thousand at once would be heard nothing of for
half a second."""


class Turns:
    """Lets calls begin in the order in which they came. Belongs to one event loop."""

    def __init__(self) -> None:
        self._begun = 0
        """In this turn of the loop."""
        self._counting = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Returns at once where few begin, else in a later turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._counting:
            self._counting = True
            loop.call_soon(self._next, loop)
        if self._begun < BEGIN_AT_ONCE and not self._waiting:
            self._begun += 1
            return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGIN_AT_ONCE:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._begun += 1
        self._counting = self._begun > 0
        if self._counting:
            loop.call_soon(self._next, loop)
