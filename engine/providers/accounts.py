"""Everything that calls with the same key share: connections, limits, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from engine.providers.capabilities import CapabilityMemory, InMemoryCapabilities
from engine.providers.clock import Clock
from engine.providers.endpoint import Wire, address
from engine.providers.http.transport import Address, HostPort, Transport
from engine.providers.limiter import Cooldown, Limiter, StartThrottle
from engine.providers.pricing import Prices
from engine.providers.reachability import Probe, Reachability
from engine.providers.retry import RetryPolicy

if TYPE_CHECKING:
    from engine.providers.http.pool import ConnectionPool

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
class Unanswered:
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
    unanswered: dict[str, Unanswered | None] = field(default_factory=dict)
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
    ) -> None:
        self.clock = clock or Clock()
        self.retry_policy = retry_policy or RetryPolicy()
        self.memory = memory or InMemoryCapabilities()
        self.prices = prices or Prices()
        self.throttle = StartThrottle()
        self.reachability = Reachability(
            clock=self.clock.monotonic, sleep=self.clock.sleep, probe=probe
        )
        self._open_transport = open_transport
        self._open: dict[tuple[Wire, str, bytes], Account] = {}
        self._opening = asyncio.Lock()

    async def account(self, wire: Wire, base_url: str, key: str) -> Account:
        """The account of this key, which has been checked to fit into a header."""
        # by a digest, so that no table anywhere is keyed with keys
        name = (wire, base_url, hashlib.blake2b(key.encode(), digest_size=16).digest())
        known = self._open.get(name)
        if known is not None:
            return known
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
        return [
            account
            for (at_wire, at_url, _), account in self._open.items()
            if (at_wire, at_url) == (wire, base_url)
        ]

    async def close(self) -> None:
        """Close all connections. Calls in the air fail; a later call opens anew."""
        accounts = list(self._open.values())
        self._open.clear()
        for account in accounts:
            await account.transport.close()
