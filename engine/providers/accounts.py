"""What all calls with the same key share: connections, limits, parked models, the reachability of
hosts, and a clock that tests can replace."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final, Protocol

from engine.errors import CrosswindError, StopRequested
from engine.providers.capabilities import CapabilityMemory
from engine.providers.endpoint import Application, Wire, address
from engine.providers.exchange import CallResult
from engine.providers.failures import Cause
from engine.providers.http.transport import Address, HostPort, Transport
from engine.providers.limiter import MOST, Cooldown, Limiter, StartThrottle
from engine.providers.pricing import Prices
from engine.providers.protocols.base import ChatRequest
from engine.providers.retry import ModelHistory, RetryPolicy


class NoVariableError(CrosswindError):
    """No worker has the variables that a request needs. Names them and their place, no values."""


@dataclass(frozen=True, slots=True)
class RequestDestination:
    """Where a request goes, with every `${NAME}` unexpanded: the worker looks them up."""

    wire: Wire
    url: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    variables: tuple[str, ...] = ()
    """All variables that are named here and in the body."""
    application: Application | None = None


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """One attempt of a call."""

    destination: RequestDestination
    ask: ChatRequest
    """Its `extra_body` is unexpanded, too."""
    retry_policy: RetryPolicy
    """For its deadlines."""


class AgentSlot(Protocol):
    """Permission to send one request from one worker."""

    async def exchange(
        self, request: RemoteRequest, result: CallResult, accepted: Callable[[], None]
    ) -> None:
        """As `exchange.exchange`. If the worker is lost, the failure's cause is `AGENT_LOST`.
        Cancelling cuts the request off."""
        ...


SayWaiting = Callable[[str], AbstractContextManager[None]]
"""Shows what a call waits for while the block runs."""


class Agents(Protocol):
    """Assigns requests to workers. Belongs to one event loop."""

    def slot(
        self, destination: RequestDestination, say_waiting: SayWaiting
    ) -> AbstractAsyncContextManager[AgentSlot]:
        """Wait until a worker has room, while `say_waiting` shows why. Raises `NoVariableError`."""
        ...

    async def probe(self, host_port: HostPort) -> bool:
        """Whether anything accepts a connection there, as seen from a worker."""
        ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and randomness for retries."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds from an arbitrary start."""
    now: Callable[[], datetime] = _utc_now
    """The time in UTC, aware; for dates that servers send."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = field(default_factory=lambda: random.Random().random)
    """A number from 0 up to, but not including, 1."""


Probe = Callable[[HostPort], Awaitable[bool]]

STRIKES_NETWORK: Final = 2
STRIKES_HOST: Final = 3
"""Consecutive failures to connect, after which the network to a host, or the host, is down."""
# also how late it may be noticed that it is back
LONGEST_PAUSE_S: Final = 15.0


@dataclass(slots=True)
class _HostState:
    has_worked: bool = False
    strikes: int = 0
    down: str | None = None
    """Why calls to it wait."""
    probing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the call that probes the host for all that wait."""


class Reachability:
    """Which of the called hosts can be reached."""

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
        self._hosts: dict[tuple[str, int], _HostState] = {}

    def mark_reached(self, host_port: HostPort) -> None:
        """Note any response from a host."""
        known = self._host_state(host_port)
        known.has_worked, known.strikes, known.down = True, 0, None

    def failed(self, host_port: HostPort, cause: Cause) -> None:
        """Note a failed connection."""
        known = self._host_state(host_port)
        known.strikes += 1
        # a name that was resolved before and is unknown now: name resolution is down
        network = cause is Cause.NETWORK or (cause is Cause.UNKNOWN_HOST and known.has_worked)
        if network and known.strikes >= STRIKES_NETWORK:
            known.down = "network down, probing"
        elif known.has_worked and known.strikes >= STRIKES_HOST:
            known.down = f"{host_port.host} does not answer, probing"

    def has_worked(self, host_port: HostPort) -> bool:
        return self._host_state(host_port).has_worked

    def waiting_reason(self, host_port: HostPort) -> str | None:
        """Say why calls to this host wait; None if they do not."""
        return self._host_state(host_port).down

    async def wait(self, host_port: HostPort, *, longest_s: float) -> bool:
        """Wait until the host can be reached; return False if it cannot for `longest_s` seconds."""
        known, deadline, pause = self._host_state(host_port), self._clock() + longest_s, 1.0
        if known.down is None:
            return True
        # one probe for all that wait: a thousand calls would be a thousand probes
        async with known.probing:
            while known.down is not None:
                if self._clock() >= deadline:
                    return False
                await self._sleep(pause)
                if await self._probe(host_port):
                    known.strikes, known.down = 0, None
                pause = min(2 * pause, LONGEST_PAUSE_S)
        return True

    def _host_state(self, host_port: HostPort) -> _HostState:
        return self._hosts.setdefault((host_port.host, host_port.port), _HostState())


