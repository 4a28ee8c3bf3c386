"""What comes in: the whole way of 30,240 conversations, and logs of Inspect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.benchmarks.frame import Row, crosswind
from tests.benchmarks.measuring import peak_mb
from tests.benchmarks.synthetic import CONVERSATIONS, Size, build_files, build_store, write_set_up
from tests.engine.importing.building import CONFIG
from tests.engine.importing.inspect_building import archive, audit, header, message, sample
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
    yield told("mirror of all benchmarks", crosswind(first, "repair", "--files"))
    second = empty_workspace(folder / "second", size)
    yield imported("our files of the same", first, second, size)
    yield compared("from their files", first / "crosswind.db", second / "crosswind.db")
    for place in (first, second):
        shutil.rmtree(place)
    rich, again = folder / "rich", empty_workspace(folder / "again", size)
    build_store(rich, size)
    yield told(
        "mirror of all benchmarks, of a store that was played here",
        crosswind(rich, "repair", "--files"),
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


ONE_SCORE: Final = 600
EIGHT: Final = 220
"""Samples for each second of CPU."""
_TURNS: Final = 10
_WORDS: Final = "what somebody says in a conversation that goes on for a while and "


def _sample(number: int, dimensions: int) -> dict[str, Any]:
    messages = [
        message(role, f"{number}.{turn} {_WORDS * 12}")
        for turn in range(_TURNS)
        for role in ("user", "assistant")
    ]
    call = {"event": "model", "role": "target", "model": "m", "tools": [], "config": {}}
    output = {"model": "m", "choices": [{"message": messages[-1]}]}
    events = [
        {**call, "input": [], "input_refs": [[0, 2 * turn + 1]], "output": output}
        for turn in range(_TURNS)
    ]
    kept = {"messages": messages, "calls": messages}
    scores = {f"d{one}": number % 10 + 1 for one in range(dimensions)}
    given: dict[str, object] = {"audit_judge": scores} if dimensions else {"includes": "C"}
    return sample(number, given, messages, events=events, events_data=kept)


def inspect(samples: int = 2_000) -> Iterator[Row]:
    """What it takes to import a log of Inspect.

    The log has so many samples, each of ten turns and one score, with the events that Inspect keeps
    of them, compressed as Inspect does it. A second log has eight dimensions a sample, each of
    which is a conversation here. It fails where fewer samples come in, for each second of CPU, than
    are stated.
    """
    with TemporaryDirectory() as folder:
        yield from _of_a_log(Path(folder), "eight dimensions", samples, 8, EIGHT)
        yield from _of_a_log(Path(folder), "one score", samples, 0, ONE_SCORE)


def _of_a_log(folder: Path, name: str, samples: int, dimensions: int, least: int) -> Iterator[Row]:
    about = audit() if dimensions else header()
    log = archive(folder / f"{name}.eval", about, [_sample(n, dimensions) for n in range(samples)])
    root = folder / name
    root.mkdir()
    (root / "config.yaml").write_text(CONFIG, "utf-8")
    words = ["-m", "tui", "import", "--workspace", str(root), str(log)]
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the import of {log.name} ended with {process.returncode}")
    wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    what = f"{samples:,} samples of {name}"
    yield Row(
        f"import of {what}",
        f"{samples / cpu:.0f} a second of CPU, {samples / wall:.0f} by the clock",
        f"{least} a second of CPU",
        missed=samples / cpu < least,
    )
    yield Row(f"peak memory with {what}", f"{peak_mb(used):.0f} MB")
