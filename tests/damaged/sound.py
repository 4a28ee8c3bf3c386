"""Workspaces before anything happened to their stores: each time the same to the byte's place, so
that a seed harms the same rows wherever and whenever it is tried."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.database import Store, open_store
from engine.store.schema import LAST_SEQ
from engine.store.tables import TABLES
from tests.engine.importing.places import make_place
from tests.engine.small_workspace import Place

_BENCHMARK: Final = "giving-in"
NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
_TOGETHER: Final = 4
"""Rows in one transaction, as a run of some conversations at once has them."""
_SAME: Final = {"pid": 1, "host": "a machine", "duration_ms": 5, "first_token_ms": None}
"""What no two runs have in common."""

_Row = dict[str, Any]


@dataclass(frozen=True)
class Sound:
    """A run has ended in each."""

    closed: Place
    logged: Place
    """With everything that was written since the store was made in the log alone."""


def play(root: Path) -> Sound:
    played = _steady(make_place(root / "played"))
    played.run()
    closed = _steady(make_place(root / "closed"))
    with open_store(closed.store, clock=lambda: NOW) as store:
        _fill(store, list(_rows(played.store)))
        pipeline = Pipeline(Workspace(closed.root), load_config(closed.config), store.reader, store)
        asyncio.run(mirror_benchmark(pipeline, _BENCHMARK))
        logged = closed.copied(root / "logged")
    logged.store.with_name(logged.store.name + "-shm").unlink()
    return Sound(closed, logged)


def _steady(place: Place) -> Place:
    """With rows of every table, made one after the other."""
    config = place.config.read_text("utf-8")
    config = config.replace("gen_scenarios: 4, simulate: 8, evaluate: 8", ONE_AT_A_TIME)
    place.config.write_text(f"{config}checks: {{groups: true, landmarks: true}}\n", "utf-8")
    return place


ONE_AT_A_TIME: Final = "gen_scenarios: 1, simulate: 1, evaluate: 1"


def _rows(path: Path) -> Iterator[tuple[str, _Row]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [
            (table, dict(row))
            for table in TABLES
            for row in connection.execute(f"SELECT * FROM {table}")
        ]
    for table, row in sorted(rows, key=lambda one: one[1]["seq"]):
        same = {name: value for name, value in _SAME.items() if name in row}
        at = round(NOW.timestamp() * 1000) + 10 * row["seq"]
        yield table, row | same | {"at": at}


def _fill(store: Store, rows: list[tuple[str, _Row]]) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        for begin in range(0, len(rows), _TOGETHER):
            connection.execute("BEGIN IMMEDIATE")
            for table, row in rows[begin : begin + _TOGETHER]:
                marks = ", ".join("?" * len(row))
                insert = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
                connection.execute(insert, tuple(row.values()))
            connection.execute("COMMIT")
        # as if it had been given all of them itself
        store._seq = connection.execute(LAST_SEQ).fetchone()[0]

    store.exclusively(fill)
