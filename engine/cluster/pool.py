"""The engine's side: holds the agents, chooses one for each request, and notices lost ones."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from engine.cluster.wire import (
    WIRE_VERSION,
    AgentHello,
    AgentReport,
    CallChanges,
    CallNews,
    CallOutcome,
    Greeting,
    WireError,
    decoded,
    encoded,
    own_version,
)
from engine.display import plural
from engine.errors import CrosswindError
from engine.link import AgentStatus
from engine.providers.accounts import NoVariableError, RemoteRequest, RequestDestination, SayWaiting
from engine.providers.exchange import CallResult
from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import HostPort

RATE_S: Final = 10.0
"""The window for calls per second."""
GATHER_S: Final = 0.02
"""How long a request waits for others that go to the same agent: each message costs half as much as
a call, and a reply takes seconds."""
# 2,000 calls a second during the window, more than the one core of an agent can make
MOST_COUNTED: Final = 20_000
MOST_NOTES: Final = 20
"""The most lost agents that warnings name; the board shows who is there."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AgentTimes:
    """Time limits, in seconds."""

    silent: float = 10.0
    """An agent without an answer for this long is lost."""
    lease: float = 30.0
    """An agent that is not asked for this long cancels its calls."""
    grace: float = 2.0
    """How long calls wait silently without any agent: one may be about to arrive."""

    @property
    def poll(self) -> float:
        """The longest that an agent is asked to delay an answer."""
        return min(self.silent, self.lease) / 4


class AgentLostError(CrosswindError):
    """An agent can no longer be reached."""


class AgentHandle(Protocol):
    """One agent, as an adapter reaches it. All methods but `close` may raise `AgentLostError`."""

    @property
    def name(self) -> str: ...

    async def hello(self, greeting: bytes) -> bytes: ...

    async def submit(self, batch: bytes) -> None: ...

    async def events(self, wait_s: float) -> bytes: ...

    async def close(self) -> None:
        """End the agent, if it is still there; returns soon in any case."""
        ...


