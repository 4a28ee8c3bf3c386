"""Every figure that Crosswind states, on this machine, as one Markdown table: `make bench`, or
`python -m tests.benchmarks [PART ...]`.

What is compared runs in turns, so that whatever else the machine does hits both alike; of what is
short the median of five is stated. Quote ratios: absolute times are the machine's.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

from tests.benchmarks import at_size, engine_run
from tests.benchmarks.bare_client import AIOHTTP, HTTPX2, INTERLEAVED, Cost
from tests.benchmarks.engine_run import CASES, ENGINE, INSPECT, Case

Row = tuple[str, str, str]
"""What, how much, and how much it may be."""

PACKAGES: Final = ("crosswind", "httpx2", "aiohttp", "openai", "pydantic", "textual")
SCRIPTS: Final = {
    "calls": ("tests.benchmarks.providers",),
    "transports": ("tests.benchmarks.transports",),
    "offline": ("tests.benchmarks.offline_run",),
    "text": ("tests.benchmarks.live_text",),
    "watching": ("tests.benchmarks.watching",),
    "statistics": ("tests.benchmarks.aggregate",),
    "house": ("tests.benchmarks.house",),
    "inspect": ("tests.benchmarks.inspect_logs",),
}
"""Those that say what they found in their own words."""

CPU_BUDGET: Final = {"floor": "2 x"}
WALL_BUDGETS: Final = dict.fromkeys(("paced-100", "paced-200", "slow-40", "slow-200"), "1.15 x")
MEMORY_BUDGETS: Final = {"floor": "130 MB", "thousand": "250 MB"}


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{date.today():%Y-%m-%d}, {platform.system()} {platform.machine()}, "  # noqa: DTZ011  (the day where it was measured)
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, load {load}; "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "an unknown processor"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "an unknown processor")


def engine() -> Iterator[Row]:
    for name, case in CASES.items():
        found = engine_run.compared(case.job, case.whom, case.rounds)
        yield from _engine_rows(name, case, found)


def _engine_rows(name: str, case: Case, found: dict[str, list[Cost]]) -> Iterator[Row]:
    ours, job = found[ENGINE], case.job
    what = f"{job.calls:,} calls, {case.title}"
    cpu = median(one.cpu_s for one in ours)
    for other in (HTTPX2, AIOHTTP, INTERLEAVED, INSPECT):
        if other in found:
            ratio = cpu / median(one.cpu_s for one in found[other])
            budget = CPU_BUDGET.get(name, "") if other == AIOHTTP else ""
            yield f"{what}: CPU of the engine beside {other}", f"{ratio:.2f} x", budget
    for who, costs in found.items():
        if job.ideal_s:
            ratio = median(one.wall_s for one in costs) / job.ideal_s
            budget = WALL_BUDGETS.get(name, "") if who == ENGINE else ""
            yield f"{what}: wall of {who} beside the ideal", f"{ratio:.2f} x", budget
    peak = max(one.peak_mb for one in ours)
    yield f"{what}: peak memory of the engine", f"{peak:.0f} MB", MEMORY_BUDGETS.get(name, "")
    if name == "thousand":
        late = median(one.lag_p99_ms or 0.0 for one in ours)
        yield f"{what}: its event loop is late by (p99)", f"{late:.0f} ms", "50 ms"


PARTS: Final[dict[str, Callable[[], Iterator[Row]]]] = {"engine": engine, "size": at_size.rows}


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> None:
    every = (*PARTS, *SCRIPTS)
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(every))
    wanted = parser.parse_args().parts or every
    if unknown := set(wanted) - set(every):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    say(f"{machine()}\n\n")
    if not PARTS.keys().isdisjoint(wanted):
        say("| what | takes | may take |\n|---|---|---|\n")
    for name, part in PARTS.items():
        if name in wanted:
            for row in part():
                say(f"| {' | '.join(row)} |\n")
    for name, command in SCRIPTS.items():
        if name in wanted:
            done = subprocess.run(
                [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=False
            )
            say(f"\n{name} (`python -m {' '.join(command)}`):\n\n```\n{done.stdout.strip()}\n```\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"\n{used.ru_utime + used.ru_stime:.0f} s of CPU in all.\n")


if __name__ == "__main__":
    main()
