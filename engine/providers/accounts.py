"""Everything that calls with the same key share: connections, limits, what is refused, whether
hosts can be reached, and the clock, which comes in from outside so that a test can hold it."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from engine.providers.agents import Agents
from engine.providers.capabilities import CapabilityMemory, InMemoryCapabilities
from engine.providers.endpoint import Wire, address
from engine.providers.http.transport import Address, HostPort, Transport
from engine.providers.limiter import Cooldown, Limiter, StartThrottle
from engine.providers.pricing import Prices
from engine.providers.retry import RetryPolicy

if TYPE_CHECKING:
    from engine.providers.http.pool import ConnectionPool


import math
import random
import time
from datetime import UTC, datetime

from engine.providers.attempts import Cause
from engine.providers.http.transport import Fault


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, as the retries of this room go by them."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from no particular beginning."""
    now: Callable[[], datetime] = _now
    """Aware, UTC; for dates that servers send."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = field(default_factory=lambda: random.Random().random)
    """From 0 up to 1."""


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
        # since this host first failed: what worked before says nothing of now
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
            # where the network is down the host that showed it is asked, and a server on this
            # machine is asked for itself
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


OpenTransport = Callable[[Address], Transport]
NEW_OBJECTS: Final = 10_000
"""After which the garbage collector looks for circles among them. A call makes hundreds, nearly
all of which go by themselves."""


@dataclass(slots=True)
class JsonFallback:
    """How often asking for JSON in words helped where a server had passed over the form."""

    helped: int = 0
    failed: int = 0
    """More often than it helped: the model writes prose however it is asked."""


@dataclass(slots=True)
class StandingFailure:
    """The one failure that every request to a model has met so far."""

    words: str = ""
    times: int = 0
    since: float = 0.0
    """By the clock."""


@dataclass(slots=True)
class Account:
    """One key at one address. What is let through is found out for each model by itself, as that is
    how providers and gateways limit; where a number is shared after all, the models settle within
    it as connections on one line do."""

    transport: Transport
    clock: Clock
    cooldown: Cooldown
    """Closed while the server asks for no request at all, whatever the model."""
    limiters: dict[str, Limiter] = field(default_factory=dict)
    """By the model's name."""
    parked: dict[str, str] = field(default_factory=dict)
    """Models that every call to would fail for now, and why."""
    unanswered: dict[str, StandingFailure | None] = field(default_factory=dict)
    """By the model's name; None for one that has answered since."""
    doubts: dict[str, int] = field(default_factory=dict)
    """How often in a row a guess about a model has helped, by the model's name."""

    json_fallbacks: dict[str, JsonFallback] = field(default_factory=dict)
    """What came of asking in words where a model answered with no JSON, by the model's name."""

    def limiter(self, model: str) -> Limiter:
        """The one that all calls of this account to a model share."""
        if model not in self.limiters:
            self.limiters[model] = Limiter(self.clock.monotonic, self.clock.sleep, self.cooldown)
        return self.limiters[model]


@cache
def _settle() -> None:
    """Let the garbage collector leave alone what was imported, which never goes, and come less
    often: to walk through all of it would hold up everything that is heard for a tenth of a second,
    several times a minute."""
    gc.collect()
    # collected first, or garbage of the imports would be kept for ever
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def _connection_pool() -> type[ConnectionPool]:
    # 16 ms here and 34 ms for `address`, that a run on scripted models does without
    from engine.providers.http.pool import ConnectionPool

    return ConnectionPool


def _open_transport(where: Address) -> Transport:
    return _connection_pool()(where)


async def _probe(host_port: HostPort) -> bool:
    return await _connection_pool().accepts_connection(host_port)


class Accounts:
    """Opens each account once. Belongs to one event loop; close it there."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        retry_policy: RetryPolicy | None = None,
        memory: CapabilityMemory | None = None,
        prices: Prices | None = None,
        open_transport: OpenTransport = _open_transport,
        probe: Probe = _probe,
        agents: Agents | None = None,
    ) -> None:
        """`agents` make the requests where this process does not."""
        self.clock = clock or Clock()
        self.retry_policy = retry_policy or RetryPolicy()
        self.memory = memory or InMemoryCapabilities()
        self.prices = prices or Prices()
        self.throttle = StartThrottle()
        self.reachability = Reachability(
            clock=self.clock.monotonic,
            sleep=self.clock.sleep,
            probe=probe if agents is None else agents.probe,
        )
        self.agents = agents
        self._open_transport = open_transport
        self._open: dict[tuple[Wire, str, bytes], Account] = {}
        self._opening = asyncio.Lock()
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def account(self, wire: Wire, base_url: str, key: str) -> Account:
        """The account of this key, which has been checked to fit into a header."""
        # by a digest, so that no table anywhere is keyed with keys
        name = (wire, base_url, hashlib.blake2b(key.encode(), digest_size=16).digest())
        known = self._open.get(name)
        if known is not None:
            return known
        # looked at again inside: of a thousand calls that find no account one opens it
        async with self._opening:
            if name not in self._open:
                where = await asyncio.to_thread(self._prepare, wire, base_url, key)
                cooldown = Cooldown(self.clock.monotonic)
                self._open[name] = Account(self._open_transport(where), self.clock, cooldown)
            return self._open[name]

    def _prepare(self, wire: Wire, base_url: str, key: str) -> Address:
        """What takes long the first time, as it imports much; meanwhile others talk."""
        self.prices.load()
        found = address(wire, base_url, key)
        _settle()
        return found

    def at(self, wire: Wire, base_url: str) -> list[Account]:
        """The accounts that are open at this address."""
        # copied first: other threads ask while the loop opens others
        return [
            account
            for (at_wire, at_url, _), account in list(self._open.items())
            if (at_wire, at_url) == (wire, base_url)
        ]

    async def close(self) -> None:
        """Close all connections. Calls in the air fail; a later call opens anew."""
        accounts = list(self._open.values())
        self._open.clear()
        for account in accounts:
            await account.transport.close()
        for close in self._closing:
            await close()

    def close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have something else closed with the connections, that belongs to the same loop."""
        self._closing.append(close)
