"""How many requests to one model may be in the air, found out from what the server says.

Servers do not tell their limits, and limits change. So the window opens until a refusal, closes a
little, and feels its way up again: twice as slowly each time that the same height is refused, so
that a limit that stands costs ever fewer refusals.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

START: Final = 8
MOST: Final = 1000
OPENING: Final = 2
"""For each acceptance, while no limit is known: what is let in doubles with each round trip."""
CUT: Final = 0.9
"""What a refusal leaves of the window."""
LONGEST_PATIENCE: Final = 16
"""Rounds of acceptances before a height that was refused is tried again."""
FEWEST_PER_ROUND: Final = 8
TROUBLES_TO_CUT: Final = 3
"""In a row, with no success between."""


class Signal(Enum):
    """What a request that is over tells about the server's limit."""

    WELL = auto()
    REFUSED = auto()
    TROUBLE = auto()
    """The server failed or is overloaded, which may be our doing."""
    NOTHING = auto()


@dataclass(slots=True)
class Window:
    """The number of requests allowed at once, moved by what becomes of each. Pure."""

    limit: float = START
    slow_start_below: float = MOST
    """Opens fast up to here, then grows by one with each round of acceptances."""
    in_flight: int = 0
    _cuts: int = 0
    _hold: int = 0
    """Acceptances to let pass before it grows again."""
    _troubles: int = 0
    """In a row."""
    _refused_at: float = math.inf
    _patience: int = 1

    @property
    def has_room(self) -> bool:
        """Whether one more may be sent now."""
        return self.in_flight < int(self.limit)

    def started(self) -> int:
        """Gives the mark to be handed back with the outcome."""
        self.in_flight += 1
        return self._cuts

    def accepted(self) -> None:
        """The server has begun to answer one: it allows as many as are in the air now, which is
        known long before the answer is whole."""
        if self._hold > 0:
            self._hold -= 1
        elif self.in_flight >= int(self.limit):
            # a window that is not full says nothing about a wider one
            self._grow()

    def ended(self, mark: int, signal: Signal) -> None:
        """Take in what became of a request. `mark` is what `started` gave for it: a refusal of one
        that was sent before the last cut has been counted with that cut."""
        self.in_flight -= 1
        match signal:
            case Signal.WELL:
                self._troubles = 0
            case Signal.REFUSED:
                self._refused(mark)
            case Signal.TROUBLE:
                self._troubled(mark)
            case Signal.NOTHING:
                pass

    def _grow(self) -> None:
        if self.limit < self.slow_start_below and self.limit + OPENING < self._refused_at:
            self.limit += OPENING
        else:
            rounds = self._patience if int(self.limit) + 1 >= self._refused_at else 1
            # one in a round of as many acceptances as the window is wide; a narrow one is taken for
            # wider, as it would grow with nearly each acceptance
            self.limit += 1 / (max(int(self.limit), FEWEST_PER_ROUND) * rounds)
        self.limit = min(self.limit, MOST)
        if self.limit >= self._refused_at + 1:
            # higher than what was refused: the server allows more than it did
            self._patience = max(1, self._patience // 2)
            self._refused_at = self.limit

    def _refused(self, mark: int) -> None:
        if mark == self._cuts:
            self._cut()
        # where a number at once is what is limited, those still in the air are that number
        # one at least: without any, nothing would ever show that the server allows more again
        self.limit = max(1.0, min(self.limit, float(self.in_flight)))

    def _cut(self) -> None:
        """Once for all requests that were in the air at the same time: their refusals are one."""
        self._cuts += 1
        # refused at the same height again: the limit stands there, so it is felt for less often
        if self.limit >= self._refused_at - 1:
            self._patience = min(LONGEST_PATIENCE, 2 * self._patience)
        self._refused_at = float(int(self.limit))
        self.slow_start_below = max(2.0, self.limit / 2)
        # multiplicative down, additive up, as TCP does: only so do several clients of one server
        # come to fair shares
        self.limit = max(1.0, self.limit * CUT)

    def _troubled(self, mark: int) -> None:
        self._troubles += 1
        # what was sent before the trouble is still answered, and says nothing of the server as it
        # is now
        self._hold = int(self.limit)
        if self._troubles >= TROUBLES_TO_CUT:
            self._troubles = 0
            if mark == self._cuts:
                self._cut()


@dataclass(frozen=True, slots=True)
class Slot:
    """Leave to have one request in the air."""

    mark: int


class Cooldown:
    """Until when a server asks to be asked nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed_until = -math.inf

    @property
    def closed_for_s(self) -> float:
        """From now; 0 where it is open."""
        return max(0.0, self._closed_until - self._clock())

    def close_for(self, seconds: float) -> None:
        """For so long from now; a longer time that was asked for before stays."""
        # of several answers that ask for a wait the shortest may come last
        self._closed_until = max(self._closed_until, self._clock() + seconds)


class Limiter:
    """Lets requests through in the order in which they first came, as many as the window allows,
    and none while the server asks to wait: of these requests, or, by the gate that they share, of
    others as well."""

    def __init__(
        self,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        shared: Cooldown | None = None,
    ) -> None:
        self.window = Window()
        self._sleep = sleep
        self._own = Cooldown(clock)
        self._shared = shared or Cooldown(clock)
        self._tickets = 0
        self._waiting: list[tuple[int, int, asyncio.Future[Slot]]] = []
        self._pushed = 0

    @property
    def closed_for_s(self) -> float:
        """How long the server asked to wait from now; 0 where it does not."""
        return max(self._own.closed_for_s, self._shared.closed_for_s)

    def ticket(self) -> int:
        """A place in the order, kept over all the tries of one call."""
        self._tickets += 1
        return self._tickets

    def close_for(self, seconds: float) -> None:
        """Let none of these requests through for so long."""
        self._own.close_for(seconds)

    async def enter(self, ticket: int) -> Slot:
        """Wait for leave to send. Give it back with `leave`, whatever becomes of the request."""
        while True:
            while (wait := self.closed_for_s) > 0:
                await self._sleep(wait)
            # the wait comes first and is looked at again afterwards: a server may ask for one while
            # this request is in the queue, and a slot that is held meanwhile would keep others out
            slot = await self._place(ticket)
            if not self.closed_for_s:
                return slot
            self.leave(slot, Signal.NOTHING)

    def accepted(self) -> None:
        """The server has begun to answer a request."""
        self.window.accepted()
        self._admit()

    def leave(self, slot: Slot, signal: Signal) -> None:
        """The request is over. `signal` moves the window."""
        self.window.ended(slot.mark, signal)
        self._admit()

    async def _place(self, ticket: int) -> Slot:
        if not self._waiting and self.window.has_room:
            return Slot(self.window.started())
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._pushed += 1
        # the middle one because futures cannot be compared, where two have one ticket
        # a heap and not a queue: a call that is tried again comes back with its old ticket, in
        # front of those that came later
        heapq.heappush(self._waiting, (ticket, self._pushed, future))
        try:
            return await future
        except asyncio.CancelledError:
            # cancelled in the moment between being given the slot and taking it: nobody else
            # returns it
            if future.done() and not future.cancelled():
                self.leave(future.result(), Signal.NOTHING)
            raise

    def _admit(self) -> None:
        # those who gave up waiting are taken out when their turn comes, which is cheaper than a
        # search
        while self._waiting and (self._waiting[0][2].done() or self.window.has_room):
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(Slot(self.window.started()))


BEGIN_AT_ONCE: Final = 16
"""To begin a call takes some half a millisecond: a thousand at once would be heard nothing of for
half a second."""


class StartThrottle:
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
            # call_soon runs behind what is ready in this turn, so what was heard meanwhile is
            # handled first
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
