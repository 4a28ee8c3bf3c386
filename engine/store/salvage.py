"""Recovers what can be read of a damaged store into a new one, row by row around the damage.

What is recovered is consistent: a message whose text does not match its digest is left out with
what was said after it and judged of it, and the next run continues the conversation there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from engine.benchmark import StopReason
from engine.errors import StoreError
from engine.files import sync
from engine.store.acknowledged import SUFFIX, Acknowledged, acknowledged
from engine.store.codec import columns_of
from engine.store.connection import raw_connection
from engine.store.database import create_store
from engine.store.imports import NOTE
from engine.store.integrity import page_fault
from engine.store.pages import PAGE, fold_blindly, has_log, log_fault, log_of, rows_in_pages
from engine.store.rowcheck import forget_implausible, is_readable_but_other, mended_row
from engine.store.schema import STEPS, WITHOUT_LAST_REPLY, take_step
from engine.store.tables import TABLES
from engine.store.unrecovered_rows import DAMAGED, LeftOutRows

RowValues = tuple[object, ...]

_HEADER: Final = 100
_AT_ONCE: Final = 500
_LIMIT: Final = 1 << 32
"""No store has so many rows, so a number beyond it is itself damaged."""
# so that the size of a file limits the number of its rows where no row can be read
_SMALLEST_ROW: Final = 16
_WIDEST_STEP: Final = 256
"""The widest step in which the next readable row is searched beyond damage."""

_NO_FACTS: Final = {"mirrored": "at digest seq", "kept": "at digest"}
_ALLOWED: Final = 0
"""SQLITE_OK, which the module does not name."""
_NO_TAKE: Final = "its conversation is gone"
_NO_END: Final = "the end of its conversation is gone"
_CUT: Final = "a message of its conversation is gone"
_NO_PLACE: Final = "another row has its place"
_PARTS: Final = ("take_end", "message", "verdict", "take_check")
"""Tables whose rows are useless without their take."""


@dataclass(slots=True)
class SavedTable:
    """What happened to one table."""

    saved: int = 0
    unreadable: int = 0
    """Ranges in which nothing could be read: one row, or a page of rows."""
    dropped: int = 0
    """Readable rows that were left out: damaged, or part of something that is lost."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """First and last number, inclusive, of ranges that are in no table of the new store. The rows
    may have been in another table that is damaged in the same range."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was recovered, and what is missing."""

    tables: Mapping[str, SavedTable]
    missing: int
    """An upper bound of the rows that are lost, without those after the last readable one."""
    is_cut_off: bool
    """Whether the end of a table is unreadable, so that any number of its last rows is lost."""
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """First and last number of rows that an engine acknowledged and that are lost with the log's
    end."""
    problem: str | None = None
    """Why nothing could be read at all."""

    @property
    def saved(self) -> int:
        """The number of rows that were recovered, in all tables."""
        return sum(table.saved for table in self.tables.values())


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


