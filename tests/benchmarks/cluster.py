"""What worker processes take off the engine, and what they cost:
`python -m tests.benchmarks.cluster [--conversations 200] [--workers 2]`.

The same run with and without them, one after the other, each reply in 60 pieces. CPU is that of the
engine's process alone, from the first call on to its end, so that what is imported before does not
count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.waiting import Child

_LOOK_S = 0.02
_AT_ONCE = 100


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster")
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with_workers = ("--workers", str(options.workers))
    found: dict[tuple[str, ...], list[_Cost]] = {(): [], with_workers: []}
    settings = Settings(latency_ms=20, chunks=60, tokens_per_second=400, keep_requests=False)
    for _ in range(options.rounds):
        for words, costs in found.items():
            with ProtocolServer(settings) as server, TemporaryDirectory() as folder:
                place = _workplace(Path(folder) / "workspace", server, options.conversations)
                costs.append(_measured(place, words))
    sys.stdout.write("\n".join(_lines(found[()], found[with_workers])) + "\n")
    return 0


def _workplace(root: Path, server: ProtocolServer, conversations: int) -> Workplace:
    place = Workplace(root, server)
    target = {"id": "good", **place.model("steadfast")}
    place.configure([target], simulate=_AT_ONCE, evaluate=_AT_ONCE)
    numbers = range(1, conversations + 1)
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in numbers])
    place.stage("bread", [scenario(n) for n in numbers])
    return place


def _measured(place: Workplace, words: Sequence[str]) -> _Cost:
    began = time.monotonic()
    command = ["-m", "tui", "run", "--headless", "--yes", "--workspace", str(place.root), *words]
    with Child(
        [sys.executable, *command],
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
        raise SystemExit(f"the run ended with {engine.returncode}")
    calls = place.server.counters.calls
    return _Cost(calls, spent - before, first - began, time.monotonic() - first)


def _cpu_s(process: psutil.Process) -> float:
    """0 where it has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _lines(alone: Sequence[_Cost], shared: Sequence[_Cost]) -> Sequence[str]:
    one, many = median(cost.ms for cost in alone), median(cost.ms for cost in shared)

    def row(what: str, of: str, form: str = ".2f") -> str:
        values = [median(getattr(cost, of) for cost in costs) for costs in (alone, shared)]
        return f"| {what} | {values[0]:{form}} | {values[1]:{form}} |"

    return (
        "| | without workers | with workers |",
        "| --- | --- | --- |",
        row("calls", "calls", ".0f"),
        row("engine CPU per call, ms", "ms"),
        f"| the same, as a ratio | 1 | {many / one:.2f} |",
        row("start to first call, s", "first_call_s"),
        row("first call to end, s", "wall_s"),
    )


if __name__ == "__main__":
    sys.exit(main())
