"""Copies what can be read of a damaged store into a new one.

Each table is read up to the damage, and what lies beyond in ever smaller ranges of `seq`. What is
copied is consistent: a message whose text does not match its digest is left out with what was said
after it and judged of it, and the next run continues the conversation there. What is not copied
comes back from the files, or is named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from engine.errors import StoreError
from engine.files import sync
from engine.store.acknowledged import SUFFIX, acknowledged, rows_missing
from engine.store.codec import columns_of
from engine.store.connection import raw_connection
from engine.store.database import create_store
from engine.store.filesystem import log_of
from engine.store.imports import NOTE
from engine.store.rowcheck import (
    forget_implausible,
    is_possible,
    rows_with_faults,
    text_as_it_is,
)
from engine.store.schema import LAST_SEQ, WITHOUT_LAST_REPLY, tables_of, version_of
from engine.store.tables import TABLES

_ALLOWED: Final = 0
"""SQLITE_OK, which the module does not name."""
_LIMIT: Final = 1 << 32
"""No store has so many rows, so a number beyond it is itself damaged."""
_SMALLEST_ROW: Final = 64
"""Bytes of a row with its share of the indexes: the size of a file limits the number of its rows
where the last of a table cannot be read."""
_SMALLEST_RANGE: Final = 32
"""A range of so many numbers is not halved further if its beginning cannot be read."""
_NO_FACTS: Final = {"mirrored": "path at digest seq", "kept": "path at digest"}
_PARTS: Final = ("take_end", "message", "verdict", "take_check")
"""Tables whose rows are useless without their take."""

RowRange = tuple[int, int]
"""First and last number, inclusive."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was saved, and what is missing."""

    saved: int
    """The number of rows that were saved, in all tables."""
    left_out: int
    """Rows that can be read and are left out, as what they are part of is lost."""
    lost: Sequence[RowRange]
    """Numbers, of one sequence over all tables, of rows that cannot be read as they were stored."""
    is_cut_off: bool
    """Whether the end of a table is unreadable, so that any number of its last rows is lost."""
    unlogged: Sequence[RowRange]
    """Rows that an engine acknowledged and that are lost with the end of its log."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that can be told."""
        harmed = self.left_out or self.lost or self.is_cut_off or self.unlogged
        return bool(self.saved) and not harmed


def set_aside(path: Path, now: datetime) -> Path:
    """Copy a store and its log beside itself; return the copy's path. Raises `StoreError`."""
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%d-%H%M%S}")
    try:
        for suffix in ("", "-wal", "-shm", SUFFIX):
            source = path.with_name(path.name + suffix)
            if source.is_file():
                _copy(source, aside.with_name(aside.name + suffix))
            elif source.exists():
                # a pipe or folder in place of the log cannot be copied, and must be out of the way
                source.rename(aside.with_name(aside.name + suffix))
        if not aside.exists():  # only the log of the store is left
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        sync(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path} could not be copied to {aside.name}: {error.strerror or error}; make room for "
            "a copy of it beside it, and try again"
        ) from error
    return aside


