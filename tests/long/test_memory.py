"""What an engine and a watcher hold while a run goes on at the pace of people for an hour."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any, Final

import pytest

from engine.store.database import open_store
from engine.store.lock import workspace_holder
from engine.store.tables import ScenarioRow
from tests.benchmarks.calls import Pace, server
from tests.benchmarks.engine_run import NAME, Job, scenario, write_workspace
from tests.tui.terminal import Terminal
from tests.waiting import Child, until

SETTLED_MINUTE: Final = 20
LAST_MINUTE: Final = 60
MORE_MB: Final = 2.0
"""What each may hold more at the last minute than when it had settled."""
AT_ONCE: Final = 8
CONVERSATIONS: Final = 1_998
PACE: Final = Pace(latency_ms=400, tokens_per_second=50)
SAMPLES_A_MINUTE: Final = 12
_RESIDENT: Final = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


@pytest.mark.timeout((LAST_MINUTE + 10) * 60)
def test_an_hour_of_a_steady_run_takes_no_more_memory_than_its_first_minutes(
    tmp_path: Path,
) -> None:
    held = list(steady_run(tmp_path, LAST_MINUTE))
    for who in held[0]:
        settled, last = held[SETTLED_MINUTE - 1][who], held[LAST_MINUTE - 1][who]
        told = [f"{each[who]:.1f}" for each in held]
        assert last - settled <= MORE_MB, f"{who}, MB in each minute: {told}"


def steady_run(root: Path, minutes: int) -> Iterator[Mapping[str, float]]:
    """MB that the engine and a watcher hold, as the mean of each minute."""
    with server(PACE) as origin:
        job = Job(conversations=CONVERSATIONS, at_once=AT_ONCE)
        write_workspace(root, origin, job)
        with open_store(root / "crosswind.db") as store:
            rows = [
                ScenarioRow(benchmark=NAME, scenario=scenario(number), source="model")
                for number in range(CONVERSATIONS // 2)
            ]
            asyncio.run(store.write(*rows))
        with _engine(root) as engine, _watcher(root) as watcher:
            processes: Mapping[str, Any] = {"engine": engine, "watcher": watcher}
            for _ in range(minutes):
                yield _mean_of_a_minute(processes)


def _engine(root: Path) -> subprocess.Popen[str]:
    return Child(
        [
            sys.executable,
            "-m",
            "tui",
            "run",
            "--headless",
            "--yes",
            "--trust",
            "--workspace",
            str(root),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@contextmanager
def _watcher(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The app on a terminal that shows all that it is sent."""
    until(lambda: workspace_holder(root) is not None)
    with Terminal(words=("watch", "--workspace", str(root)), size=(120, 40)) as terminal:
        terminal.read_until(b"turn ")
        over = threading.Event()
        reading = threading.Thread(target=_read, args=(terminal, over))
        reading.start()
        try:
            yield terminal.process
        finally:
            over.set()
            reading.join()


def _read(terminal: Terminal, over: threading.Event) -> None:
    while not over.is_set():
        terminal.drain()
        terminal.shown = b""


def _resident_mb(process: int) -> float:
    found = _RESIDENT.search(Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _mean_of_a_minute(processes: Mapping[str, subprocess.Popen[Any]]) -> Mapping[str, float]:
    found: dict[str, list[float]] = {who: [] for who in processes}
    for _ in range(SAMPLES_A_MINUTE):
        time.sleep(60 / SAMPLES_A_MINUTE)
        for who, process in processes.items():
            assert process.poll() is None, f"the {who} has ended"
            found[who].append(_resident_mb(process.pid))
    return {who: mean(each) for who, each in found.items()}
