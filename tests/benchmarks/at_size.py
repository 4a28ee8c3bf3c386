"""What questions cost in a workspace of 30,240 conversations of 25 kB, each asked five times."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.counting import wanted_conversations
from engine.pipeline.order import Order
from engine.pipeline.planner import Planner
from engine.pipeline.results import counted_of
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.browsing import Browser
from engine.store.database import open_store
from engine.store.mirror import EditPolicy
from engine.store.open_reader import open_reader
from engine.store.search import open_search
from tests.benchmarks.frame import Row, crosswind
from tests.benchmarks.measuring import measured
from tests.benchmarks.synthetic import (
    Size,
    build_files,
    build_published,
    large_workspace,
    write_set_up,
)

TIMES: Final = 5
IDLE_S: Final = 2.0
IMPORTED: Final = 7_560
WORDS: Final = ("friend", "the", "doctor", "for after", '"is it"')


def took(ask: Callable[[], object], times: int = TIMES) -> float:
    """Milliseconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        found.append((time.perf_counter() - began) * 1000)
    return median(found)


def questions(root: Path) -> Iterator[Row]:
    path = root / "crosswind.db"
    yield Row(
        "open the store for reading", f"{took(lambda: open_reader(path).close()):.1f} ms", "50 ms"
    )
    with closing(open_reader(path)) as reader:
        yield Row("a watcher's first view", f"{took(reader.snapshot):.0f} ms", "50 ms")
        name = reader.benchmarks()[0]
        take = reader.counting_takes(name)[-1]
        yield Row("one transcript", f"{took(lambda: reader.messages(take.seq)):.2f} ms", "5 ms")
        for prefix in ("m0", "m03_s002", str(take.key)):
            asked = took(partial(reader.find_ids, prefix))
            yield Row(f"ids that begin with `{prefix}`", f"{asked:.2f} ms", "10 ms")
        browser = Browser(reader)
        yield Row("the table of verdicts, sorted and counted", f"{took(browser.find):.0f} ms", "")
        with contextlib.closing(open_search(path)) as search:
            search.extend()
            for words in WORDS:
                asked = took(partial(search.search, words))
                yield Row(f"search `{words}`, first page", f"{asked:.1f} ms", "50 ms")
            asked = took(lambda: search.search(WORDS[0], benchmark=name))
            yield Row(f"search `{WORDS[0]}` within a benchmark", f"{asked:.1f} ms", "50 ms")
    with closing(sqlite3.connect(path)) as connection:
        [text] = connection.execute(
            "SELECT sum(length(CAST(text AS BLOB))) FROM message"
        ).fetchone()
    yield Row("size of the store beside its text", f"{path.stat().st_size / text:.2f}", "1.35")


def indexed(root: Path) -> Iterator[Row]:
    """From nothing, beside an event loop."""
    for left in root.glob("search.db*"):
        left.unlink()
    with closing(open_search(root / "crosswind.db")) as search:
        cost = asyncio.run(measured(partial(asyncio.to_thread, search.extend)))
    ratio = cost.wall_s / cost.cpu_s
    made = f"{cost.wall_s:.1f} s, {ratio:.2f} x its {cost.cpu_s:.1f} s of CPU"
    yield Row("search: make the index", made, "1.2 x")
    yield Row("meanwhile the event loop is late by (p99)", f"{cost.lag_p99_ms:.0f} ms", "50 ms")


def results(root: Path) -> Iterator[Row]:
    workspace, config = Workspace(root), load_config(root / "config.yaml")
    began, worked = time.perf_counter(), time.process_time()
    with closing(open_reader(root / "crosswind.db")) as reader:
        names = reader.benchmarks()
        for name in names:
            definition = load_definition(workspace.definition_path(name))
            wanted = list(wanted_conversations(definition, config, reader))
            counted_of(definition, config, reader, wanted)
    wall, cpu = time.perf_counter() - began, time.process_time() - worked
    yield Row(f"results of {len(names)} benchmarks", f"{wall:.1f} s ({cpu:.1f} s of CPU)", "5 s")


