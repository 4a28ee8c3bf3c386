"""What the tables' dataclasses say is what the schema has, and what the version before wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from engine.store.codec import columns_of, read
from engine.store.database import create_store, open_store
from engine.store.inserts import insert
from engine.store.migrations import MIGRATIONS
from engine.store.tables import TABLES, StoredRow

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


def test_a_table_has_the_columns_of_its_dataclass(there: Path) -> None:
    with closing(sqlite3.connect(there)) as connection:
        for table in TABLES:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            assert columns == set(columns_of(table)), table


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
