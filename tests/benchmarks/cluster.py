"""What worker processes take off the engine, and what they cost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import psutil

from engine.cli import workers
from engine.cli.main import main as crosswind
from engine.link import AgentStatus
from engine.providers.agents import RemoteRequest, RequestDestination, SayWaiting
from engine.providers.exchange import CallResult
from engine.providers.http.transport import HostPort
from engine.providers.model import Finish
from engine.providers.protocols.base import Tokens
from engine.providers.scripted.models import offline_model
from engine.service import agents
from tests.benchmarks.frame import Row, command
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import Child

_LOOK_S: Final = 0.02
_AT_ONCE: Final = 100
_SETTINGS: Final = Settings(latency_ms=20, chunks=60, tokens_per_second=400, keep_requests=False)
_REPLY_S: Final = 0.02 + 60 / 400
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Cost:
    calls: int
    cpu_s: float
    """Of the engine, from the first call on."""
    first_call_s: float
    wall_s: float
    """From the first call on."""

    @property
    def ms(self) -> float:
        return 1000 * self.cpu_s / self.calls


def cluster(*, conversations: int = 200, workers: int = 2, rounds: int = 3) -> Iterator[Row]:
    """What worker processes take off the engine, and what they cost.

    The same run with and without them, one after the other, each reply in 60 pieces. CPU is that of
    the engine's process alone, from the first call on to its end, so that what is imported before
    does not count.

    A third run asks nobody: each call is answered from memory, whole, after as long as a reply
    takes, and what it costs to make the reply up is taken off. What is left is what the engine does
    for each call in any case, and the least that workers can bring it to.
    """

    def with_workers(place: Workplace) -> _Cost:
        return _measured(place, ("--workers", str(workers)))

    ways: tuple[Callable[[Workplace], _Cost], ...] = (_measured, with_workers, _from_memory)
    found: list[list[_Cost]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, costs in zip(ways, found, strict=True):
            with ProtocolServer(_SETTINGS) as server, TemporaryDirectory() as folder:
                costs.append(way(_workplace(Path(folder) / "w", server, conversations)))
    names = ("without workers", f"with {workers}", "from memory")
    for name, costs in zip(names, found, strict=True):
        yield from _rows(name, costs, found[0])


def _workplace(root: Path, server: ProtocolServer, conversations: int) -> Workplace:
    place = Workplace(root, server)
    target = {"id": "good", **place.model("steadfast")}
    place.configure([target], simulate=_AT_ONCE, evaluate=_AT_ONCE)
    numbers = range(1, conversations + 1)
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in numbers])
    place.stage("bread", [scenario(n) for n in numbers])
    return place


def _run(place: Workplace) -> list[str]:
    return ["run", "--headless", "--yes", "--workspace", str(place.root)]


def _measured(place: Workplace, words: Sequence[str] = ()) -> _Cost:
    began = time.monotonic()
    with Child(
        [sys.executable, "-m", "tui", *_run(place), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **VARIABLES},
    ) as engine:
        process = psutil.Process(engine.pid)
        place.server.wait_until(lambda seen: seen.calls > 0, 120)
        first, before = time.monotonic(), _cpu_s(process)
        spent = before
        while engine.poll() is None:
            spent = _cpu_s(process) or spent
            time.sleep(_LOOK_S)
    if engine.returncode:
        sys.exit(f"the run ended with {engine.returncode}")
    calls = place.server.counters.calls
    return _Cost(calls, spent - before, first - began, time.monotonic() - first)


def _cpu_s(process: psutil.Process) -> float:
    """0 where it has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _rows(name: str, costs: Sequence[_Cost], alone: Sequence[_Cost]) -> Iterator[Row]:
    each, base = (median(cost.ms for cost in some) for some in (costs, alone))
    calls = median(cost.calls for cost in costs)
    yield Row(
        f"{name}: engine CPU of a call", f"{each / base:.2f} x, {each:.2f} ms of {calls:.0f} calls"
    )
    first, wall = (
        median(some) for some in zip(*((c.first_call_s, c.wall_s) for c in costs), strict=True)
    )
    yield Row(f"{name}: start to first call, first call to end", f"{first:.2f} s, {wall:.2f} s")


# From memory


def _from_memory(place: Workplace) -> _Cost:
    said = place.root / "cost.json"
    subprocess.run(
        command(answer_from_memory, str(said), [*_run(place), "--workers", "1"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **VARIABLES},
        check=True,
    )
    return _Cost(*json.loads(said.read_text("utf-8")))


class _NoProcesses:
    """In place of `LocalProcesses`."""

    def __init__(self, number: int) -> None:
        del number

    def close(self) -> None:
        pass


class _Memory:
    """In place of `AgentPool`, and of each place that it gives."""

    problem = ""

    def __init__(self, *_: object) -> None:
        self.calls = 0
        self.first_at = 0.0
        self.spent_before = 0.0
        self.made_up_s = 0.0

    def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def standing(self) -> tuple[AgentStatus, ...]:
        return ()

    async def probe(self, host_port: HostPort) -> bool:
        del host_port
        return True

    @asynccontextmanager
    async def place(
        self, destination: RequestDestination, held: SayWaiting
    ) -> AsyncIterator[_Memory]:
        del destination, held
        yield self

    async def exchange(
        self, request: RemoteRequest, result: CallResult, accepted: Callable[[], None]
    ) -> None:
        if not self.calls:
            self.first_at, self.spent_before = time.monotonic(), time.process_time()
        self.calls += 1
        await asyncio.sleep(_REPLY_S)
        began, ask = time.thread_time(), request.ask
        model = offline_model(ask.model, pace="instant")
        said = _at_once(model.reply(ask.messages, schema=ask.schema, seed=ask.seed))
        words = len(said.text.split())
        self.made_up_s += time.thread_time() - began
        accepted()
        result.reply.add(said.text)
        result.reply.ended()
        result.status = 200
        result.parser.finish = Finish.STOP
        result.parser.tokens = Tokens(words, 0, words)
        result.parser.named.models = [ask.model]


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """What it comes to, though it lets others go before it: their CPU is not its own."""
    while True:
        try:
            work.send(None)
        except StopIteration as ended:
            value: T = ended.value
            return value


def answer_from_memory(said: str, words: list[str]) -> None:
    """In a process of its own, which is an engine."""
    began = time.monotonic()
    memory = _Memory()
    vars(workers)["LocalProcesses"] = _NoProcesses
    vars(agents)["open_agents"] = lambda *_: memory
    code = crosswind(words)
    cpu_s = time.process_time() - memory.spent_before - memory.made_up_s
    now = time.monotonic()
    cost = _Cost(memory.calls, cpu_s, memory.first_at - began, now - memory.first_at)
    Path(said).write_text(json.dumps(astuple(cost)), "utf-8")
    sys.exit(code)