class AgentSource(Protocol):
    """Where agents come from."""

    root: str | None
    """The workspace, if the agents run on this machine."""

    def arriving(self) -> AsyncIterator[AgentHandle]:
        """Yield agents as they appear. After its handle was closed, an agent whose process still
        runs is yielded again."""
        ...

    @property
    def advice(self) -> str:
        """What a person should know and do if no agent arrives."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _SentRequest:
    """A request that was given to an agent."""

    result: CallResult
    accepted: Callable[[], None]
    over: asyncio.Future[CallOutcome | None]
    """Its result; None if the agent was lost."""


@dataclass(slots=True, eq=False)
class _PooledAgent:
    """A connected agent."""

    handle: AgentHandle
    hello: AgentHello
    heard_at: float
    calls: dict[int, _SentRequest] = field(default_factory=dict)
    probes: dict[int, asyncio.Future[bool]] = field(default_factory=dict)
    begin: dict[int, RemoteRequest] = field(default_factory=dict)
    ask: dict[int, HostPort] = field(default_factory=dict)
    cancel: list[int] = field(default_factory=list)
    told: set[str] = field(default_factory=set)
    """The names of variables that it was given."""
    lacks: dict[str, str] = field(default_factory=dict)
    """Variables that it does not have, with its message about each."""
    to_send: asyncio.Event = field(default_factory=asyncio.Event)
    taken: int = 0
    """The number of reserved slots."""
    ended: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_COUNTED))

    @property
    def free_slots(self) -> int:
        return self.hello.capacity - self.taken

    def status(self, now: float) -> AgentStatus:
        lately = sum(1 for at in list(self.ended) if now - at < RATE_S)
        return AgentStatus(
            self.handle.name,
            self.hello.host,
            len(self.calls),
            self.hello.capacity,
            round(lately / RATE_S, 1),
            round(max(0.0, now - self.heard_at), 1),
        )

    def take(self, report: AgentReport, now: float) -> None:
        self.heard_at = now
        for number, news in report.calls.items():
            sent = self.calls.get(number)
            if sent is not None:  # otherwise it was cancelled, or is being made elsewhere
                _pass_on(news, sent)
                if news.outcome is not None:
                    self.ended.append(now)
        for number, answers in report.probes.items():
            probe = self.probes.pop(number, None)
            if probe is not None and not probe.done():
                probe.set_result(answers)

    def mark_lost(self) -> None:
        """Tell everybody who waits for this agent that it was lost."""
        for sent in self.calls.values():
            if not sent.over.done():
                sent.over.set_result(None)
        for probe in self.probes.values():
            if not probe.done():
                probe.set_result(False)


def _pass_on(news: CallNews, sent: _SentRequest) -> None:
    reply = sent.result.reply
    if news.accepted:
        sent.accepted()
    if news.voided:
        reply.discard()
    if news.text:
        reply.pass_on(news.text)
    if news.outcome is not None and not sent.over.done():
        sent.over.set_result(news.outcome)


def _fill(result: CallResult, outcome: CallOutcome, began: float) -> None:
    parser = result.parser
    result.failure = outcome.failure
    result.status, result.request_id = outcome.status, outcome.request_id
    result.route, result.session = outcome.route, outcome.session
    parser.finish, parser.tokens, parser.provider = outcome.finish, outcome.tokens, outcome.provider
    parser.oddity, parser.unexplained = outcome.oddity, outcome.unexplained
    parser.thoughts = [] if outcome.reasoning is None else [outcome.reasoning]
    parser.named.models = list(outcome.named)
    if outcome.first_token_s is not None:
        # by the agent's own clock: the clocks of two machines are never compared
        result.reply.first_token_at = began + outcome.first_token_s


@dataclass(frozen=True, slots=True)
class _Slot:
    """An `AgentSlot`."""

    pool: AgentPool
    agent: _PooledAgent

    async def exchange(
        self, request: RemoteRequest, result: CallResult, accepted: Callable[[], None]
    ) -> None:
        agent, number = self.agent, self.pool.next_number()
        over: asyncio.Future[CallOutcome | None] = asyncio.get_running_loop().create_future()
        began = result.reply.clock()
        if not self.pool.has(agent):
            over.set_result(None)
        agent.calls[number] = _SentRequest(result, accepted, over)
        agent.begin[number] = request
        agent.to_send.set()
        try:
            outcome = await over
        except asyncio.CancelledError:
            if agent.begin.pop(number, None) is None:
                agent.cancel.append(number)
                agent.to_send.set()
            raise
        finally:
            del agent.calls[number]
        if outcome is None:
            result.failure = Failure(Cause.AGENT_LOST, agent.handle.name)
        elif outcome.lacks:
            # nothing was sent: another agent may have the variable
            agent.lacks.update(dict.fromkeys(outcome.lacks, outcome.why))
            result.failure = Failure(Cause.AGENT_UNFIT, outcome.why)
        else:
            _fill(result, outcome, began)


class AgentPool:
    """An `Agents`. Belongs to one event loop, except for `status` and `problem`.

    An agent never has more calls than its capacity; further callers wait here, so nothing queues at
    an agent. An agent that is silent for too long is lost: its calls fail as such, and later
    reports are ignored.
    """

    def __init__(
        self,
        source: AgentSource,
        values: Mapping[str, str],
        *,
        times: AgentTimes | None = None,
        on_note: Callable[[str], None],
        on_waiting: Callable[[str | None], None],
    ) -> None:
        """`values` are variables that agents are given in addition to their own. `on_note` receives
        warnings for a person; `on_waiting` why there is no agent, and None once there is one."""
        self._values = values
        self._source = source
        self._times = times or AgentTimes()
        self._on_note = on_note
        self._on_waiting = on_waiting
        self._agents: list[_PooledAgent] = []
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[frozenset[str], asyncio.Future[_PooledAgent]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: dict[str, str] = {}
        self._silence: asyncio.TimerHandle | None = None
        self._arrivals: asyncio.TimerHandle | None = None
        """Set for a while after an agent arrived, since others may be about to."""
        self._greeted_now = 0
        """Agents whose answer to the greeting is awaited."""
        self._said_waiting: str | None = None
        self._notes = 0

    # Lifetime and status

    def start(self) -> None:
        """Begin to look for agents."""
        self._start_task(self._receive())
        self._report_whether_any()

    async def close(self) -> None:
        """Close every agent; calls in flight are cut off."""
        if self._silence is not None:
            self._silence.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._arrivals is not None:
            self._arrivals.cancel()
        agents, self._agents = self._agents, []
        for agent in agents:
            agent.mark_lost()
        await asyncio.gather(*(self._close_agent(agent.handle) for agent in agents))
        await self._source.close()

    def status(self) -> tuple[AgentStatus, ...]:
        """The status of every agent, sorted by name. From any thread."""
        now = time.monotonic()
        return tuple(
            sorted(
                (agent.status(now) for agent in list(self._agents)), key=lambda status: status.name
            )
        )

    @property
    def problem(self) -> str:
        """What is missing if there is no agent, and what to do."""
        refused = [f"{name} is refused: {why}" for name, why in self._refused.items()]
        return "; ".join(["waiting for workers", *refused, self._source.advice])

    # For calls

    @asynccontextmanager
    async def slot(
        self, destination: RequestDestination, say_waiting: SayWaiting
    ) -> AsyncIterator[_Slot]:
        """As `Agents`."""
        agent = await self._choose_agent(frozenset(destination.variables), say_waiting)
        try:
            yield _Slot(self, agent)
        finally:
            agent.taken -= 1
            self._hand_out()

    async def probe(self, host_port: HostPort) -> bool:
        """As `Agents`."""
        if not self._agents:
            return False
        agent, number = max(self._agents, key=lambda agent: agent.free_slots), self.next_number()
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        agent.probes[number], agent.ask[number] = answer, host_port
        agent.to_send.set()
        return await answer

    def next_number(self) -> int:
        """A number that no other request of this engine has."""
        return next(self._numbers)

    def has(self, agent: _PooledAgent) -> bool:
        return agent in self._agents

    async def _choose_agent(self, names: frozenset[str], say_waiting: SayWaiting) -> _PooledAgent:
        """Reserve a slot of an agent, waiting for one. Raises `NoVariableError`."""
        if not self._waiting and (agent := self._agent_with_room(names)) is not None:
            agent.taken += 1
            return agent
        chosen: asyncio.Future[_PooledAgent] = asyncio.get_running_loop().create_future()
        waiting = (names, chosen)
        self._waiting.append(waiting)
        self._hand_out()
        try:
            with say_waiting(self._waited_for(names)):
                return await chosen
        except asyncio.CancelledError:
            if chosen.done() and not chosen.cancelled() and chosen.exception() is None:
                chosen.result().taken -= 1
                self._hand_out()
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def _agent_with_room(self, names: frozenset[str]) -> _PooledAgent | None:
        """The agent with the most free slots among those that have the variables; None where those
        are full, or may be about to arrive.

        Raises `NoVariableError` if there are agents, but none has the variables.
        """
        fit = [agent for agent in self._agents if not names & agent.lacks.keys()]
        if self._agents and not fit and not self._may_arrive:
            lacking = {
                agent.lacks[name] for agent in self._agents for name in names & agent.lacks.keys()
            }
            raise NoVariableError("; ".join(sorted(lacking)[:3]))
        best = max(fit, key=lambda agent: agent.free_slots, default=None)
        return best if best is not None and best.free_slots > 0 else None

    @property
    def _may_arrive(self) -> bool:
        return self._greeted_now > 0 or self._arrivals is not None

    def _waited_for(self, names: frozenset[str]) -> str:
        if not self._agents:
            return "waiting for workers"
        if all(names & agent.lacks.keys() for agent in self._agents):
            return "waiting for a worker that has the variables"
        places = plural(sum(agent.hello.capacity for agent in self._agents), "place")
        return f"all {places} of workers are taken"

    def _hand_out(self) -> None:
        """Give free slots to those that have waited longest."""
        for names, chosen in list(self._waiting):
            if all(agent.free_slots <= 0 for agent in self._agents):
                return  # otherwise each call that ends would scan the whole queue
            if chosen.done():
                continue
            try:
                agent = self._agent_with_room(names)
            except NoVariableError as error:
                chosen.set_exception(error)
                continue
            if agent is not None:
                agent.taken += 1
                chosen.set_result(agent)

    # Agents that arrive and leave

    async def _receive(self) -> None:
        async for handle in self._source.arriving():
            self._start_task(self._serve_agent(handle))

    async def _serve_agent(self, handle: AgentHandle) -> None:
        """Serve one agent from its greeting to its end."""
        self._greeted_now += 1
        try:
            hello = await self._hello_of(handle)
        except AgentLostError:
            await self._close_agent(handle)
            return
        except CrosswindError as error:
            # its handle stays open, so that the source does not offer it again
            self._refuse(handle.name, str(error))
            return
        finally:
            self._greeted_now -= 1
            self._await_others()
        if hello.fault() is not None:
            self._refuse(handle.name, hello.fault() or "")
            return
        agent = _PooledAgent(handle, hello, time.monotonic())
        self._refused.pop(handle.name, None)
        self._agents.append(agent)
        self._report_whether_any()
        self._hand_out()
        at_work = {self._start_task(self._send(agent)), self._start_task(self._listen(agent))}
        try:
            await asyncio.wait(at_work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in at_work:
                task.cancel()
        self._drop_agent(agent)
        await self._close_agent(handle)

    def _await_others(self) -> None:
        """For `AgentTimes.grace`, calls that no present agent can make wait for another one."""
        if self._arrivals is not None:
            self._arrivals.cancel()
        loop = asyncio.get_running_loop()
        self._arrivals = loop.call_later(self._times.grace, self._await_no_others)

    def _await_no_others(self) -> None:
        self._arrivals = None
        self._hand_out()

    def _drop_agent(self, agent: _PooledAgent) -> None:
        self._agents.remove(agent)
        if self._notes < MOST_NOTES:
            self._notes += 1
            calls = plural(len(agent.calls), "call")
            self._on_note(f"the worker {agent.handle.name} was lost, with {calls} to make again")
        agent.mark_lost()
        self._report_whether_any()

    async def _hello_of(self, handle: AgentHandle) -> AgentHello:
        greeting = Greeting(WIRE_VERSION, own_version(), self._times.lease, self._source.root)
        return decoded(await self._answered(handle.hello(encoded(greeting))), AgentHello)

    def _refuse(self, name: str, why: str) -> None:
        if self._refused.get(name) != why:
            self._refused[name] = why
            self._on_note(f"the worker {name} is not used: {why}")

    async def _listen(self, agent: _PooledAgent) -> None:
        """Process its reports until it is lost."""
        with suppress(AgentLostError, WireError):
            while True:
                raw = await self._answered(agent.handle.events(self._times.poll))
                report = decoded(raw, AgentReport)
                if report.lapsed:
                    return
                agent.take(report, time.monotonic())

    async def _send(self, agent: _PooledAgent) -> None:
        """Send batches: requests within `GATHER_S`, or during a send, go together."""
        with suppress(AgentLostError):
            while True:
                await agent.to_send.wait()
                await asyncio.sleep(GATHER_S)
                agent.to_send.clear()
                values = {
                    name: value for name, value in self._values.items() if name not in agent.told
                }
                batch = CallChanges(agent.begin, agent.ask, tuple(agent.cancel), values)
                agent.begin, agent.ask, agent.cancel = {}, {}, []
                await self._answered(agent.handle.submit(encoded(batch)))
                agent.told.update(values)

    async def _answered(self, answer: Awaitable[T]) -> T:
        """Await an answer. Raises `AgentLostError`, also after `AgentTimes.silent` seconds."""
        try:
            async with asyncio.timeout(self._times.silent):
                return await answer
        except TimeoutError:
            words = f"no answer for {self._times.silent:g} s"
            raise AgentLostError(words) from None

    async def _close_agent(self, handle: AgentHandle) -> None:
        with suppress(AgentLostError):
            await self._answered(handle.close())

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _report_whether_any(self) -> None:
        """Report that there is no agent after `AgentTimes.grace`, and when there is one."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if not self._agents:
            loop = asyncio.get_running_loop()
            self._silence = loop.call_later(self._times.grace, self._say_waiting)
        elif self._said_waiting is not None:
            self._said_waiting = None
            self._on_waiting(None)

    def _say_waiting(self) -> None:
        """Report why there is no agent, and keep checking, to report when the reason changes."""
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(self._times.grace, self._say_waiting)
        if self._said_waiting != self.problem:
            self._said_waiting = self.problem
            self._on_waiting(self.problem)
