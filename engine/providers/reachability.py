"""Whether hosts can be reached: when none can, calls wait and one of them probes it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from engine.providers.attempts import Cause
from engine.providers.http.transport import Fault, HostPort

Probe = Callable[[HostPort], Awaitable[bool]]

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
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one that does it, for all who wait."""

    @property
    def has_worked(self) -> bool:
        return self.worked_at > -math.inf


class Reachability:
    """What is known of every host that is called."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        probe: Probe,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._probe = probe
        self._hosts: dict[tuple[str, int], _Host] = {}
        self._down: HostPort | None = None
        """Where it showed that the network is down: when that answers, it is back."""

    def worked(self, host_port: HostPort) -> None:
        """A response came from there, whatever it said: there is a network, and the host exists."""
        known = self._of(host_port)
        known.worked_at, known.strikes, known.gone = self._clock(), 0, False
        if not host_port.local:
            self._down = None

    def failed(self, host_port: HostPort, cause: Cause | Fault) -> int:
        """Take note of a connection that did not come about; gives how many it were in a row."""
        known = self._of(host_port)
        if not known.strikes:
            known.first_strike_at = self._clock()
        known.strikes += 1
        # a network that carries others is not down, whatever this host's failure looks like
        others_work = any(host.worked_at > known.first_strike_at for host in self._hosts.values())
        # a host that was found before and is unknown now: nobody resolves names any more
        network = cause is Fault.NETWORK or (cause is Fault.UNKNOWN_HOST and known.has_worked)
        if network and not host_port.local and not others_work:
            if known.strikes >= STRIKES_NETWORK and self._down is None:
                self._down = host_port
        elif known.has_worked and known.strikes >= STRIKES_HOST:
            known.gone = True
        return known.strikes

    def has_worked(self, host_port: HostPort) -> bool:
        return self._of(host_port).has_worked

    def trouble(self, host_port: HostPort) -> str | None:
        """Why calls to this host wait, in words; None where they do not."""
        if self._down is not None and not host_port.local:
            return "network down, probing"
        return f"{host_port.host} does not answer, probing" if self._of(host_port).gone else None

    async def wait(self, host_port: HostPort, *, longest_s: float) -> bool:
        """Until the host can be reached; False where it could not for so long."""
        deadline = self._clock() + longest_s
        while self.trouble(host_port) is not None:
            # one host is asked for all that wait: a thousand calls would be a thousand probes
            witness = host_port if self._down is None or host_port.local else self._down
            async with self._of(witness).probing:
                if not await self._probe_until(witness, host_port, deadline):
                    return False
        return True

    async def _probe_until(self, witness: HostPort, host_port: HostPort, deadline: float) -> bool:
        pause = 1.0
        while self.trouble(host_port) is not None:
            if self._clock() >= deadline:
                return False
            await self._sleep(pause)
            if await self._probe(witness):
                self._answered(witness)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return True

    def _answered(self, host_port: HostPort) -> None:
        known = self._of(host_port)
        known.strikes, known.gone = 0, False
        if self._down == host_port:
            self._down = None

    def _of(self, host_port: HostPort) -> _Host:
        return self._hosts.setdefault((host_port.host, host_port.port), _Host())
