"""Numbers that others report are bounded, and rows that hold any are survived and mended."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.benchmark import MOST_TOKENS, Stage, Usage
from engine.doctor.store import store_findings
from engine.store.database import Store, open_store
from engine.store.integrity import amount_faults, faults
from engine.store.open_reader import open_reader
from engine.store.salvage import salvage
from tests.approval import approve
from tests.engine.store.building import BENCHMARK, attempt, write

UNKNOWN = Usage(1, None, None, None, None)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, 2**63, 2**63, 2**63, float("inf")),
        Usage(1, 10**4400, -1, 2**62, float("nan")),
        Usage(1, MOST_TOKENS + 1, MOST_TOKENS + 1, MOST_TOKENS + 1, 1e300),
    ],
)
def test_what_cannot_be_is_stored_as_unknown(store: Store, usage: Usage) -> None:
    write(store, attempt(usage=usage))
    assert store.reader.usage(BENCHMARK, Stage.SIMULATE, "steady") == UNKNOWN


def test_a_sum_of_rows_at_the_limit_is_a_number(store: Store) -> None:
    most = Usage(1, MOST_TOKENS, MOST_TOKENS, MOST_TOKENS, 1e9)
    write(store, *(attempt(usage=most) for _ in range(50)))
    found = store.reader.usage(BENCHMARK, Stage.SIMULATE, "steady")
    assert found == Usage(50, 50 * MOST_TOKENS, 50 * MOST_TOKENS, 50 * MOST_TOKENS, 5e10)


@pytest.fixture
def overfull(tmp_path: Path) -> Path:
    """A store in which every sum of tokens is more than SQLite can hold."""
    path = tmp_path / "crosswind.db"
    with open_store(path) as store:
        write(store, *(attempt(str(number)) for number in range(4)))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE attempt SET input_tokens = 1 << 62, output_tokens = 1 << 62")
        connection.execute("UPDATE attempt SET cost_usd = 1e308, cached_tokens = -(1 << 62)")
        connection.execute("DELETE FROM summary")
    return path


def test_sums_survive_rows_that_are_there(overfull: Path) -> None:
    with closing(open_reader(overfull)) as reader:
        assert reader.usage(BENCHMARK, Stage.SIMULATE) == Usage(4, None, None, None, None)
        progress = reader.snapshot()
        assert progress.target(BENCHMARK, "steady").usage.input_tokens is None
        assert set(reader.usage_by_unit(BENCHMARK, Stage.SIMULATE).values()) == {UNKNOWN}
    with open_store(overfull) as store:
        write(store, attempt("later"))
        assert store.reader.snapshot().target(BENCHMARK, "steady").usage.calls == 5


def test_sums_that_were_kept_of_such_rows_are_not_believed(overfull: Path) -> None:
    used: list[object] = [4, 2**64, 2**64, 0.5]
    target: list[object] = [BENCHMARK, "steady", [0] * 5, [0] * 5, {}, used, None, 0, {}]
    kept = json.dumps({"stages": [], "targets": [target]})
    with closing(sqlite3.connect(overfull)) as connection, connection:
        connection.execute("INSERT INTO summary (one, seq, progress) VALUES (1, 4, ?)", (kept,))
    with closing(open_reader(overfull)) as reader:
        assert reader.snapshot().target(BENCHMARK, "steady").usage.calls == 4


def test_the_doctor_names_such_rows_as_repair_does(overfull: Path) -> None:
    told = [str(one) for one in store_findings(overfull, overfull.parent)]
    assert any("4 attempts tell of more tokens or dollars than can be" in one for one in told)


def test_repair_finds_such_rows_and_makes_them_unknown(overfull: Path, tmp_path: Path) -> None:
    approve(amount_faults(overfull))
    saved = tmp_path / "saved.db"
    assert salvage(overfull, saved).is_whole
    assert faults(saved) == amount_faults(saved) == []
    with closing(open_reader(saved)) as reader:
        assert reader.usage(BENCHMARK, Stage.SIMULATE) == Usage(4, None, None, None, None)
