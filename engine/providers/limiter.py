"""Limits how many requests to one model are in flight, by what the server accepts.

Servers do not announce their limits, and limits change. So the window grows until a refusal,
shrinks a little, and grows again: half as fast each time that the same height is refused, so that a
stable limit costs ever fewer refusals.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from engine.providers.failures import Signal

START: Final = 8
MOST: Final = 1000
OPENING: Final = 2
"""Added for each acceptance while no limit is known, which doubles the window each round trip."""
CUT: Final = 0.9
"""The factor by which a refusal shrinks the window."""
LONGEST_PATIENCE: Final = 16
"""The most rounds of acceptances before a refused height is tried again."""
FEWEST_PER_ROUND: Final = 8
TROUBLES_TO_CUT: Final = 3
"""Consecutive troubles that shrink the window like a refusal."""


@dataclass(slots=True)
class Window:
    """The number of requests that may be in flight, adjusted by the outcome of each. Pure."""

    limit: float = START
    most: int = MOST
    """The limit is never higher."""
    slow_start_below: float = MOST
    """The height below which it grows fast; above it grows by one for each round of acceptances."""
    in_flight: int = 0
    _cuts: int = 0
    _hold: int = 0
    """Acceptances to skip before it grows again."""
    _troubles: int = 0
    """Consecutive troubles."""
    _refused_at: float = math.inf
    _patience: int = 1

    @property
    def has_room(self) -> bool:
        """Whether another request may be sent now."""
        return self.in_flight < int(self.limit)

    def at_most(self, most: int) -> None:
        """Never let in more than this."""
        self.most = most
        self.limit = min(self.limit, most)

    def started(self) -> int:
        """Count a request, and return the mark to be passed to `ended`."""
        self.in_flight += 1
        return self._cuts

    def accepted(self) -> None:
        """Grow after an acceptance: the server allows as many requests as are in flight, which is
        known long before the answer is complete."""
        if self._hold > 0:
            self._hold -= 1
        elif self.in_flight >= int(self.limit):
            # a window that is not full says nothing about a larger one
            self._grow()

    def ended(self, mark: int, signal: Signal) -> None:
        """Count the end of a request. `mark` is what `started` returned: a refusal of a request
        from before the last cut was counted with that cut."""
        self.in_flight -= 1
        match signal:
            case Signal.WELL:
                self._troubles = 0
            case Signal.REFUSED:
                self._on_refusal(mark)
            case Signal.TROUBLE:
                self._on_trouble(mark)
            case Signal.NOTHING:
                pass

    def _grow(self) -> None:
        if self.limit < self.slow_start_below and self.limit + OPENING < self._refused_at:
            self.limit += OPENING
        else:
            rounds = self._patience if int(self.limit) + 1 >= self._refused_at else 1
            # one for each round of as many acceptances as the window is wide; a narrow window would
            # otherwise grow with nearly each acceptance
            self.limit += 1 / (max(int(self.limit), FEWEST_PER_ROUND) * rounds)
        self.limit = min(self.limit, self.most)
        if self.limit >= self._refused_at + 1:
            # above the height that was refused: the server allows more than before
            self._patience = max(1, self._patience // 2)
            self._refused_at = self.limit

    def _on_refusal(self, mark: int) -> None:
        if mark == self._cuts:
            self._shrink()
        # if the limit is on concurrent requests, it is the number of those still in flight; at
        # least one, or nothing would ever show that the server allows more again
        self.limit = max(1.0, min(self.limit, float(self.in_flight)))

    def _shrink(self) -> None:
        """Shrink once for all requests that were in flight together: their refusals are one."""
        self._cuts += 1
        # refused at the same height again: the limit is stable, so it is tried less often
        if self.limit >= self._refused_at - 1:
            self._patience = min(LONGEST_PATIENCE, 2 * self._patience)
        self._refused_at = float(int(self.limit))
        self.slow_start_below = max(2.0, self.limit / 2)
        # additive increase, multiplicative decrease, as in TCP: several clients of a server then
        # converge to fair shares
        self.limit = max(1.0, self.limit * CUT)

    def _on_trouble(self, mark: int) -> None:
        self._troubles += 1
        # answers to requests from before the trouble still come, and say nothing about the present
        self._hold = int(self.limit)
        if self._troubles >= TROUBLES_TO_CUT:
            self._troubles = 0
            if mark == self._cuts:
                self._shrink()


class Cooldown:
    """The time until which a server asks for no requests."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_until = -math.inf

    @property
    def closed_for_s(self) -> float:
        """The remaining time in seconds; 0 if it is over."""
        return max(0.0, self._closed_until - self._clock())

    def close_for(self, seconds: float) -> None:
        """Close for so many seconds from now, unless it is closed for longer already."""
        # of several answers, the last may ask for the shortest wait
        self._closed_until = max(self._closed_until, self._clock() + seconds)