def _copy(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as written, source.open("rb") as read:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def put_in_place(saved: Path, path: Path) -> None:
    """Move a saved store to `path`. The caller has set the damaged one aside.

    Raises `StoreError`.
    """
    try:
        # first: SQLite would apply the old store's log to the new store
        for suffix in ("-wal", "-shm", SUFFIX):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        sync(path.parent)
        # the deletions are on disk before the move: a crash in between leaves a store without a
        # log, never with a log of another store
        saved.replace(path)
        sync(path.parent)
    except OSError as error:
        raise StoreError(
            f"{saved} could not be moved to {path}: {error.strerror or error}; check who may write "
            "there"
        ) from error


def salvage(damaged: Path, into: Path) -> SalvageReport:
    """Copy into a new store every row of a damaged one that can be read and fits; the damaged one
    is not changed. Every row keeps its `seq`. Raises `StoreError` if the new store cannot be
    created."""
    create_store(into)
    # without the writer, which would renumber rows and decide anew what depends on earlier ones
    with contextlib.closing(sqlite3.connect(into, isolation_level=None)) as new:
        # synced once at the end; a repair that does not get there is thrown away
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "foreign_keys = OFF"):
            new.execute(f"PRAGMA {pragma}").fetchall()
        new.execute("BEGIN")
        copied, reserved = _Copied(), None
        # SQLite would take the log beside an empty file for that of an older one, and delete it
        if damaged.stat().st_size:
            with contextlib.closing(_open_damaged(damaged)) as old:
                if _is_database(old):
                    _copy_tables(old, new, copied, _size(damaged) // _SMALLEST_ROW)
                    for name, columns in _NO_FACTS.items():
                        _copy_small_table(old, new, name, columns.split())
                    reserved = _reserved_costs(old)
        [last] = new.execute(LAST_SEQ).fetchone()
        lost = _without_present(new, [(low, min(high, last)) for low, high in copied.lost])
        _make_consistent(new, copied.lost_messages)
        # a flipped bit in a token count leaves the row readable and the sum of a run absurd
        forget_implausible(new)
        saved = sum(_count(new, name) for name in TABLES)
        unlogged = _without_present(new, _end_of_log(damaged))
        if reserved is not None:
            insert = f"INSERT INTO unsettled (seq, at, most_usd) SELECT ({LAST_SEQ}) + 1, ?, ?"
            new.execute(insert, reserved)
        new.execute("COMMIT")
    sync(into)
    sync(into.parent)
    return SalvageReport(saved, copied.rows - saved, lost, copied.is_cut_off, unlogged)


def _size(damaged: Path) -> int:
    """Return the size of the store and its log in bytes."""
    files = (damaged, log_of(damaged))
    return sum(file.stat().st_size for file in files if file.is_file())


def _open_damaged(path: Path) -> sqlite3.Connection:
    connection = raw_connection(path)
    connection.text_factory = text_as_it_is
    # a view that poses as a table may never end
    connection.set_authorizer(lambda *access: sqlite3.SQLITE_DENY if access[4] else _ALLOWED)
    # otherwise SQLite refuses a file that is shorter than its header says
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema = ON").fetchall()
    return connection


def _is_database(old: sqlite3.Connection) -> bool:
    """Whether SQLite takes it for a database at all. If not, it can read none of the ranges of
    rows, of which there may be a great many."""
    try:
        old.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_NOTADB
    return True


# Row by row


@dataclass(slots=True)
class _Copied:
    """What came of the rows of all tables."""

    rows: int = 0
    lost: list[RowRange] = field(default_factory=list)
    lost_messages: list[RowRange] = field(default_factory=list)
    is_cut_off: bool = True
    """Until the end of every table has been read."""


def _copy_tables(
    old: sqlite3.Connection, new: sqlite3.Connection, copied: _Copied, most: int
) -> None:
    """Copy the rows that are as they were stored. `most` limits the numbers of a table whose end
    cannot be read."""
    copied.is_cut_off = False
    lasts = {name: _last_seq(old, name) for name in TABLES}
    last = max((seq for seq in lasts.values() if seq is not None and seq < _LIMIT), default=0)
    expected = _expected_tables(old)
    for name in TABLES:
        columns, seq = _columns_present(old, name), lasts[name]
        lost: list[RowRange] = []
        if columns:
            is_cut_off = seq is None or seq >= _LIMIT
            copied.is_cut_off |= is_cut_off
            until = max(most, last) if is_cut_off else last
            copied.rows += _copy_table(old, new, name, columns, until, lost)
        elif name in expected:
            lost.append((1, last))
        copied.lost += lost
        if name == "message":
            copied.lost_messages += lost


def _copy_table(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    name: str,
    columns: Sequence[str],
    last: int,
    lost: list[RowRange],
) -> int:
    """Return how many rows were copied, and append to `lost` the numbers of those that were not."""
    insert, count = _insert_into(name, columns), 0
    for row in _readable_rows(old, name, columns, last, lost):
        try:
            new.execute(insert, row)
            count += 1
        except (sqlite3.IntegrityError, UnicodeEncodeError):
            # it is of another table, or its text is not UTF-8
            lost.append((row[0], row[0]))
    faulty = [row["seq"] for row, fault in rows_with_faults(new, name) if fault is not None]
    new.executemany(f"DELETE FROM {name} WHERE seq = ?", [(seq,) for seq in faulty])
    lost += [(seq, seq) for seq in faulty]
    return count - len(faulty)


def _columns_present(old: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of a table that exist there: older stores have fewer. Empty if there is no
    such table, or only something that poses as it."""
    with contextlib.suppress(sqlite3.Error):
        there = {row[1] for row in old.execute(f"PRAGMA table_info({table})")}
        return [name for name in columns_of(table) if name in there] if "seq" in there else []
    return list(columns_of(table))


def _expected_tables(old: sqlite3.Connection) -> frozenset[str]:
    with contextlib.suppress(sqlite3.Error):
        return tables_of(version_of(old))
    return frozenset(TABLES)


def _last_seq(old: sqlite3.Connection, table: str) -> int | None:
    """Return the highest `seq` of a table, 0 if it has no rows; None if that cannot be read."""
    with contextlib.suppress(sqlite3.Error):
        [seq] = old.execute(f"SELECT coalesce(max(seq), 0) FROM {table} NOT INDEXED").fetchone()
        return int(seq)
    return None


def _readable_rows(
    old: sqlite3.Connection, table: str, columns: Sequence[str], last: int, lost: list[RowRange]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that SQLite can read, and append to `lost` the ranges that it cannot."""
    select = (
        f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED WHERE seq BETWEEN ? AND ? "
        "ORDER BY seq"
    )
    ranges = [(1, last)]
    while ranges:
        low, high = ranges.pop()
        with contextlib.suppress(sqlite3.Error):
            for row in _within(old.execute(select, (low, high)), low, high):
                low = row[0] + 1
                yield row
            continue
        if high - low < _SMALLEST_RANGE:
            lost.append((low, high))
        else:
            middle = (low + high) // 2
            ranges += [(middle + 1, high), (low, middle)]


def _within(rows: Iterator[tuple[Any, ...]], low: int, high: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows until one has a number outside the range, as on a page that belongs elsewhere."""
    for row in rows:
        if not low <= row[0] <= high:
            raise sqlite3.DatabaseError("a row in the wrong place")
        yield row


def _insert_into(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _copy_small_table(
    old: sqlite3.Connection, new: sqlite3.Connection, name: str, columns: Sequence[str]
) -> None:
    """Copy a small table that no other row refers to, all or nothing: without it, files that we
    wrote are held for edited. Notes on what was made from which rows are left out, as the rows may
    have changed."""
    with contextlib.suppress(sqlite3.Error):
        rows = old.execute(f"SELECT {', '.join(columns)} FROM {name} NOT INDEXED").fetchall()
        if all(is_possible(value) for row in rows for value in row):
            known = [row for row in rows if not str(row[0]).startswith(NOTE)]
            new.executemany(_insert_into(name, columns), known)


def _reserved_costs(old: sqlite3.Connection) -> tuple[Any, ...] | None:
    """Return when an engine that was killed last wrote what the calls under way may cost, and how
    much that is in US dollars; None if nothing is known."""
    with contextlib.suppress(sqlite3.Error):
        row: tuple[Any, ...] | None = old.execute(
            "SELECT heartbeat, open_usd FROM lease WHERE open_usd > 0"
        ).fetchone()
        return row if row is not None and all(map(is_possible, row)) else None
    return None


# Consistency between rows


def _make_consistent(new: sqlite3.Connection, lost_messages: Sequence[RowRange]) -> None:
    """Delete what refers to rows that are gone, and what follows a gap in a conversation: the next
    run continues it there."""
    new.execute("UPDATE take SET scenario = NULL WHERE scenario NOT IN (SELECT seq FROM scenario)")
    for part in _PARTS:
        new.execute(f"DELETE FROM {part} WHERE take NOT IN (SELECT seq FROM take)")
    new.execute("CREATE TEMP TABLE gone (low INTEGER, high INTEGER)")
    new.executemany("INSERT INTO gone VALUES (?, ?)", lost_messages)
    new.execute(f"CREATE TEMP TABLE cut AS {_CUT_TAKES}")
    new.execute(
        "DELETE FROM message WHERE EXISTS "
        "(SELECT 1 FROM cut WHERE cut.take = message.take AND message.seq >= cut.seq)"
    )
    for part in ("verdict", "take_check", "take_end"):
        new.execute(f"DELETE FROM {part} WHERE take IN (SELECT take FROM cut)")
    for part in ("verdict", "take_check"):
        new.execute(
            f"DELETE FROM {part} WHERE take NOT IN (SELECT take FROM take_end WHERE finished = 1)"
        )


_LAST_MESSAGE: Final = "(SELECT max(seq) FROM message m WHERE m.take = e.take)"
_CUT_TAKES: Final = (
    # a message that does not follow the one before it
    "SELECT take, min(seq) AS seq FROM (SELECT take, seq, turn, speaker, "
    "row_number() OVER (PARTITION BY take ORDER BY seq) - 1 AS place FROM message) "
    "WHERE turn IS NOT place / 2 + 1 "
    "OR speaker IS NOT iif(place % 2, 'assistant', 'user') GROUP BY take "
    # its last reply is missing, or a message before its end cannot be read: what there is stays
    f"UNION ALL SELECT take, {_LIMIT} FROM ({WITHOUT_LAST_REPLY}) "
    f"UNION ALL SELECT e.take, {_LIMIT} FROM take_end e JOIN gone ON gone.low < e.seq "
    f"AND gone.high > coalesce({_LAST_MESSAGE}, e.take) WHERE e.finished = 1"
)
"""The takes that lack messages, and the `seq` from which their messages are of no use."""


def _end_of_log(damaged: Path) -> list[RowRange]:
    """Return the numbers of rows that were acknowledged and may be missing."""
    last = acknowledged(damaged)
    return [(last.first + 1, last.last)] if last is not None and rows_missing(damaged) else []


def _without_present(new: sqlite3.Connection, ranges: Sequence[RowRange]) -> list[RowRange]:
    """Return the parts of ranges whose numbers no row has."""
    union = " UNION ALL ".join(
        f"SELECT seq FROM {table} WHERE seq BETWEEN ?1 AND ?2" for table in TABLES
    )
    absent: list[RowRange] = []
    for low, high in sorted(ranges):
        following = low
        there = [row[0] for row in new.execute(f"{union} ORDER BY seq", (low, high))]
        for seq in (*there, high + 1):
            if seq > following:
                absent.append((following, seq - 1))
            following = seq + 1
    return absent


def _count(new: sqlite3.Connection, table: str) -> int:
    return int(new.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
