"""Everything that has a figure: `python -m tests.benchmarks NAME [ARGUMENT ...]`.

What is compared runs in turns, so that whatever else the machine does hits both alike; of what is
short the median of several is stated. Quote ratios: absolute times are the machine's.
"""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.frame import Run, command, rows, say

os.environ["CROSSWIND_TRUST"] = "all"  # their keys go to servers of this machine


class Benchmark(NamedTuple):
    module: str
    """Of this folder, or with its package where it is elsewhere."""
    function: str
    about: str
    by_name_only: bool = False
    """It takes an hour or more, or is no figure: not one of `all`."""

    def run(self) -> Run:
        module = self.module if "." in self.module else f"tests.benchmarks.{self.module}"
        found: Run = vars(import_module(module))[self.function]
        return found


BENCHMARKS: Final = {
    "engine": Benchmark("engine_run", "engine", "a whole run beside clients that only call"),
    "offline": Benchmark("offline_run", "offline", "1,000 conversations beside bare commits"),
    "calls": Benchmark("calls", "calls", "a call beside bare loops and the official clients"),
    "transports": Benchmark("calls", "transports", "our HTTP client beside two others"),
    "cluster": Benchmark("cluster", "cluster", "a run with worker processes beside one without"),
    "lag": Benchmark("lag", "lag", "how late the engine's loop wakes while it is watched"),
    "text": Benchmark("live_text", "text", "how soon a watcher sees what is said and stored"),
    "watching": Benchmark("watching", "watching", "what the app costs while many speak"),
    "transcript": Benchmark("transcript", "transcript", "long transcripts: open, page, find"),
    "first-frame": Benchmark("on_a_terminal", "first_frame", "how soon the app shows something"),
    "keys": Benchmark("on_a_terminal", "keys", "each key of a walk through the app"),
    "labelling": Benchmark("on_a_terminal", "labelling", "60 blind labels in a terminal"),
    "verdicts": Benchmark("verdict_table", "verdicts", "the table of verdicts of a large store"),
    "size": Benchmark("at_size", "size", "what screens and commands ask of a large store"),
    "round-trip": Benchmark("importing", "round_trip", "out into files and back, fact by fact"),
    "inspect": Benchmark("importing", "inspect", "a log of Inspect of 2,000 samples"),
    "statistics": Benchmark("aggregate", "statistics", "14 x 30,240 verdicts summed up"),
    "house": Benchmark("house", "house", "how the code is kept: lines, files, circles, names"),
    "quote-rules": Benchmark("quote_rules", "quote_rules", "rates where quotes are not found"),
    "coverage": Benchmark(
        "tools.simulations.coverage", "coverage", "how often each interval holds the truth", True
    ),
    "claims": Benchmark(
        "tools.simulations.false_claims", "claims", "how often anything false is marked", True
    ),
    "overall": Benchmark(
        "tools.simulations.overall_claims",
        "overall_claims",
        "what is said of several benchmarks",
        True,
    ),
    "power": Benchmark(
        "tools.simulations.power", "power", "how often a difference of the plan is marked", True
    ),
    "validation": Benchmark(
        "tools.simulations.validation_claims",
        "validation",
        "how often such runs say what is not so",
        True,
    ),
    "labels": Benchmark(
        "tools.simulations.label_coverage", "labels", "how well labels say how a judge does", True
    ),
    "synthetic": Benchmark("synthetic", "synthetic", "make a workspace to measure with", True),
}
PACKAGES: Final = ("crosswind", "httpx2", "aiohttp", "openai", "pydantic", "textual")
ALL: Final = "all"


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


def show(name: str, *words: str) -> None:
    """Print its table. Ends with 1 where a bound of it is missed."""
    benchmark, missed, begun = BENCHMARKS[name], False, False
    for row in rows(benchmark.run(), name, words):
        if not begun:
            say(f"\n**{name}**: {benchmark.about}\n\n| what | takes | may take |\n|---|---|---|\n")
        begun = True
        missed |= row.missed
        say(f"| {row.what} | {row.takes} | {row.may} |{' missed' * row.missed}\n")
    if missed:
        sys.exit(1)


def show_all() -> int:
    """Each in a process of its own, whose memory is its own."""
    wanted = [name for name, one in BENCHMARKS.items() if not one.by_name_only]
    failed = [
        name for name in wanted if subprocess.run(command(show, name), check=False).returncode
    ]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"\n{used.ru_utime + used.ru_stime:.0f} s of CPU in all.\n")
    if failed:
        say(f"Missed a bound, or did not come to an end: {', '.join(failed)}\n")
    return int(bool(failed))


def listed() -> str:
    lines = [f"  {name:14}{one.about}" for name, one in BENCHMARKS.items()]
    return "\n".join(
        [
            "python -m tests.benchmarks NAME [ARGUMENT ...]; NAME --help says what it takes\n",
            *lines,
            f"  {ALL:14}those that take no hour, one after the other",
        ]
    )


def main(words: Sequence[str]) -> int:
    name, *rest = words or ["--help"]
    if name in {"-h", "--help"}:
        say(f"{listed()}\n")
        return 0
    if name != ALL and name not in BENCHMARKS:
        sys.stderr.write(f"there is no benchmark {name}\n\n{listed()}\n")
        return 2
    if not {"-h", "--help"} & set(rest):
        say(f"{machine()}\n")
    if name == ALL:
        return show_all()
    show(name, *rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
