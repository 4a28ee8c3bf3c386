"""Whether hosts can be reached: when none can, calls wait and one of them knocks."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from engine.providers.attempts import Cause
from engine.providers.http.base import Door

Knock = Callable[[Door], Awaitable[bool]]

STRIKES_NETWORK: Final = 2
STRIKES_HOST: Final = 3
"""Failures to connect in a row, with no success between, that a host counts as gone after."""
LONGEST_PAUSE_S: Final = 15.0


@dataclass(slots=True)
class _Host:
    worked_at: float = -math.inf
    strikes: int = 0
    first_strike_at: float = math.inf
    gone: bool = False
    knocking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one that does it, for all who wait."""

    @property
    def has_worked(self) -> bool:
        return self.worked_at > -math.inf


class Reach:
    """What is known of every host that is called."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        knock: Knock,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._knock = knock
        self._hosts: dict[tuple[str, int], _Host] = {}
        self._down: Door | None = None
        """Where it showed that the network is down: when that answers, it is back."""

    def worked(self, door: Door) -> None:
        known = self._of(door)
        known.worked_at, known.strikes, known.gone = self._clock(), 0, False
        if not door.local:
            self._down = None

    def failed(self, door: Door, cause: Cause) -> int:
        """Take note of a connection that did not come about; gives how many it were in a row."""
        known = self._of(door)
        if not known.strikes:
            known.first_strike_at = self._clock()
        known.strikes += 1
        others_work = any(host.worked_at > known.first_strike_at for host in self._hosts.values())
        # a host that was found before and is unknown now: nobody resolves names any more
        network = cause is Cause.NETWORK or (cause is Cause.UNKNOWN_HOST and known.has_worked)
        if network and not door.local and not others_work:
            if known.strikes >= STRIKES_NETWORK and self._down is None:
                self._down = door
        elif known.has_worked and known.strikes >= STRIKES_HOST:
            known.gone = True
        return known.strikes

    def has_worked(self, door: Door) -> bool:
        return self._of(door).has_worked

    def trouble(self, door: Door) -> str | None:
        """Why calls to this host wait, in words; None where they do not."""
        if self._down is not None and not door.local:
            return "network down, probing"
        return f"{door.host} does not answer, probing" if self._of(door).gone else None

    async def wait(self, door: Door, *, longest_s: float) -> bool:
        """Until the host can be reached; False where it could not for so long."""
        deadline = self._clock() + longest_s
        while self.trouble(door) is not None:
            witness = door if self._down is None or door.local else self._down
            async with self._of(witness).knocking:
                if not await self._knock_until(witness, door, deadline):
                    return False
        return True

    async def _knock_until(self, witness: Door, door: Door, deadline: float) -> bool:
        pause = 1.0
        while self.trouble(door) is not None:
            if self._clock() >= deadline:
                return False
            await self._sleep(pause)
            if await self._knock(witness):
                self._answered(witness)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return True

    def _answered(self, door: Door) -> None:
        known = self._of(door)
        known.strikes, known.gone = 0, False
        if self._down == door:
            self._down = None

    def _of(self, door: Door) -> _Host:
        return self._hosts.setdefault((door.host, door.port), _Host())
