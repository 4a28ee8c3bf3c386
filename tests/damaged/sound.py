"""Workspaces before anything happened to their stores: each time the same to the byte's place, so
that a seed harms the same rows wherever and whenever it is tried."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Stage
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.database import Store, open_store
from engine.store.schema import LAST_SEQ
from engine.store.tables import TABLES
from tests.engine.importing.places import make_place
from tests.engine.small_workspace import Place
from tests.pipelines import run_once

_BENCHMARK: Final = "giving-in"
NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
_STAGES: Final = [stage.value for stage in Stage]
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
    rows = list(_in_order(_played(_with_checks(make_place(root / "played")))))
    closed = _with_checks(make_place(root / "closed"))
    with open_store(closed.store, clock=lambda: NOW) as store:
        _fill(store, rows)
        pipeline = Pipeline(Workspace(closed.root), load_config(closed.config), store.reader, store)
        asyncio.run(mirror_benchmark(pipeline, _BENCHMARK))
        logged = closed.copied(root / "logged")
    logged.store.with_name(logged.store.name + "-shm").unlink()
    return Sound(closed, logged)


def _with_checks(place: Place) -> Place:
    """So that there are rows of every table."""
    config = place.config.read_text("utf-8")
    place.config.write_text(f"{config}checks: {{groups: true, landmarks: true}}\n", "utf-8")
    return place


def _played(place: Place) -> Mapping[str, list[_Row]]:
    with open_store(place.store) as store:
        pipeline = Pipeline(Workspace(place.root), load_config(place.config), store.reader, store)
        asyncio.run(run_once(pipeline, Order((_BENCHMARK,))))
    with closing(sqlite3.connect(place.store)) as connection:
        connection.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in TABLES
        }


def _in_order(found: Mapping[str, list[_Row]]) -> Iterator[tuple[str, _Row]]:
    """Stage by stage and in it unit by unit, numbered anew: of what was done at once, chance says
    which comes first."""
    units = {row["seq"]: f"{row['scenario_id']}__{row['target']}" for row in found["take"]}

    def place(table: str, row: _Row) -> tuple[int, str, int]:
        match table:
            case "scenario":
                return _STAGES.index("gen_scenarios"), row["scenario_id"], row["seq"]
            case "take":
                return _STAGES.index("simulate"), units[row["seq"]], row["seq"]
            case "take_end" | "message":
                return _STAGES.index("simulate"), units[row["take"]], row["seq"]
            case "verdict" | "take_check":
                return _STAGES.index("evaluate"), units[row["take"]], row["seq"]
            case "run" | "model_settings":
                return -2, "", row["seq"]
            case "note":
                ends = row["kind"] in {"run_ended", "stage_finished"}
                stage = row["stage"]
                rank = (len(_STAGES) if ends else -1) if stage is None else _STAGES.index(stage)
                return rank, "~" if ends else "", row["seq"]
            case _:
                return _STAGES.index(row["stage"]), row["unit"], row["seq"]

    everything = [(place(table, row), table, row) for table in found for row in found[table]]
    everything.sort(key=lambda one: one[0])
    numbers = {row["seq"]: number for number, (_, _, row) in enumerate(everything, start=1)}
    for seq, (_, table, row) in enumerate(everything, start=1):
        references = {
            name: numbers[row[name]] for name in ("take", "scenario") if row.get(name) is not None
        }
        same = {name: value for name, value in _SAME.items() if name in row}
        at = round(NOW.timestamp() * 1000) + 10 * seq
        yield table, row | same | references | {"seq": seq, "at": at}


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
        store._writer._seq = connection.execute(LAST_SEQ).fetchone()[0]

    store.exclusively(fill)