class StoppableWaits:
    """Waits of calls of which no request is in flight, which a stop ends. Belongs to one event
    loop."""

    def __init__(self) -> None:
        self._scopes: dict[asyncio.Timeout, asyncio.Task[Any] | None] = {}
        self._stopped = False

    def tasks(self) -> set[asyncio.Task[Any] | None]:
        """The tasks that wait. Callable from any thread."""
        return set(self._scopes.values())

    def stop(self) -> None:
        """End all waits, and each later one as it begins. Call this on the event loop."""
        if not self._stopped:
            self._stopped = True
            for scope in self._scopes:
                scope.reschedule(-math.inf)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """A block that only waits. Raises `StopRequested` at a stop."""
        if self._stopped:
            raise StopRequested
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes[scope] = asyncio.current_task()
                try:
                    yield
                finally:
                    del self._scopes[scope]
        except TimeoutError:
            if scope.expired():
                raise StopRequested from None
            raise


OpenTransport = Callable[[Address], Transport]
NEW_OBJECTS: Final = 10_000
"""New objects between two runs of the garbage collector. A call makes hundreds, nearly all of which
are freed without it."""


FILTERED_IN_A_ROW: Final = 10
"""Conversations of which a model's filter withholds a reply, and of no other between, after which
it is parked: the account may be blocked, which only a person can know."""


@dataclass(frozen=True, slots=True)
class Parking:
    """Why every call to a model would fail for now."""

    words: str
    until: float = math.inf
    """By the monotonic clock; infinite if a person has to do something."""
    by_filter: bool = False
    """Whether only the provider's filter is the reason."""


@dataclass(slots=True)
class ModelState:
    """What all calls of an account to one model share."""

    limiter: Limiter
    parking: Parking | None = None
    history: ModelHistory = field(default_factory=ModelHistory)
    filtered: set[object] = field(default_factory=set)
    """Conversations of which its filter has withheld a reply since the last that it let through.
    Several replies of one conversation are one: what it flags stays in the transcript."""
    filter_expected: bool = False
    """Whether a person has said to go on though its filter withholds replies."""
    noted: set[str] = field(default_factory=set)
    """What was noted of how it answers."""
    explains: bool = False
    """Whether it gives a reason for the end of a reply."""
    doubts: int = 0
    """How often in a row a guess about it has helped."""
    helped: int = 0
    """How often asking for JSON in the prompt helped after it had ignored the schema."""
    not_helped: int = 0
    """If more often than it helped, it writes prose however it is asked."""


@dataclass(slots=True)
class Account:
    """One key at one address. Limits are measured for each model separately, as providers and
    gateways limit them so; if models do share a limit, they settle within it, as TCP connections on
    one line do."""

    transport: Transport
    clock: Clock
    most_at_once: int
    """The most requests of a model in flight, whatever the server accepts."""
    cooldown: Cooldown
    """Closed while the server asks for no requests at all, whatever the model."""
    ask_slots: Callable[[], int | None] | None = None
    """Asks how many replies the server writes at once; None if that was asked, or is known."""
    models: dict[str, ModelState] = field(default_factory=dict)

    def model(self, name: str) -> ModelState:
        """Return what all calls of this account to a model share."""
        if name not in self.models:
            monotonic, sleep = self.clock.monotonic, self.clock.sleep
            limiter = Limiter(monotonic, sleep, self.cooldown, most=self.most_at_once)
            self.models[name] = ModelState(limiter)
        return self.models[name]

    def parked_words(self, model: str) -> str | None:
        """Return why every call to a model would fail now; None if that is not so."""
        state = self.model(model)
        if state.parking is not None and self.clock.monotonic() >= state.parking.until:
            state.parking = None
        return None if state.parking is None else state.parking.words

    def unpark(self, model: str) -> None:
        """Allow calls again, after a person said that the reason is gone."""
        state = self.model(model)
        if state.parking is not None:
            state.filter_expected |= state.parking.by_filter
            state.parking = None

    async def learn_slots(self, server: str) -> None:
        """After a first answer, ask a server that says it: what waits there, waits with the time to
        its first word running."""
        if self.ask_slots is None or not server.startswith(_SAYS_SLOTS):
            return
        ask, self.ask_slots = self.ask_slots, None
        if (slots := await asyncio.to_thread(ask)) is not None:
            self.most_at_once = min(self.most_at_once, slots)
            for state in self.models.values():
                state.limiter.window.at_most(self.most_at_once)


_SAYS_SLOTS: Final = "llama.cpp"


