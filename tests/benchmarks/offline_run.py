"""A run of 1,000 offline conversations beside bare commits."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.frame import Row
from tests.benchmarks.measuring import peak_mb
from tests.engine.small_workspace import small_workspace

CONFIG = """\
run: {concurrency: {gen_scenarios: 8, simulate: 50, evaluate: 50}}
user_model: {model: user, source: offline, params: {pace: instant}}
evaluator_model: {model: evaluator, source: offline, params: {pace: instant}}
generator_model: {model: generator, source: offline, params: {pace: instant}}
generation: {scenarios_per_metric: 25, turns: 6, num_samples: 5}
demographics: {age: [younger, older]}
targets:
  - {id: holds, model: steadfast, source: offline, params: {pace: instant}}
  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}
"""


def bare_commits(path: Path, rows: int) -> float:
    """Seconds for as many rows, each with a commit of its own that is synced to disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE message (text TEXT)")
        began = time.perf_counter()
        for _ in range(rows):
            connection.execute("INSERT INTO message VALUES (?)", ("x" * 300,))
        return time.perf_counter() - began


def offline() -> Iterator[Row]:
    """How long 1,000 offline conversations of 6 turns take, and how much memory.

    Every message is on disk before the next is asked for, 50 conversations at once. The wall time
    is stated beside that of a loop of bare commits of the same number of rows, in the same process.
    """
    with TemporaryDirectory() as folder:
        place = small_workspace(Path(folder) / "workspace", CONFIG)
        began, cpu = time.perf_counter(), time.process_time()
        result = place.run()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        with closing(sqlite3.connect(place.store)) as connection:
            [messages] = connection.execute("SELECT count(*) FROM message").fetchone()
        floor = bare_commits(place.root / "bare.db", messages)
    yield Row(
        f"{messages:,} messages beside as many bare commits",
        f"{wall / floor:.2f} x, {wall:.1f} s beside {floor:.1f} s; {cpu:.1f} s of CPU",
    )
    yield Row("peak memory", f"{peak_mb():.0f} MB")
    yield Row("failed rows", f"{result.failed}", "0", missed=result.failed > 0)
