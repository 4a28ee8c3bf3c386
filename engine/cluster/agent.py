"""The worker's side: one agent in each worker process. It makes requests on its event loop, and
reports what it heard when the engine asks."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from engine.cluster.wire import (
    WIRE_VERSION,
    AgentHello,
    AgentReport,
    CallChanges,
    CallNews,
    CallOutcome,
    Greeting,
    decoded,
    encoded,
    own_version,
)
from engine.config.secrets import Environment, Secret
from engine.config.values import filled_in
from engine.errors import CrosswindError, InputError
from engine.memory import use_one_heap
from engine.providers.accounts import RemoteRequest
from engine.providers.endpoint import Application, Wire, address, checked_address
from engine.providers.exchange import CallResult, ReplyBuffer, exchange
from engine.providers.failures import Cause, Failure
from engine.providers.http.pool import ConnectionPool, open_transport
from engine.providers.http.transport import HostPort, Transport, most_connections, raise_limit
from engine.providers.protocols.base import ChatRequest, written_body
from engine.providers.real import dialect_of
from engine.providers.redaction import Redactor, secret_parts
from engine.trust import NOWHERE

MOST_AT_ONCE: Final = 500
"""The most concurrent calls of one agent: one core can receive about a thousand streams."""
REPORT_S: Final = 0.05
"""How long what is heard waits for more, to be reported together: each report is as costly as
several words."""
_NOWHERE: Final = Path("/nonexistent")


@dataclass(frozen=True, slots=True, repr=False)
class _ResolvedRequest:
    """A request with its variables looked up. Without a `repr`, because it contains keys."""

    url: str
    key: str
    headers: Mapping[str, str]
    ask: ChatRequest
    redact: Redactor


@dataclass(slots=True)
class _ReportQueue:
    """Collects what is to be reported, and says when."""

    _heard: AgentReport = field(default_factory=AgentReport)
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    def news(self, number: int) -> CallNews:
        """What is to be reported of a call, soon."""
        self._report_within(REPORT_S)
        return self._heard.calls.setdefault(number, CallNews())

    def text(self, number: int, words: str | None) -> None:
        news = self.news(number)
        if words is None:
            news.text, news.voided = "", True
        else:
            news.text += words

    def accepted(self, number: int) -> None:
        self.news(number).accepted = True

    def probed(self, number: int, *, answers: bool) -> None:
        self._heard.probes[number] = answers
        self._report_within(0.0)

    def forget(self, number: int) -> None:
        self._heard.calls.pop(number, None)

    def _report_within(self, seconds: float) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._due.set)

    async def wait_until_due(self, wait_s: float) -> None:
        """Wait until there is something to report, at most `wait_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._due.wait()

    def take_report(self) -> AgentReport:
        """Take all that is to be reported."""
        if self._timer is not None:
            self._timer.cancel()
        report, self._heard, self._timer = self._heard, AgentReport(), None
        self._due.clear()
        return report


class Agent:
    """Makes an engine's requests. Dask creates it on a thread, so nothing in it is bound to an
    event loop before the first coroutine."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._environment = Environment(_NOWHERE, environ)
        self._values: dict[str, str] = {}
        self._root = _NOWHERE
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._transports: dict[tuple[Wire, str, bytes, bool], Transport] = {}
        self._outbox: _ReportQueue | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lease: asyncio.Task[None] | None = None
        self._lease_s = 0.0
        self._asked_at = 0.0
        self._lapsed = False

    async def hello(self, raw: bytes) -> bytes:
        """Answer the engine's greeting and begin an empty report. Raises `CrosswindError` for
        another one: calls and keys of the first engine must not reach the second."""
        greeting = decoded(raw, Greeting)
        if self._outbox is not None:
            raise CrosswindError("it was greeted before")
        raise_limit()
        use_one_heap()
        if greeting.root is not None:
            self._root = Path(greeting.root)
        self._environment = Environment(self._root, {**self._environ, **self._values})
        self._loop, self._outbox = asyncio.get_running_loop(), _ReportQueue()
        self._asked_at, self._lease_s = self._loop.time(), greeting.lease_s
        if self._lease is None:
            self._lease = asyncio.create_task(self._watch_lease())
        capacity = min(MOST_AT_ONCE, most_connections())
        me = AgentHello(WIRE_VERSION, own_version(), _host(), capacity)
        return encoded(me)

    async def submit(self, raw: bytes) -> None:
        """Begin and cancel what the batch says."""
        batch = decoded(raw, CallChanges)
        if batch.values:
            self._values.update(batch.values)
            self._environment = Environment(self._root, {**self._environ, **self._values})
        for number in batch.cancelled:
            self._cut_off(number)
        if self._lapsed or self._outbox is None:
            return
        for number, request in batch.calls.items():
            self._begin(number, self._call(number, request))
        for number, host_port in batch.probes.items():
            self._begin(number, self._probe(number, host_port))

    async def events(self, wait_s: float) -> bytes:
        """Wait up to `wait_s` seconds for news, and report what was heard since the last call."""
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        if self._lapsed or self._outbox is None:
            return encoded(AgentReport(lapsed=True))
        await self._outbox.wait_until_due(wait_s)
        self._asked_at = loop.time()
        return encoded(self._outbox.take_report())

    async def close(self) -> None:
        """Cancel all calls, and wait until every connection is closed."""
        if self._lease is not None:
            self._lease.cancel()
        self._end_when_unpolled()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    def abandon(self) -> None:
        """Cancel all calls, because the engine can no longer reach this agent. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # its loop was closed, and with it everything
                self._loop.call_soon_threadsafe(self._end_when_unpolled)

    async def _watch_lease(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._lapsed:
            await asyncio.sleep(self._lease_s / 4)
            if loop.time() - self._asked_at > self._lease_s:
                self._end_when_unpolled()

    def _end_when_unpolled(self) -> None:
        self._lapsed = True
        for number in list(self._tasks):
            self._cut_off(number)

    def _cut_off(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()
        if self._outbox is not None:
            self._outbox.forget(number)

    def _begin(self, number: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[number] = task

        def over(ended: asyncio.Task[None]) -> None:
            del self._tasks[number]
            if not ended.cancelled() and (bug := ended.exception()) is not None:
                words = f"a bug in Crosswind on {_host()}: {type(bug).__name__}"
                self._ended(number, CallOutcome(Failure(Cause.BROKEN, words)))

        task.add_done_callback(over)

    def _ended(self, number: int, outcome: CallOutcome) -> None:
        if self._outbox is not None and not self._lapsed:
            self._outbox.news(number).outcome = outcome

    async def _probe(self, number: int, host_port: HostPort) -> None:
        answers = await ConnectionPool.accepts_connection(host_port)
        if self._outbox is not None:
            self._outbox.probed(number, answers=answers)

    async def _call(self, number: int, request: RemoteRequest) -> None:
        named = request.destination.variables
        missing = tuple(name for name in named if not self._environment.holds(name))
        if missing:
            words = f"{', '.join(missing)} is not set where the worker on {_host()} runs"
            self._ended(number, CallOutcome(lacks=missing, why=words))
            return
        try:
            filled = self._with_variables(request)
        except InputError as error:
            words = f"on {_host()}: {error}"
            failure = None if named else Failure(Cause.BROKEN, words)
            self._ended(number, CallOutcome(failure, named, words))
            return
        self._ended(number, await self._exchanged(number, request, filled))

    async def _exchanged(
        self, number: int, request: RemoteRequest, filled: _ResolvedRequest
    ) -> CallOutcome:
        outbox, where = self._outbox, request.destination
        assert outbox is not None  # noqa: S101  (created by the greeting)
        dialect = dialect_of(where.wire, where.application)
        transport = await self._transport(where.wire, filled.url, filled.key, where.application)
        reply = ReplyBuffer(lambda words: outbox.text(number, words), time.monotonic)
        result = CallResult(dialect.parser(), reply, meant=filled.ask.means)
        began = time.monotonic()
        await exchange(
            transport,
            {**dialect.headers(filled.ask), **filled.headers},
            written_body(dialect, filled.ask),
            result,
            retry_policy=request.retry_policy,
            now=lambda: datetime.now(UTC),
            accepted=lambda: outbox.accepted(number),
        )
        return _outcome(result, filled.redact, began)

    async def _transport(
        self, wire: Wire, url: str, key: str, application: Application | None
    ) -> Transport:
        follows = application is not None and application.follow_redirects
        name = (wire, url, hashlib.blake2b(key.encode(), digest_size=16).digest(), follows)
        if name not in self._transports:
            # in a thread, because its first call imports much
            where = await asyncio.to_thread(address, wire, url, key, follow_redirects=follows)
            self._transports.setdefault(name, open_transport(where))
        return self._transports[name]

    def _with_variables(self, request: RemoteRequest) -> _ResolvedRequest:
        """Look up the request's variables. Raises `InputError`, which shows no value."""
        where, environment = request.destination, self._environment
        url = environment.resolve(where.url, where="base_url", to=NOWHERE).strip()
        if where.application is None:
            url = checked_address(url, where.wire)
        key = environment.key(Secret(where.key), where="apikey", to=NOWHERE)
        headers = {
            name: environment.header(Secret(value), where=f"header {name}", to=NOWHERE)
            for name, value in where.headers.items()
        }
        # before any message is inserted: a model may well write `${NAME}`
        body, secrets = filled_in(
            request.ask.extra_body, environment, where="extra_body", to=NOWHERE
        )
        redact = Redactor([key, *secret_parts(headers), *secrets])
        return _ResolvedRequest(url, key, headers, replace(request.ask, extra_body=body), redact)


class AgentActor:
    """The actor that Dask holds. When Dask drops it, as it does once the engine is gone, nobody can
    reach the agent any more, and its calls are cut off."""

    def __init__(self) -> None:
        self._agent = Agent()

    async def hello(self, greeting: bytes) -> bytes:
        return await self._agent.hello(greeting)

    async def submit(self, batch: bytes) -> None:
        await self._agent.submit(batch)

    async def events(self, wait_s: float) -> bytes:
        return await self._agent.events(wait_s)

    async def close(self) -> None:
        await self._agent.close()

    def __del__(self) -> None:
        self._agent.abandon()


def _host() -> str:
    return socket.gethostname()


def _outcome(result: CallResult, redact: Redactor, began: float) -> CallOutcome:
    """The result for the engine, with every key hidden."""
    failure, first = result.failure, result.reply.first_token_at
    if failure is not None:
        failure = replace(
            failure,
            message=redact.hidden(failure.message),
            type=redact.hidden(failure.type),
            code=redact.hidden(failure.code),
            param=redact.hidden(failure.param),
        )
    parser, route = result.parser, result.route
    return CallOutcome(
        failure=failure,
        status=result.status,
        request_id=None if result.request_id is None else redact.hidden(result.request_id),
        finish=parser.finish,
        reasoning=result.reasoning,
        tokens=parser.tokens,
        named=tuple(redact.hidden(name) for name in parser.named.models),
        provider=None if parser.provider is None else redact.hidden(parser.provider),
        oddity=None if parser.oddity is None else redact.hidden(parser.oddity),
        unexplained=parser.unexplained,
        route=replace(route, told=tuple(redact.hidden(word) for word in route.told)),
        session=result.session,
        first_token_s=None if first is None else first - began,
    )


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C in a terminal to the engine, which finishes the messages being spoken."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
