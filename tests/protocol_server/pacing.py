"""Lets an answer go out at a pace, each piece at its own deadline: delays never add up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.protocol_server.channel import Channel
from tests.protocol_server.settings import Settings

OnSpoken = Callable[[int], None]
"""Told how many pieces have gone out in all."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the pieces of one answer are due."""

    first: float
    """When the first is, by the loop's clock."""
    seconds_each: float | None
    """From one to the next; None sends them all with the first."""
    flush_each: bool

    @classmethod
    def from_now(cls, settings: Settings) -> Pace:
        per_second = settings.tokens_per_second
        return cls(
            asyncio.get_running_loop().time() + settings.latency_ms / 1000,
            None if per_second is None else 1 / per_second,
            settings.flush_each,
        )

    async def until_first(self) -> None:
        await self._until(self.first)

    async def until_last(self, pieces: int) -> None:
        await self._until(self.first + (self.seconds_each or 0.0) * max(0, pieces - 1))

    async def _until(self, deadline: float) -> None:
        left = deadline - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)


async def speak(channel: Channel, pieces: Sequence[bytes], pace: Pace, on_spoken: OnSpoken) -> None:
    """Send the pieces; the last of them may still be held by the channel afterwards."""
    await pace.until_first()
    if pace.seconds_each is not None and pieces:
        await _Speech(channel, pieces, pace.first, pace.seconds_each, on_spoken).spoken()
    elif pace.flush_each:
        for number, piece in enumerate(pieces, start=1):
            channel.send((piece,))
            channel.flush()
            on_spoken(number)
            await asyncio.sleep(0)
    else:
        channel.send(pieces)
        on_spoken(len(pieces))


class _Speech:
    """One answer being spoken by bare timers: a thousand at once need no task switches.

    A timer that comes late sends all pieces that are due by then in one write.
    """

    def __init__(
        self,
        channel: Channel,
        pieces: Sequence[bytes],
        start: float,
        seconds: float,
        on_spoken: OnSpoken,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._pieces = pieces
        self._start = start
        self._seconds = seconds
        self._on_spoken = on_spoken
        self._sent = 0
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def spoken(self) -> None:
        self._tick()
        try:
            await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _tick(self) -> None:
        if self._done.done():
            return  # the client went away in this same turn of the loop
        passed = self._loop.time() - self._start
        # a timer may fire a hair before its time, and must not be set for the same piece again
        due = max(self._sent + 1, int(passed / self._seconds) + 1)
        self._channel.send(self._pieces[self._sent : due])
        self._sent = min(due, len(self._pieces))
        self._on_spoken(self._sent)
        if self._sent == len(self._pieces):
            self._done.set_result(None)
            return
        self._channel.flush()
        self._timer = self._loop.call_at(self._start + self._sent * self._seconds, self._tick)
