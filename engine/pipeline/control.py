"""Pausing and stopping a run between two messages, never within one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from engine.benchmark import Stage
from engine.pipeline.slots import Slots


class Drained(Exception):  # noqa: N818  (not an error: a run that was asked to stop has come to rest)
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
        if not self.draining:
            self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def drain(self) -> None:
        self.draining = True
        self._running.set()

    async def may_begin(self) -> bool:
        """Wait out a pause; False where the run is asked to stop and nothing new may begin."""
        if not self._running.is_set():
            await self._running.wait()
        return not self.draining

    async def next_call(self, stage: Stage, target: str, calls: int) -> None:
        """A checkpoint between two calls of a row, when it is the row's turn; it has `calls` more
        to make. Raises `Drained`."""
        await self.slots[stage].next_call(target, calls)
        await self.checkpoint()

    async def checkpoint(self) -> None:
        """Raise `Drained` where the run is asked to stop: for leaving a row of work half done."""
        if not await self.may_begin():
            raise Drained
