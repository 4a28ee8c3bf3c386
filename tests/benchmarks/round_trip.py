"""The whole way of 30,240 conversations: into a store, out into files, and into another store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.frame import Row, crosswind
from tests.benchmarks.synthetic import CONVERSATIONS, Size, build_files, build_store, write_set_up
from tests.engine.importing.told import counted, differences

PER_CPU_SECOND: Final = 2_000
"""Conversations to import."""
_SHOWN: Final = 20


class DifferError(Exception):
    """Two stores that should say the same do not."""


def imported(what: str, files: Path, root: Path, size: Size, *, may: str = "") -> Row:
    wall, cpu = crosswind(root, "import", str(files), "--plain")
    return Row(
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
    return Row(f"{what}: facts that differ, of {sum(facts.values()):,} ({listed})", "0", "0")


def told(what: str, cost: tuple[float, float]) -> Row:
    return Row(what, f"{cost[0]:.0f} s ({cost[1]:.0f} s of CPU)")


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """Raises `DifferError`."""
    build_files(folder / "theirs", size)
    first = empty_workspace(folder / "first", size)
    may = f"{PER_CPU_SECOND:,} a second of CPU"
    yield imported("ImpactBench's files", folder / "theirs", first, size, may=may)
    shutil.rmtree(folder / "theirs")
    yield told("search, and its index", crosswind(first, "search", "friend"))
    yield told("results", crosswind(first, "run", "--stage", "aggregate", "--headless"))
    yield told("mirror of all benchmarks", crosswind(first, "mirror"))
    second = empty_workspace(folder / "second", size)
    yield imported("our files of the same", first, second, size)
    yield compared("from their files", first / "crosswind.db", second / "crosswind.db")
    for place in (first, second):
        shutil.rmtree(place)
    rich, again = folder / "rich", empty_workspace(folder / "again", size)
    build_store(rich, size)
    yield told(
        "mirror of all benchmarks, of a store that was played here", crosswind(rich, "mirror")
    )
    yield imported("our files of a store that was played here", rich, again, size)
    yield compared("played here", rich / "crosswind.db", again / "crosswind.db")


def round_trip(conversations: int = CONVERSATIONS) -> Iterator[Row]:
    """The whole way of 30,240 conversations.

    Files as ImpactBench leaves them are imported, searched, aggregated and mirrored, each by its
    command, and the mirrored files are imported into an empty workspace. The same is done with a
    store that has all that only ours has: takes, judges, thoughts, landmarks, failures, calls. Both
    times the two stores are held against each other, fact by fact. It fails where one of them says
    something that the other does not; what cannot come back from files is listed in
    `tests/engine/importing/told.py`.
    """
    with TemporaryDirectory(prefix="cw") as folder:
        yield from rows(Path(folder), Size(conversations))
