"""What worker processes take off the engine, and what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from tests.benchmarks.frame import Row
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import Child

_LOOK_S: Final = 0.02
_AT_ONCE: Final = 100
_SETTINGS: Final = Settings(latency_ms=20, chunks=60, tokens_per_second=400, keep_requests=False)


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

    """

    def with_workers(place: Workplace) -> _Cost:
        return _measured(place, ("--workers", str(workers)))

    ways: tuple[Callable[[Workplace], _Cost], ...] = (_measured, with_workers)
    found: list[list[_Cost]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, costs in zip(ways, found, strict=True):
            with ProtocolServer(_SETTINGS) as server, TemporaryDirectory() as folder:
                costs.append(way(_workplace(Path(folder) / "w", server, conversations)))
    names = ("without workers", f"with {workers}")
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
