"""What the tables' dataclasses say is what the schema has, and what the version before wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from engine.store.codec import columns_of, read
from engine.store.database import Store, create_store, open_store
from engine.store.inserts import insert
from engine.store.migrations import MIGRATIONS
from engine.store.tables import TABLES, LabelItem, LabelSampleRow, StoredRow
from tests.engine.store.building import BENCHMARK, play, verdict, write

WRITTEN_BEFORE = Path(__file__).with_name("rows_of_0_1.sql")
"""A row of each table at least, as a store held them before the tables were dataclasses."""


LATER = {"label_sample", "review", "take_check", "unsettled", "unusable"} | {
    *("batch", "batch_event", "batch_taken", "model_settings")
}
"""Tables that it did not have."""


@pytest.fixture
def there(tmp_path: Path) -> Path:
    path = tmp_path / "crosswind.db"
    with closing(sqlite3.connect(path)) as connection:
        MIGRATIONS.apply(Database(connection), stop_before="6 when a behaviour must hold")
        connection.execute("PRAGMA user_version = 5")
        connection.executescript(WRITTEN_BEFORE.read_text("utf-8"))
    open_store(path).close()  # which brings it up to date
    return path


def rows_of(connection: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    connection.row_factory = sqlite3.Row
    return connection.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall()


@pytest.mark.exhaustive
@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_columns_of_its_dataclass(there: Path, table: str) -> None:
    with closing(sqlite3.connect(there)) as connection:
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    assert columns == set(columns_of(table))


def test_what_the_version_before_wrote_is_read_and_written_again_as_it_was(
    there: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.db"
    create_store(again)
    with closing(sqlite3.connect(there)) as old, closing(sqlite3.connect(again)) as new:
        rows: list[StoredRow] = [
            read(kind, row) for table, kind in TABLES.items() for row in rows_of(old, table)
        ]
        for row in sorted(rows, key=lambda row: row.seq):
            insert(new, row, seq=row.seq, at=0)
        for table in TABLES:
            was = [dict(row) for row in rows_of(old, table)]
            assert was or table in LATER, f"no row of {table}"
            assert [dict(row) for row in rows_of(new, table)] == was


def test_a_sample_and_a_label_are_read_as_they_were_written(store: Store) -> None:
    seq = play(store)
    sample = LabelSampleRow(
        benchmark=BENCHMARK,
        person="Ann",
        account="ann@host",
        seed="7",
        items=(LabelItem(seq, "m01", "present / m01", 0.25),),
    )
    [number] = write(store, sample)
    label = replace(
        verdict(seq, passed=True, judge="Ann"),
        source="human",
        label_sample=number,
        stratum="present / m01",
        inclusion=0.25,
        confidence=2,
        seconds=31.5,
    )
    write(store, label)
    [written] = rows_of(store._connection, "label_sample")
    assert read(LabelSampleRow, written) == replace(sample, seq=number, at=written["at"])
    [judged] = store.reader.verdicts(seq)
    wanted = (number, "present / m01", 0.25, 2, 31.5, False)
    assert (
        *(judged.label_sample, judged.stratum, judged.inclusion),
        *(judged.confidence, judged.seconds, judged.adjudicates),
    ) == wanted


def test_a_store_of_the_version_before_opens_and_tells_its_facts(there: Path) -> None:
    with open_store(there) as store:
        kinds = {type(fact).__name__ for fact in store.reader.facts(0)}
        [take] = store.reader.takes("giving-in")
        said = [message.text for message in store.reader.messages(take.seq)]
    assert kinds == {
        *("Noted", "StateChanged", "TakeStarted", "TakeEnded"),
        *("MessageSpoken", "VerdictGiven", "CallMade"),
    }
    assert (take.finished, said) == (True, ["Hé \ufffd?", "No."])