def llama_slots(where: Address) -> int | None:
    """Ask llama.cpp's server at an address for its slots; None if it does not say."""
    import httpx  # imported here, as few runs need it

    headers = {"Authorization": where.headers.get("Authorization", "")}
    try:
        url = f"{HostPort.of(where.url).url}/props"
        told = httpx.get(url, headers=headers, timeout=_SLOTS_S, trust_env=False).json()
        slots = told.get("total_slots")
    except (httpx.HTTPError, ValueError, AttributeError):
        return None
    return slots if type(slots) is int and slots > 0 else None


_SLOTS_S: Final = 5.0


@cache
def _tune_garbage_collector() -> None:
    """Exclude imported objects from garbage collection, and run it less often: walking through all
    of them would block the event loop for a tenth of a second, several times a minute."""
    gc.collect()
    # collected first, or garbage of the imports would be kept for ever
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def _open_transport(where: Address) -> Transport:
    # imported here, as a run on scripted models does not need it (16 ms, and 34 ms for `address`)
    from engine.providers.http.pool import open_transport

    return open_transport(where)


async def _probe(host_port: HostPort) -> bool:
    from engine.providers.http.pool import ConnectionPool  # as above

    return await ConnectionPool.accepts_connection(host_port)


async def _reaches_itself(host_port: HostPort) -> bool:
    del host_port
    return True


class Accounts:
    """Opens each account once. Belongs to one event loop; close it there."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        retry_policy: RetryPolicy | None = None,
        memory: CapabilityMemory | None = None,
        open_transport: OpenTransport = _open_transport,
        probe: Probe = _probe,
        agents: Agents | None = None,
        most_at_once: int = MOST,
    ) -> None:
        """`agents` send the requests instead of this process."""
        self.most_at_once = most_at_once
        self.clock = clock or Clock()
        self.retry_policy = retry_policy or RetryPolicy()
        self.memory = memory or CapabilityMemory()
        self.prices = Prices()
        self.throttle = StartThrottle()
        self.stoppable = StoppableWaits()
        self.reachability = Reachability(
            clock=self.clock.monotonic,
            sleep=self.clock.sleep,
            probe=probe if agents is None else agents.probe,
        )
        self.agents = agents
        self._open_transport = open_transport
        self._open: dict[tuple[Wire, str, bytes, bool], Account] = {}
        self._opening = asyncio.Lock()
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def account(
        self,
        wire: Wire,
        base_url: str,
        key: str,
        *,
        follow_redirects: bool = False,
        slots: int | None = None,
    ) -> Account:
        """Return the account of a key, which must have been checked; `slots` are those of its
        server, where they are known."""
        # by a digest, so that no table is keyed with keys
        name = (
            wire,
            base_url,
            hashlib.blake2b(key.encode(), digest_size=16).digest(),
            follow_redirects,
        )
        known = self._open.get(name)
        if known is not None:
            return known
        # checked again inside: of a thousand calls without an account only one opens it
        async with self._opening:
            if name not in self._open:
                where = await asyncio.to_thread(
                    self._prepare, wire, base_url, key, follow_redirects=follow_redirects
                )
                cooldown = Cooldown(self.clock.monotonic)
                most = min(self.most_at_once, slots or MOST)
                ask_slots = None if slots else partial(llama_slots, where)
                transport = self._open_transport(where)
                self._open[name] = Account(transport, self.clock, most, cooldown, ask_slots)
            return self._open[name]

    def _prepare(self, wire: Wire, base_url: str, key: str, *, follow_redirects: bool) -> Address:
        """Do what is slow the first time because of its imports; runs on a thread."""
        self.prices.load()
        result = address(wire, base_url, key, follow_redirects=follow_redirects)
        _tune_garbage_collector()
        return result

    def at(self, wire: Wire, base_url: str) -> list[Account]:
        """Return the open accounts at this address."""
        # copied, as other threads call this while the loop opens accounts
        return [
            account
            for (at_wire, at_url, *_), account in list(self._open.items())
            if (at_wire, at_url) == (wire, base_url)
        ]

    async def close(self) -> None:
        """Close all connections. Calls in progress fail; a later call opens its account again."""
        accounts = list(self._open.values())
        self._open.clear()
        for account in accounts:
            await account.transport.close()
        for close in self._closing:
            await close()

    def of_own_server(
        self, open_server: Callable[[Address, OpenTransport], Transport], most_at_once: int
    ) -> Accounts:
        """Return accounts for a server that this process starts itself, which never counts as
        unreachable and which no worker can reach. They are closed with these."""
        own = Accounts(
            clock=self.clock,
            retry_policy=self.retry_policy,
            memory=self.memory,
            open_transport=lambda address: open_server(address, self._open_transport),
            probe=_reaches_itself,
            most_at_once=most_at_once,
        )
        own.prices, own.stoppable = self.prices, self.stoppable
        self.close_later(own.close)
        return own

    def close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close something else of the same loop together with the connections."""
        self._closing.append(close)