def put_in_place(saved: Path, path: Path) -> None:
    """Move a recovered store to `path`. The caller has set the damaged one aside.

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


def salvage(
    damaged: Path, into: Path, left_out: LeftOutRows, *, nothing_else: bool = False
) -> SalvageReport:
    """Recover into a new store everything that can be read in a damaged one, which is not changed.

    Every row keeps its `seq`; a readable row that does not fit goes to `left_out`. `nothing_else`
    says that there are no files to import either, so that even a garbled remark is kept. Raises
    `StoreError` if the new store cannot be created.
    """
    create_store(into)
    # without the writer, which would renumber rows and decide anew what depends on earlier ones
    with contextlib.closing(sqlite3.connect(into, isolation_level=None)) as new:
        # synced once at the end; a recovery that does not get there is thrown away
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "foreign_keys = OFF"):
            new.execute(f"PRAGMA {pragma}").fetchall()
        new.row_factory = sqlite3.Row
        saving = _RebuiltStore(new, left_out, nothing_else=nothing_else)
        new.execute("BEGIN")
        with _readable(damaged, into) as connection:
            if connection is not None:
                bounds = _bounds(connection, _size(damaged))
                for table in TABLES:
                    saving.table(
                        connection, table, _columns_present(connection, table), bounds[table]
                    )
                for table, columns in _NO_FACTS.items():
                    saving.copy_small_table(connection, table, columns.split())
            last = _not_all_there(connection, damaged)
            hidden = log_fault(damaged) is not None or last is not None
            if connection is None or saving.has_gaps or hidden or not _has_sound_pages(connection):
                # the rest of a log that lost its end may hide newer rows
                saving.add_stray_rows(rows_in_pages(damaged))
                with _folded_copy(damaged, into, blindly=hidden) as pages:
                    saving.add_stray_rows(rows_in_pages(pages))
        report = saving.finish(last)
        new.execute("COMMIT")
        if not report.saved:
            nothing = f"{damaged} holds nothing that can be read"
            report = replace(report, is_cut_off=True, problem=nothing)
    left_out.close()
    sync(into)
    sync(into.parent)
    return report


def _columns_present(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of a table that exist there, without `seq`: older stores have fewer."""
    with contextlib.suppress(sqlite3.Error):
        there = {row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")}
        if "seq" in there:
            return [name for name in columns_of(table)[1:] if name in there]
    return list(columns_of(table)[1:])


def _size(damaged: Path) -> int:
    """Return the size of the store and its log in bytes."""
    files = (damaged, log_of(damaged))
    return sum(file.stat().st_size for file in files if file.is_file())


def _copy(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as written, source.open("rb") as read:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


# Opening a damaged store


@contextlib.contextmanager
def _readable(damaged: Path, new: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the damaged store, or a copy whose first page is replaced by that of a new store,
    whichever has more readable tables. Yields None if none has any."""
    patched = new.with_name(new.name + ".patched")
    best, most = None, 0
    try:
        # as it is; with a sound header, if only that is damaged; with a sound first page, which is
        # the root of the schema
        for length in (0, _HEADER, PAGE):
            path = damaged
            if not (length or damaged.stat().st_size):
                continue  # SQLite would take the log for that of an older file, and delete it
            if length:
                path = _patched(damaged, new, patched.with_suffix(f".patched-{length}"), length)
            readable = _readable_tables(path)
            if readable > most:
                best, most = path, readable
            if most == len(TABLES):
                break
        if best is None:
            yield None
            return
        with contextlib.closing(_open_damaged(best)) as connection:
            yield connection
    finally:
        for length in (_HEADER, PAGE):
            _forget(patched.with_suffix(f".patched-{length}"))


@contextlib.contextmanager
def _folded_copy(damaged: Path, new: Path, *, blindly: bool) -> Iterator[Path]:
    """Yield a copy of the store into which its log was checkpointed; if `blindly`, also the part of
    the log at which SQLite stops."""
    pages = new.with_name(new.name + ".pages")
    try:
        _patched(damaged, new, pages, _HEADER)
        if blindly and has_log(damaged):
            log_of(pages).unlink()
            fold_blindly(log_of(damaged), pages)
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(pages)) as connection,
        ):
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield pages
    finally:
        _forget(pages)


def _forget(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open_damaged(path: Path) -> sqlite3.Connection:
    connection = raw_connection(path)
    # damaged text need not be UTF-8
    connection.text_factory = bytes
    # a view that poses as a table may never end
    connection.set_authorizer(lambda *access: sqlite3.SQLITE_DENY if access[4] else _ALLOWED)
    # otherwise SQLite refuses a file that is shorter than its header says
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema = ON").fetchall()
    return connection


def _readable_tables(path: Path) -> int:
    """Count the tables that can be read from their roots; 0 if all of them are empty, as with a
    schema that does not belong to the file."""
    readable, has_rows = 0, False
    with contextlib.closing(_open_damaged(path)) as connection:
        for table in TABLES:
            with contextlib.suppress(sqlite3.Error):
                columns = ", ".join(_columns_present(connection, table))
                query = f"SELECT {columns} FROM {table} NOT INDEXED"
                has_rows |= connection.execute(f"{query} LIMIT 1").fetchone() is not None
                readable += 1
    return readable if has_rows else 0


def _has_sound_pages(connection: sqlite3.Connection) -> bool:
    with contextlib.suppress(sqlite3.Error):
        return page_fault(connection) is None
    return False


def _not_all_there(connection: sqlite3.Connection | None, damaged: Path) -> Acknowledged | None:
    """Return what was acknowledged if some of it is missing."""
    last = acknowledged(damaged)
    with contextlib.suppress(sqlite3.Error):
        if last is not None and connection is not None and last.missing(connection):
            return last
    return None


def _patched(damaged: Path, new: Path, patched: Path, length: int) -> Path:
    """Copy the store and replace the first `length` bytes by those of a new store: the schema of
    every store begins with the same tables at the same pages."""
    for suffix in ("", "-wal"):
        source = damaged.with_name(damaged.name + suffix)
        target = patched.with_name(patched.name + suffix)
        target.unlink(missing_ok=True)
        if source.is_file():
            _copy(source, target)
    with new.open("rb") as whole, patched.open("r+b") as broken:
        # `new` was just created by this program, with the page size that all stores have
        first = bytearray(whole.read(length))
        pages = max(1, damaged.stat().st_size // PAGE)
        broken.truncate(max(PAGE, damaged.stat().st_size))
        # by https://www.sqlite.org/fileformat.html, 1.3: the change counter and its valid-for copy,
        # the size in pages, the first free page and their number, the write and read versions
        first[24:28] = first[92:96] = (1).to_bytes(4, "big")  # equal, so that the size is believed
        first[28:32] = pages.to_bytes(4, "big")
        first[32:40] = bytes(8)  # no free pages
        first[18:20] = b"\2\2"  # WAL mode, which every store has once it was opened
        broken.write(first)
    return patched


# Row by row


@dataclass(frozen=True, slots=True)
class _DamagedTable:
    """A table of the damaged store; unreadable ranges are noted while it is read."""

    connection: sqlite3.Connection
    name: str
    columns: Sequence[str]
    last: int
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First and last `seq` of each unreadable range, inclusive."""

    def rows(self) -> Iterator[RowValues]:
        done = 0
        while True:
            try:
                for row in self._rows_from(done + 1):
                    if not done < row[0] <= self.last:
                        raise sqlite3.DatabaseError("rows out of order")
                    done = row[0]
                    yield row
                return
            except sqlite3.Error:
                readable = self._next_readable(done)
                self.gaps.append((done + 1, (readable or self.last + 1) - 1))
                if readable is None:
                    return
                done = readable - 1

    def _rows_from(self, seq: int) -> Iterator[tuple[int, *RowValues]]:
        columns = ", ".join(("seq", *self.columns))
        yield from self.connection.execute(
            f"SELECT {columns} FROM {self.name} NOT INDEXED WHERE seq >= ? ORDER BY seq", (seq,)
        )

    def _next_readable(self, done: int) -> int | None:
        """Return the first `seq` beyond `done` that may be readable; None if none was found."""
        key = self._key(done + 1)
        if key is not None:
            # the key is readable, so the damage is in its row or in pages that this one points to
            return None if key > self.last else self._first_key_beyond(key)
        # gallop, then bisect: one lost page may have held hundreds of rows, and as all tables share
        # the numbers, the next row of this table may be thousands away
        low, step = done + 1, 1
        while (high := low + step) <= self.last:
            if self._key(high) is not None:
                return self._first_between(low, high)
            low, step = high, min(step * 2, _WIDEST_STEP)
        return None

    def _first_key_beyond(self, key: int) -> int:
        try:
            next(self._rows_from(key), None)
        except sqlite3.Error:
            return key + 1
        return key

    def _first_between(self, low: int, high: int) -> int:
        """Bisect between `low`, which is unreadable, and `high`, which is readable."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._key(middle) is None:
                low = middle
            else:
                high = middle
        return high

    def _key(self, seq: int) -> int | None:
        """Return the first `seq` from this one on, or `last + 1` if there is none; None if that
        cannot be read."""
        try:
            row = self.connection.execute(
                f"SELECT seq FROM {self.name} NOT INDEXED WHERE seq >= ? ORDER BY seq LIMIT 1",
                (seq,),
            ).fetchone()
        except sqlite3.Error:
            return None
        if row is None:
            return self.last + 1
        key: int = row[0]
        return key if seq <= key <= self.last else None


class _RebuiltStore:
    """Fills the new store."""

    def __init__(
        self, new: sqlite3.Connection, left_out: LeftOutRows, *, nothing_else: bool
    ) -> None:
        self._new = new
        self._left_out = left_out
        self._nothing_else = nothing_else
        self._tables = {table: SavedTable() for table in (*TABLES, *_NO_FACTS)}
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._cut: dict[int, int] = {}
        """The first unusable message of each take that has one, by take."""
        self._out: set[tuple[str, object]] = set()
        """The rows that were left out, by table and `seq`."""

    def table(self, old: sqlite3.Connection, name: str, columns: Sequence[str], last: int) -> None:
        table = _DamagedTable(old, name, columns, last)
        rows = self._decodable_rows(name, columns, table.rows())
        while some := list(islice(rows, _AT_ONCE)):
            self._put_rows(name, ("seq", *columns), some)
        self._gaps[name] = table.gaps
        self._tables[name].unreadable = len(table.gaps)

    @property
    def has_gaps(self) -> bool:
        return any(self._gaps.values())

    def add_stray_rows(self, rows: Iterator[tuple[int, Sequence[object]]]) -> None:
        """Add missing rows of any table that were found by scanning pages."""
        shapes = _shapes(self._new)
        for seq, record in rows:
            for name, (columns, least) in shapes.items():
                # a page does not name its table: the number of columns must fit, and `mended`
                # refuses a row that is not of that table
                if least <= len(record) <= len(columns) and not self._numbered(seq, seq):
                    values = dict(zip(columns, (seq, *record[1:]), strict=False))
                    self._take_in(name, values)

    def _take_in(self, name: str, values: Mapping[str, object]) -> None:
        row = mended_row(name, values, nothing_else=self._nothing_else)
        if row is None:
            if name == "message" and is_readable_but_other(values):
                self._leave_out(name, values, DAMAGED)
            return
        marks = ", ".join("?" * len(row))
        try:
            insert = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})"
            self._new.execute(insert, tuple(row.values()))
            self._tables[name].saved += 1
        except sqlite3.IntegrityError as error:
            # any other constraint shows that it is a row of another table with as many columns
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                self._leave_out(name, row, _NO_PLACE)

    def copy_small_table(self, old: sqlite3.Connection, name: str, columns: Sequence[str]) -> None:
        """Copy a small table that no other row refers to, all or nothing. Notes on what was made
        from which rows are left out, as the rows may have changed."""
        columns = ("path", *columns)
        try:
            fetched = old.execute(f"SELECT {', '.join(columns)} FROM {name} NOT INDEXED").fetchall()
            rows = [tuple(_text(value) for value in row) for row in fetched]
        except (sqlite3.Error, UnicodeDecodeError):
            self._tables[name].unreadable = 1
            return
        known = [row for row in rows if not str(row[0]).startswith(NOTE)]
        self._put_rows(name, columns, known)

    def _put_rows(self, name: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        marks = ", ".join("?" * len(columns))
        insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"
        try:
            with _undone_as_one(self._new):
                self._new.executemany(insert, rows)
        except sqlite3.Error:
            # some row does not fit, so each is tried alone
            for row in rows:
                try:
                    self._new.execute(insert, row)
                except sqlite3.Error:  # it violates a constraint of the table
                    self._refuse(name, dict(zip(columns, row, strict=True)), _NO_PLACE)
        saved = self._count(name) - self._tables[name].saved
        self._tables[name].saved += saved
        self._tables[name].dropped += len(rows) - saved

    def _leave_out(self, name: str, row: Mapping[str, object], why: str) -> None:
        if name in TABLES and (name, row["seq"]) not in self._out:
            self._out.add((name, row["seq"]))
            self._left_out.add(name, row, why)

    def _refuse(self, name: str, row: Mapping[str, object], why: str) -> None:
        """Leave out a row. An unusable message also ends the usable part of its take."""
        self._leave_out(name, row, why)
        if name == "message":
            seq, take = row["seq"], row["take"]
            if isinstance(seq, int) and isinstance(take, int):
                self._cut[take] = min(seq, self._cut.get(take, seq))

    def _count(self, name: str) -> int:
        return int(self._new.execute(f"SELECT count(*) FROM {name}").fetchone()[0])

    def _decodable_rows(
        self, name: str, columns: Sequence[str], rows: Iterator[RowValues]
    ) -> Iterator[RowValues]:
        """Yield usable rows only."""
        at: object = 0
        for row in rows:
            read = dict(zip(("seq", *columns), row, strict=True))
            values = mended_row(name, read, nothing_else=self._nothing_else)
            if values is None:
                self._tables[name].dropped += 1
                self._refuse(name, read, DAMAGED)
                continue
            # an unusable time is replaced by that of the row before
            at = values["at"] = values["at"] or at
            yield tuple(values.values())

    # Consistency between rows

    def finish(self, acknowledged_rows: Acknowledged | None) -> SalvageReport:
        """Remove what is inconsistent, and report. `acknowledged_rows` are None if none of them is
        missing."""
        last = max(self._highest_seq(table) for table in TABLES)
        is_cut_off = any(high > last for gaps in self._gaps.values() for _, high in gaps)
        for name, gaps in self._gaps.items():
            self._tables[name].lost = list(self._lost_ranges(gaps, last))
        lost = [span for table in self._tables.values() for span in table.lost]
        beyond = (
            []
            if acknowledged_rows is None
            else list(
                self._lost_ranges(
                    [(acknowledged_rows.first + 1, acknowledged_rows.last)], acknowledged_rows.last
                )
            )
        )
        missing = sum(high - low + 1 for low, high in _merge_ranges(iter([*lost, *beyond])))
        # a flipped bit in a token count leaves the row readable and the sum of a run absurd
        forget_implausible(self._new)
        self._new.execute(
            "UPDATE take SET scenario = NULL WHERE scenario NOT IN (SELECT seq FROM scenario)"
        )
        for part in _PARTS:
            self._drop(part, "take NOT IN (SELECT seq FROM take)", _NO_TAKE)
        # a number that a recovered row has was misread as that of an unusable message
        self._cut = {take: seq for take, seq in self._cut.items() if not self._numbered(seq, seq)}
        self._cut_short()
        if self._nothing_else:
            self._end_what_was_judged(last)
        for part in ("verdict", "take_check"):
            self._drop(part, "take NOT IN (SELECT take FROM take_end WHERE finished = 1)", _NO_END)
        return SalvageReport(self._tables, missing, is_cut_off, beyond)

    def _highest_seq(self, table: str) -> int:
        return int(self._new.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0])

    def _lost_ranges(self, gaps: Sequence[tuple[int, int]], last: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of unreadable ranges whose numbers no recovered row has."""
        union = " UNION ALL ".join(
            f"SELECT seq FROM {table} WHERE seq BETWEEN ?1 AND ?2" for table in TABLES
        )
        for low, high in _merge_ranges(iter(gaps)):
            following = low
            there = self._new.execute(f"{union} ORDER BY seq", (low, min(high, last)))
            for seq in (*(row[0] for row in there), min(high, last) + 1):
                if seq > following:
                    yield following, seq - 1
                following = seq + 1

    def _drop(self, table: str, where: str, why: str, parameters: Sequence[int] = ()) -> None:
        for row in self._new.execute(f"SELECT * FROM {table} WHERE {where}", parameters):
            self._leave_out(table, dict(row), why)
        cursor = self._new.execute(f"DELETE FROM {table} WHERE {where}", parameters)
        self._tables[table].saved -= cursor.rowcount
        self._tables[table].dropped += cursor.rowcount

    def _cut_short(self) -> None:
        """Remove from each take what follows something that is missing: the next run continues it
        there."""
        ends = dict(
            self._new.execute(
                "SELECT take, max(seq) FROM take_end WHERE finished = 1 GROUP BY take"
            )
        )
        unanswered = {take for (take,) in self._new.execute(WITHOUT_LAST_REPLY)}
        for [take] in self._new.execute("SELECT seq FROM take").fetchall():
            keep = self._sound_part(take, ends.get(take), cut=take in unanswered)
            if keep is None:
                continue
            self._drop("message", "take = ? AND seq > ?", _CUT, (take, keep))
            self._drop("verdict", "take = ?", _CUT, (take,))
            self._drop("take_check", "take = ?", _CUT, (take,))
            self._drop("take_end", "take = ?", _CUT, (take,))

    def _end_what_was_judged(self, last: int) -> None:
        """Restore lost ends of takes that were judged, as only finished takes are: they are not to
        be played again."""
        lost = self._new.execute(
            "SELECT v.take, max(v.at) FROM verdict v WHERE v.take NOT IN "
            "(SELECT take FROM take_end WHERE finished = 1) GROUP BY v.take"
        ).fetchall()
        for seq, (take, at) in enumerate(lost, start=last + 1):
            self._new.execute(
                "INSERT INTO take_end (seq, at, take, stop_reason, finished) "
                "VALUES (?, ?, ?, ?, 1)",
                (seq, at, take, StopReason.UNKNOWN.value),
            )

    def _sound_part(self, take: int, end: int | None, *, cut: bool) -> int | None:
        """Return the `seq` of the last message before a gap in a take; None if there is no gap.
        `cut` says that its last reply is missing."""
        rows = self._new.execute(
            "SELECT seq, turn, speaker FROM message WHERE take = ? ORDER BY seq", (take,)
        ).fetchall()
        last, bad = take, self._cut.get(take)
        for place, (seq, turn, speaker) in enumerate(rows):
            expected = (place // 2 + 1, "user" if place % 2 == 0 else "assistant")
            if (turn, speaker) != expected or (bad is not None and seq > bad):
                return last
            last = seq
        if cut or bad is not None or (end is not None and self._may_miss(last, end)):
            return last
        return None

    def _may_miss(self, after: int, before: int) -> bool:
        """Whether a message between two rows may be in an unreadable range."""
        for low, high in self._gaps.get("message", ()):
            low, high = max(low, after + 1), min(high, before - 1)
            if low <= high and self._numbered(low, high) < high - low + 1:
                return True
        return False

    def _numbered(self, low: int, high: int) -> int:
        return sum(
            self._new.execute(
                f"SELECT count(*) FROM {table} WHERE seq BETWEEN ? AND ?", (low, high)
            ).fetchone()[0]
            for table in TABLES
        )


def _bounds(connection: sqlite3.Connection, size: int) -> dict[str, int]:
    """Return the highest `seq` that each table may hold. If a table's end cannot be read, the size
    of the file limits it."""
    known: dict[str, int] = {}
    for table in TABLES:
        with contextlib.suppress(sqlite3.Error):
            query = f"SELECT coalesce(max(seq), 0) FROM {table} NOT INDEXED"
            known[table] = connection.execute(query).fetchone()[0]
    last = max((seq for seq in known.values() if seq < _LIMIT), default=0)
    return {
        table: last if known.get(table, _LIMIT) < _LIMIT else max(last, size // _SMALLEST_ROW)
        for table in TABLES
    }


def _shapes(new: sqlite3.Connection) -> dict[str, tuple[list[str], int]]:
    """Return each table's columns in their order in a row, and how many of them a row of the first
    schema version has."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as first:
        take_step(first, STEPS[0])
        return {table: (_in_order(new, table), len(_in_order(first, table))) for table in TABLES}


def _in_order(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _merge_ranges(gaps: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge ranges that overlap or touch."""
    low, high = 0, -1
    for first, last in sorted(gaps):
        if first > high + 1:
            if high >= low:
                yield low, high
            low, high = first, last
        high = max(high, last)
    if high >= low:
        yield low, high


@contextlib.contextmanager
def _undone_as_one(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT some")
    try:
        yield
    except sqlite3.Error:
        connection.execute("ROLLBACK TO some")
        connection.execute("RELEASE some")
        raise
    connection.execute("RELEASE some")
