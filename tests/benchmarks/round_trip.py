"""The whole way of 30,240 conversations: `python -m tests.benchmarks.round_trip [N]`.

Files as ImpactBench leaves them are imported, searched, aggregated and mirrored, each by its
command, and the mirrored files are imported into an empty workspace. The same is done with a store
that has all that only ours has: takes, judges, thoughts, landmarks, failures, calls. Both times the
two stores are held against each other, fact by fact. It fails where one of them says something
that the other does not; what cannot come back from files is listed in
`tests/engine/importing/told.py`.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.synthetic import Size, build_files, build_store, write_set_up
from tests.engine.importing.told import counted, differences

Row = tuple[str, str, str]
"""What, how much, and how much it may be."""

CONVERSATIONS: Final = 30_240
PER_CPU_SECOND: Final = 2_000
"""Conversations to import."""
_SHOWN: Final = 20


class DifferError(Exception):
    """Two stores that should say the same do not."""


def command(root: Path, *arguments: str) -> tuple[float, float]:
    """Seconds, and seconds of CPU. Raises what went wrong."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tui", *arguments, "--workspace", str(root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise DifferError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(what: str, files: Path, root: Path, size: Size, *, may: str = "") -> Row:
    wall, cpu = command(root, "import", str(files), "--plain")
    return (
        f"import of {size.conversations:,} conversations, {what}",
        f"{wall:.0f} s, {size.conversations / cpu:,.0f} a second of CPU",
        may,
    )


def empty_workspace(root: Path, size: Size) -> Path:
    """Only configured."""
    write_set_up(root, size)
    shutil.rmtree(root / "benchmarks")
    return root


def compared(what: str, one: Path, other: Path) -> Row:
    found = list(islice(differences(one, other), _SHOWN))
    if found:
        raise DifferError("\n".join([f"{what}: the stores differ", *found]))
    facts = counted(one)
    listed = ", ".join(f"{count:,} {kind}" for kind, count in facts.items())
    return f"{what}: facts that differ, of {sum(facts.values()):,} ({listed})", "0", "0"


def told(what: str, cost: tuple[float, float]) -> Row:
    return what, f"{cost[0]:.0f} s ({cost[1]:.0f} s of CPU)", ""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """Raises `DifferError`."""
    build_files(folder / "theirs", size)
    first = empty_workspace(folder / "first", size)
    may = f"{PER_CPU_SECOND:,} a second of CPU"
    yield imported("ImpactBench's files", folder / "theirs", first, size, may=may)
    shutil.rmtree(folder / "theirs")
    yield told("search, and its index", command(first, "search", "friend"))
    yield told("results", command(first, "run", "--stage", "aggregate", "--headless"))
    yield told("mirror of all benchmarks", command(first, "mirror"))
    second = empty_workspace(folder / "second", size)
    yield imported("our files of the same", first, second, size)
    yield compared("from their files", first / "crosswind.db", second / "crosswind.db")
    for place in (first, second):
        shutil.rmtree(place)
    rich, again = folder / "rich", empty_workspace(folder / "again", size)
    build_store(rich, size)
    yield told("mirror of all benchmarks, of a store that was played here", command(rich, "mirror"))
    yield imported("our files of a store that was played here", rich, again, size)
    yield compared("played here", rich / "crosswind.db", again / "crosswind.db")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.round_trip")
    parser.add_argument("conversations", nargs="?", type=int, default=CONVERSATIONS)
    size = Size(parser.parse_args().conversations)
    sys.stdout.write("| what | takes | may take |\n|---|---|---|\n")
    with TemporaryDirectory(prefix="cw") as folder:
        for row in rows(Path(folder), size):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