class Limiter:
    """Admits requests in the order in which they first arrived, as many as the window allows.

    While the server asks to wait, none is admitted: by its own cooldown, or by one that it shares
    with other limiters.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        shared: Cooldown | None = None,
        *,
        most: int = MOST,
    ) -> None:
        """`most` requests are in flight at most, whatever the server accepts."""
        self.window = Window(min(START, most), most)
        self._sleep = sleep
        self._own = Cooldown(clock)
        self._shared = shared or Cooldown(clock)
        self._tickets = 0
        self._waiting: list[tuple[int, int, asyncio.Future[int]]] = []
        self._pushed = 0

    @property
    def closed_for_s(self) -> float:
        """The seconds for which the server asked to wait; 0 if it did not."""
        return max(self._own.closed_for_s, self._shared.closed_for_s)

    def ticket(self) -> int:
        """Return a place in the order, which a call keeps over all its tries."""
        self._tickets += 1
        return self._tickets

    def close_for(self, seconds: float) -> None:
        """Admit none of these requests for so many seconds."""
        self._own.close_for(seconds)

    async def enter(self, ticket: int) -> int:
        """Wait for permission to have one request in flight, which must be returned with `leave` in
        any case."""
        while True:
            while (wait := self.closed_for_s) > 0:
                await self._sleep(wait)
            # checked again after the queue, as a server may ask for a wait meanwhile; a slot that
            # is held during it would keep others out
            slot = await self._wait_for_slot(ticket)
            if not self.closed_for_s:
                return slot
            self.leave(slot, Signal.NOTHING)

    def accepted(self) -> None:
        """Count that the server has begun to answer a request."""
        self.window.accepted()
        self._admit()

    def leave(self, slot: int, signal: Signal) -> None:
        """Return the slot of a request that has ended. `signal` adjusts the window."""
        self.window.ended(slot, signal)
        self._admit()

    async def _wait_for_slot(self, ticket: int) -> int:
        if not self._waiting and self.window.has_room:
            return self.window.started()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pushed += 1
        # a heap, not a queue: a call that is retried comes back with its old ticket, ahead of later
        # ones. The middle item breaks ties, as futures cannot be compared
        heapq.heappush(self._waiting, (ticket, self._pushed, future))
        try:
            return await future
        except asyncio.CancelledError:
            # cancelled after the slot was given and before it was taken: nobody else returns it
            if future.done() and not future.cancelled():
                self.leave(future.result(), Signal.NOTHING)
            raise

    def _admit(self) -> None:
        # cancelled waiters are removed when they come up, which is cheaper than searching for them
        while self._waiting and (self._waiting[0][2].done() or self.window.has_room):
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(self.window.started())


BEGIN_AT_ONCE: Final = 16
"""Calls that begin in one turn of the event loop. Each takes about half a millisecond: a thousand
at once would block all others for half a second."""


class StartThrottle:
    """Lets calls begin in the order in which they came. Belongs to one event loop."""

    def __init__(self) -> None:
        self._begun = 0
        """Calls that began in this turn of the loop."""
        self._counting = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Return at once while few calls begin, otherwise in a later turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._counting:
            self._counting = True
            # call_soon runs after what is ready in this turn, so that incoming data is handled
            # first
            loop.call_soon(self._begin_next, loop)
        if self._begun < BEGIN_AT_ONCE and not self._waiting:
            self._begun += 1
            return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        await future

    def _begin_next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGIN_AT_ONCE:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._begun += 1
        self._counting = self._begun > 0
        if self._counting:
            loop.call_soon(self._begin_next, loop)


class HeldCalls(NamedTuple):
    """What calls to a model wait for."""

    why: str
    seconds: int | None
    """Seconds until that is over; None if unknown."""
    calls: int = 1

    def __str__(self) -> str:
        return self.why if self.seconds is None else f"{self.why}, again in {self.seconds} s"


@dataclass(slots=True)
class ModelWaits:
    """What the calls to one model wait for, to be shown."""

    _pending: dict[int, tuple[float, str]] = field(default_factory=dict)
    _number: int = 0
    outside: int = 0
    """Calls that its limiter has not admitted yet."""

    @property
    def calls(self) -> int:
        return self.outside + len(self._pending)

    def begin(self, until: float, words: str) -> int:
        """Note that a call waits until `until`, a monotonic time; return a number for `end`."""
        self._number += 1
        self._pending[self._number] = (until, words)
        return self._number

    def end(self, number: int) -> None:
        del self._pending[number]

    @contextmanager
    def holding(self, words: str) -> Iterator[None]:
        """Note that a call waits while the block runs, for an unknown time."""
        number = self.begin(math.inf, words)
        try:
            yield
        finally:
            self.end(number)

    def soonest(self, now: float) -> HeldCalls | None:
        """Return the wait that ends first."""
        if not self._pending:
            return None
        until, words = min(self._pending.values())
        seconds = None if until == math.inf else whole_seconds(until - now)
        return HeldCalls(words, seconds, len(self._pending))


def whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
