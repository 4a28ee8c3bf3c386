"""Rows are found in a store's pages without SQLite, also where one of them came to harm."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engine.store.pages import PAGE, rows_in_pages

ROWS = [
    (1, "first", None, 0, 1, -3, 70_000, 2.5, b"bytes"),
    (2, "second", "x" * 200, 1, 0, 1 << 40, -1, -0.25, b""),
    (9, "long", "y" * 3 * PAGE, 1, 0, 3, 4, 5.0, None),
]


def stored(path: Path, rows: Sequence[tuple[object, ...]]) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        columns = ", ".join(f"c{number}" for number in range(1, len(rows[0])))
        connection.execute(f"CREATE TABLE t (c0 INTEGER PRIMARY KEY, {columns})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        connection.commit()
    return path.read_bytes()


def as_read(row: tuple[object, ...]) -> tuple[object, ...]:
    """The number of a row stands beside its values; text is bytes."""
    told = (value.encode() if isinstance(value, str) else value for value in row[1:])
    return (row[0], None, *told)


def found(path: Path) -> list[tuple[object, ...]]:
    own = {seq: values for seq, values in rows_in_pages(path) if len(values) != 5}
    return [(seq, *values) for seq, values in sorted(own.items())]


def test_every_row_is_found(tmp_path: Path) -> None:
    stored(tmp_path / "a.db", ROWS)
    assert found(tmp_path / "a.db") == [as_read(row) for row in ROWS]


@pytest.mark.parametrize("value", [0x00, 0x01, 0x7F, 0x8A, 0xFF])
def test_a_row_is_found_without_the_byte_that_says_where_its_values_begin(
    tmp_path: Path, value: int
) -> None:
    content = bytearray(stored(tmp_path / "a.db", ROWS))
    at = content.index(b"first")
    while content[at] != len(ROWS[0]) + 1:
        at -= 1
    content[at] = value
    (tmp_path / "a.db").write_bytes(content)
    assert found(tmp_path / "a.db") == [as_read(row) for row in ROWS]
