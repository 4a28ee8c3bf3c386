"""What watching costs the engine: how late its loop wakes, and what CPU it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from engine.cli.session import Session
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import CrosswindError
from engine.pipeline.order import Order
from engine.service.hosting import hosted_engine, serve
from engine.service.spawning import EngineSettings
from engine.watch import Watch
from tests.benchmarks.frame import Row, command, say
from tests.benchmarks.measuring import lateness, quantile
from tests.benchmarks.watching import terminal
from tests.engine.small_workspace import small_workspace

CONVERSATIONS = 200
WATCHERS = 8
WATCHER_HERTZ = 10
WARM_UP_SECONDS = 3.0
APP_START_SECONDS = 3.0
"""It cannot be asked whether it is there, for nobody reads what it draws."""
PATIENCE_SECONDS = 60.0
LAG_EVERY = 0.005
SIZE = "120x40"
BENCHMARK = "giving-in"
CONFIG = f"""\
run: {{concurrency: {{gen_scenarios: 8, simulate: {CONVERSATIONS}, evaluate: 16}}}}
user_model: {{model: user, source: offline, params: {{pace: human}}}}
evaluator_model: {{model: evaluator, source: offline, params: {{pace: human}}}}
generator_model: {{model: generator, source: offline, params: {{pace: instant}}}}
generation: {{scenarios_per_metric: 10, turns: 12, num_samples: 20}}
demographics: {{age: [younger, older]}}
targets:
  - {{id: holds, model: steadfast, source: offline, params: {{pace: human}}}}
  - {{id: wavers, model: erratic, source: offline, params: {{pace: human}}}}
"""


# The engine


class Sample(NamedTuple):
    """How the engine's loop stood at one moment."""

    at: float
    late: float
    """Seconds after it should have woken."""
    cpu: float
    """Of the whole process, so far."""


async def meter(samples: list[Sample]) -> None:
    while True:
        due = time.monotonic() + LAG_EVERY
        await asyncio.sleep(LAG_EVERY)
        now = time.monotonic()
        samples.append(Sample(now, now - due, time.process_time()))


def be_engine(folder: str) -> None:
    """In a process of its own, until the one who started it closes its standard input."""
    try:
        samples = asyncio.run(_engine(Path(folder)))
    except CrosswindError as error:
        sys.exit(str(error))
    (Path(folder) / "samples.json").write_text(json.dumps(samples), "utf-8")


async def _engine(root: Path) -> list[Sample]:
    place = EngineSettings(root, root / "config.yaml")
    samples: list[Sample] = []
    with hosted_engine(place, linger=0.0) as engine:
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        metering = asyncio.create_task(meter(samples))
        serving = asyncio.create_task(
            serve(engine, place, Order(benchmarks=(BENCHMARK,)), lambda: None)
        )
        await ended
        metering.cancel()
        engine.stop_now()
        await serving
    return samples


@contextmanager
def an_engine(root: Path) -> Iterator[None]:
    with subprocess.Popen(command(be_engine, str(root)), stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        until_all_speak(session_of(root))
        yield
        child.stdin.write(b"\n")
        child.stdin.flush()


def until_all_speak(session: Session) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while session.holder() is None and time.monotonic() < end:
        time.sleep(0.1)
    with contextlib.closing(session.link()) as link:
        while len(link.board().speaking) < CONVERSATIONS * 0.9:
            if time.monotonic() > end:
                raise SystemExit("the conversations do not begin")
            time.sleep(0.1)


def session_of(root: Path) -> Session:
    return Session(Workspace(root), load_config(root / "config.yaml"))


# Who watches


def be_watcher(folder: str) -> None:
    """As the app does: facts, the board, and one conversation; until it is ended."""
    session = session_of(Path(folder))
    with contextlib.closing(
        Watch.open(session.store_path, session.watched(), session.link())
    ) as watch:
        assert watch.link is not None
        say("ready\n")
        while True:
            watch.poll()
            speaking = watch.link.board().speaking
            if speaking:
                watch.link.text(BENCHMARK, speaking[os.getpid() % len(speaking)].key)
            time.sleep(1 / WATCHER_HERTZ)


@contextmanager
def watchers(root: Path) -> Iterator[None]:
    words = command(be_watcher, str(root))
    children = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(WATCHERS)]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        yield
    finally:
        for child in children:
            child.kill()
            child.communicate()


@contextmanager
def app_that_nobody_reads(root: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "tui", "watch", "--workspace", str(root)]
    child, main = terminal(words, SIZE)
    time.sleep(APP_START_SECONDS)
    try:
        yield
        if child.poll() is not None:
            raise SystemExit("the app did not stay open")
    finally:
        child.kill()
        child.wait()
        os.close(main)


# Whoever measures


@dataclass(frozen=True)
class Span:
    """Between two moments of the one clock that all processes share."""

    begun: float
    ended: float
    idle: Sequence[float]
    """How late a loop woke that had nothing to do, each time."""

    def of(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        return [sample for sample in samples if self.begun <= sample.at < self.ended]


@dataclass(frozen=True)
class Cost:
    """What the engine felt."""

    p50: float
    p99: float
    cpu: float
    """Share of one core."""

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Cost:
        late = [sample.late for sample in samples]
        seconds = samples[-1].at - samples[0].at
        cpu = (samples[-1].cpu - samples[0].cpu) / seconds
        return cls(quantile(late, 0.5), quantile(late, 0.99), cpu)


def measured(seconds: float) -> Span:
    time.sleep(WARM_UP_SECONDS)
    begun = time.monotonic()
    idle = asyncio.run(lateness(seconds))
    return Span(begun, time.monotonic(), idle)


def lag(seconds: float = 8.0) -> Iterator[Row]:
    """What watching costs the engine, measured for so many seconds each time.

    How late its loop wakes and what CPU it takes while 200 conversations speak: with nobody
    watching, with an app whose terminal nobody reads, and with eight watchers. The engine is the
    real one, in a process of its own, on scripted models at human pace; the app is the real one, in
    a pseudo terminal that is never read. Where the machine has few cores, watchers that compute
    take them from the engine; how late a loop wakes that has nothing to do, at the same time, is
    the machine's own share.
    """
    with TemporaryDirectory(prefix="cw") as name:
        root = Path(name)
        small_workspace(root, CONFIG)
        spans: dict[str, Span] = {}
        with an_engine(root):
            spans["nobody watches"] = measured(seconds)
            with app_that_nobody_reads(root):
                spans["an app, its terminal not read"] = measured(seconds)
            with watchers(root):
                spans[f"{WATCHERS} watchers at {WATCHER_HERTZ} Hz"] = measured(seconds)
            spans["nobody again"] = measured(seconds)
        found = json.loads((root / "samples.json").read_text("utf-8"))
    samples = [Sample(*each) for each in found]
    costs = {what: Cost.of(span.of(samples)) for what, span in spans.items()}
    alone = costs["nobody watches"]
    for what, cost in costs.items():
        idle = spans[what].idle
        yield Row(
            f"{what}: the engine's loop is late, p50 / p99",
            f"{cost.p50 / alone.p50:.2f} / {cost.p99 / alone.p99:.2f} x, {cost.p50 * 1000:.2f} / "
            f"{cost.p99 * 1000:.1f} ms; an idle loop beside it {quantile(idle, 0.5) * 1000:.2f} / "
            f"{quantile(idle, 0.99) * 1000:.1f} ms",
        )
        yield Row(
            f"{what}: the engine's CPU", f"{cost.cpu / alone.cpu:.2f} x, {cost.cpu:.1%} of a core"
        )