def mirrored(root: Path) -> Iterator[Row]:
    async def mirror(edits: EditPolicy) -> int:
        report = await mirror_benchmark(pipeline, name, edits)
        return len(report.failed)

    async def nothing() -> int:
        await asyncio.sleep(IDLE_S)
        return 0

    config = load_config(root / "config.yaml")
    with open_store(root / "crosswind.db") as store:
        name = store.reader.benchmarks()[0]
        pipeline = Pipeline(Workspace(root), config, store.reader, store)
        idle = asyncio.run(measured(nothing))
        for known in (root / "benchmarks" / name).rglob("*.json*"):
            if known.name != "scenarios.json":
                known.unlink()
        # scenarios.json is not of the store's own making; whoever overwrites has every file made
        cost = asyncio.run(measured(partial(mirror, EditPolicy.OVERWRITE)))
        again = asyncio.run(measured(partial(mirror, EditPolicy.LEAVE)))
    yield Row("files of one benchmark", f"{cost.wall_s:.1f} s ({cost.cpu_s:.1f} s of CPU)", "5 s")
    ratio = again.wall_s / cost.wall_s
    yield Row("the same again, unchanged", f"{again.wall_s:.2f} s, {ratio:.2f} of it", "0.25")
    lag = f"{cost.lag_p99_ms:.0f} ms (idle: {idle.lag_p99_ms:.0f} ms)"
    yield Row("meanwhile the event loop is late by (p99)", lag, "50 ms")


def planned(root: Path) -> Iterator[Row]:
    """A run that finds everything done."""
    config = load_config(root / "config.yaml")
    with open_store(root / "crosswind.db") as store:
        names = tuple(store.reader.benchmarks())
        benches = Planner(Workspace(root), config, store.reader).check(Order(names))
        began = time.perf_counter()
        count = sum(
            len(list(wanted_conversations(bench.definition, config, bench.reader)))
            for bench in benches
        )
        wall = time.perf_counter() - began
    yield Row(f"what {count:,} conversations are wanted", f"{wall:.1f} s", "")


def exported(root: Path) -> Iterator[Row]:
    with TemporaryDirectory(prefix="cw", dir=root.parent) as folder:
        lines, lines_cpu = crosswind(root, "export", "jsonl", "--out", f"{folder}/lines.jsonl")
        documents, cpu = crosswind(root, "export", "md", "--out", f"{folder}/documents")
    taken = f"{lines:.1f} s ({lines_cpu:.1f} s of CPU)"
    yield Row("export of all conversations as lines of JSON", taken, "")
    ratio = f"{documents:.1f} s, {documents / lines:.2f} of it ({cpu / lines_cpu:.2f} of its CPU)"
    yield Row("the same as a document each", ratio, "2 x")


def imported(files: Path, what: str, may: str) -> Iterator[Row]:
    with TemporaryDirectory(prefix="cw", dir=files.parent) as folder:
        root = Path(folder)
        write_set_up(root, Size(IMPORTED))
        for left in (root / "benchmarks").glob("*/*"):
            left.unlink()
        # making a store loads sqlite-utils, and that loads pandas where the tests brought it: an
        # installed Crosswind has none, so this is no part of an import
        open_store(root / "crosswind.db").close()
        wall, cpu = crosswind(root, "import", str(files), "--plain")
        again, _ = crosswind(root, "import", str(files), "--plain")
        with closing(open_reader(root / "crosswind.db")) as reader:
            count = sum(len(reader.takes(name)) for name in reader.benchmarks())
    yield Row(
        f"import of {count:,} conversations, {what}",
        f"{count / wall:,.0f} a second ({count / cpu:,.0f} a second of CPU)",
        may,
    )
    yield Row("the same again, unchanged", f"{again:.2f} s, {again / wall:.2f} of it", "0.25")


def size(workspace: Path | None = None) -> Iterator[Row]:
    """What questions cost in a workspace of 30,240 conversations of 25 kB.

    Of `python -m tests.benchmarks synthetic DIR --store-only`, or of one made for it. Each is asked
    five times and the median stated. The files of one benchmark are written over.
    """
    with TemporaryDirectory(prefix="cw") as folder, large_workspace(workspace) as root:
        yield from indexed(root)
        yield from questions(root)
        yield from results(root)
        yield from planned(root)
        yield from mirrored(root)
        yield from exported(root)
        build_files(Path(folder) / "files", Size(IMPORTED))
        yield from imported(Path(folder) / "files", "ImpactBench's files", "2,000 a second")
        build_published(Path(folder) / "published", Size(IMPORTED))
        yield from imported(Path(folder) / "published", "published", "3,000 a second")
