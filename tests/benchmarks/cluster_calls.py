"""What calls cost the engine with workers and without, the pipeline and the store left out."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final

from engine.cluster import dask_agents
from engine.cluster.agent import Agent, AgentActor
from engine.cluster.pool import AgentPool
from engine.cluster.wire import AgentHello, CallOutcome, decoded, encoded
from engine.providers.accounts import Accounts
from engine.providers.agents import RemoteRequest
from engine.providers.endpoint import AsWritten, endpoint
from engine.providers.http.descriptors import raise_limit
from engine.providers.model import Finish, Message, MessageRole, Model
from engine.providers.protocols.base import Tokens
from engine.providers.real import real_model
from tests.benchmarks import frame
from tests.benchmarks.frame import Row, say
from tests.benchmarks.measuring import note_lateness, quantile
from tests.engine.providers.loopback import CERTIFICATE, server_context

HISTORY: Final = "A sentence of a conversation that has been going on for a while now. " * 20
SPEAKS_S: Final = 3.0
"""For so long a call of `many` takes, in pieces of 0.1 s."""


@dataclass(frozen=True, slots=True)
class Replies:
    """What the server says to everybody."""

    pieces: int
    together: int = 1
    """Pieces of one write."""
    between_s: float = 0.0
    """Two writes."""
    tls: bool = False

    @property
    def writes(self) -> list[bytes]:
        piece = {"model": "m0", "choices": [{"index": 0, "delta": {"content": "word "}}]}
        last = {"model": "m0", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {
            "model": "m0",
            "choices": [],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9},
        }
        events = [json.dumps(piece)] * self.pieces + [json.dumps(last), json.dumps(usage), "[DONE]"]
        lines = [f"data: {event}\n\n".encode() for event in events]
        step = self.together
        return [b"".join(lines[at : at + step]) for at in range(0, len(lines), step)]


def serve(pieces: int, together: int, between_s: float, tls: bool) -> None:
    """In a process of its own; it says its port."""
    asyncio.run(_serve(Replies(pieces, together, between_s, tls)))


async def _serve(replies: Replies) -> None:
    writes = replies.writes
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        f"content-length: {sum(map(len, writes))}\r\n\r\n"
    ).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = asked.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(head)
                for write in writes:
                    writer.write(write)
                    await writer.drain()
                    if replies.between_s:
                        await asyncio.sleep(replies.between_s)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            writer.close()

    context = server_context() if replies.tls else None
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context, backlog=1000)
    say(f"{server.sockets[0].getsockname()[1]}\n")
    await server.serve_forever()


@contextmanager
def _server(replies: Replies) -> Iterator[str]:
    """Its address."""
    raise_limit()
    command = frame.command(serve, *astuple(replies))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            yield f"http{'s' * replies.tls}://localhost:{port}/v1"
        finally:
            process.terminate()
            process.communicate()


@asynccontextmanager
async def _pool(workers: int) -> AsyncIterator[AgentPool]:
    """Once all of them are there."""
    with tempfile.TemporaryDirectory() as folder:
        source = dask_agents.agents_here(workers, Path(folder), Path(folder) / "log")
        pool = AgentPool(source, {}, on_note=lambda _: None, on_waiting=lambda _: None)
        pool.start()
        try:
            while len(pool.status()) < workers:  # noqa: ASYNC110  (what is looked at is Dask's)
                await asyncio.sleep(0.01)
            yield pool
        finally:
            await pool.close()


@asynccontextmanager
async def _models(address: str, pool: AgentPool | None, number: int) -> AsyncIterator[list[Model]]:
    accounts = Accounts(agents=pool)
    written = None if pool is None else AsWritten(address, ())
    specs = [
        endpoint(model=f"m{at}", source="openai", base_url=address, key=lambda: "sk-benchmark")
        for at in range(number)
    ]
    try:
        yield [
            real_model(replace(spec, as_written=written), accounts).telling(lambda _: None)
            for spec in specs
        ]
    finally:
        await accounts.close()


@dataclass(slots=True)
class _Measured:
    cpu_s: float = 0.0
    wall_s: float = 0.0
    calls: int = 0
    said: int = 0
    """Pieces that were passed on while they were said."""

    def heard(self, words: str | None) -> None:
        self.said += bool(words)


async def _measured(address: str, workers: int, calls: int, at_once: int) -> _Measured:
    """Of this process, once it is warm."""
    found = _Measured(calls=calls)
    async with (
        nullcontext(None) if not workers else _pool(workers) as pool,
        _models(address, pool, 1) as models,
    ):
        await _spread(models, at_once, at_once, _Measured())
        began, spent = time.perf_counter(), time.process_time()
        await _spread(models, at_once, calls, found)
        found.cpu_s = time.process_time() - spent
        found.wall_s = time.perf_counter() - began
    return found


async def _spread(models: Sequence[Model], at_once: int, calls: int, found: _Measured) -> None:
    left = iter(range(calls))
    messages = [Message(MessageRole.USER, HISTORY)]

    async def call_all(model: Model) -> None:
        for number in left:
            reply = await model.reply(messages, seed=number, on_text=found.heard)
            assert reply.text

    async with asyncio.TaskGroup() as group:
        for at in range(at_once):
            group.create_task(call_all(models[at % len(models)]))


def cost(*, rounds: int = 3) -> Iterator[Row]:
    """CPU of the engine's process for each of 1,000 paced replies, 100 at once, of 60 pieces at 400
    a second; without workers and with two."""
    with _server(Replies(60, between_s=1 / 400)) as address:
        for _ in range(rounds):
            alone, shared = (
                asyncio.run(_measured(address, workers, 1000, 100)) for workers in (0, 2)
            )
            each = [1000 * one.cpu_s / one.calls for one in (alone, shared)]
            yield Row(
                "engine CPU of a call, without workers and with two",
                f"{each[0]:.2f} ms, {each[1]:.2f} ms: x{each[1] / each[0]:.2f}",
            )


def core(*, rounds: int = 3) -> Iterator[Row]:
    """200 replies of 1,500 pieces over TLS, 50 at once, which come faster than one core takes them:
    made by one process, and by two workers."""
    os.environ["SSL_CERT_FILE"] = str(CERTIFICATE / "cert.pem")
    pieces, calls = 1500, 200
    with _server(Replies(pieces, together=50, tls=True)) as address:
        for _ in range(rounds):
            alone, shared = (
                asyncio.run(_measured(address, workers, calls, 50)) for workers in (0, 2)
            )
            rates = [one.calls * pieces / one.wall_s for one in (alone, shared)]
            yield Row(
                "pieces a second, by one process and by two workers",
                f"{rates[0]:,.0f} ({alone.cpu_s:.1f} s of CPU in {alone.wall_s:.1f}), "
                f"{rates[1]:,.0f} (engine {shared.cpu_s:.1f} s in {shared.wall_s:.1f}): "
                f"x{rates[1] / rates[0]:.2f}",
            )


class SpeakingAgent(Agent):
    """Takes any number of calls, and answers each in some seconds without asking anybody."""

    def __init__(self) -> None:
        super().__init__()
        self.speaking: set[int] = set()
        self.ticker: asyncio.Task[None] | None = None

    async def hello(self, raw: bytes) -> bytes:
        me = decoded(await super().hello(raw), AgentHello)
        return encoded(replace(me, capacity=10_000))

    async def _call(self, number: int, request: RemoteRequest) -> None:
        outbox = self._outbox
        assert outbox is not None
        if not self.speaking:
            self.ticker = asyncio.create_task(self._speak())
        outbox.accepted(number)
        self.speaking.add(number)
        await asyncio.sleep(SPEAKS_S)
        self.speaking.remove(number)
        outcome = CallOutcome(status=200, finish=Finish.STOP, tokens=Tokens(9, 0, 9))
        self._ended(number, replace(outcome, named=(request.ask.model,), first_token_s=0.1))

    async def _speak(self) -> None:
        """One for all: as many timers as calls would take longer than what is measured."""
        outbox = self._outbox
        assert outbox is not None
        await asyncio.sleep(0)
        while self.speaking:
            for number in self.speaking:
                outbox.text(number, "two words ")
            await asyncio.sleep(0.1)


class SpeakingActor(AgentActor):
    def __init__(self) -> None:
        self._agent: Agent = SpeakingAgent()


def many(*, at_once: int = 10_000) -> Iterator[Row]:
    """Ten thousand calls at once, of workers that only wait and speak.

    It is a simulation of the models and of nothing else: engine, Dask, TLS between them and all
    that is said are as they are.
    """
    raise_limit()
    # what its workers are
    vars(dask_agents)["AgentActor"] = SpeakingActor
    yield from asyncio.run(_many(at_once, 3 * at_once))


async def _many(at_once: int, calls: int) -> list[Row]:
    # of one model no more than a thousand are made at once, and few at the begin
    async with _pool(2) as pool, _models("http://127.0.0.1:9/v1", pool, 20) as models:
        await _spread(models, at_once, at_once, _Measured())
        late, found = list[float](), _Measured()
        watching = asyncio.create_task(note_lateness(late, 0.05))
        began, spent = time.perf_counter(), time.process_time()
        await _spread(models, at_once, calls, found)
        cpu, wall = time.process_time() - spent, time.perf_counter() - began
        watching.cancel()
    middle, p99 = (1000 * quantile(late, part) for part in (0.5, 0.99))
    return [
        Row(
            f"{calls:,} calls of {SPEAKS_S:g} s, {at_once:,} at once",
            f"{wall:.1f} s, {calls / wall:,.0f} a second",
        ),
        Row(
            "engine CPU meanwhile",
            f"{1000 * cpu / calls:.2f} ms a call, {100 * cpu / wall:.0f} % of a core",
        ),
        Row("its loop is late by, median and p99", f"{middle:.0f} ms, {p99:.0f} ms"),
    ]
