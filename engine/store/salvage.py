"""Saves what can be read of a damaged store into a new one, row by row around what cannot be read.

What is saved is whole: a message whose text is not the one that was stored is left out, and with it
what was said after it and what was judged by it, so that the conversation is played on from there.
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
from engine.store.left_out import DAMAGED, LeftOutRows
from engine.store.pages import PAGE, fold_blindly, has_log, log_fault, log_of, rows_in_pages
from engine.store.rowcheck import forget_implausible, is_readable_but_other, mended
from engine.store.schema import STEPS, WITHOUT_LAST_REPLY, take_step
from engine.store.tables import TABLES

RowValues = tuple[object, ...]

_HEADER: Final = 100
_AT_ONCE: Final = 500
_LIMIT: Final = 1 << 32
"""No store has so many rows: such a number is itself damaged."""
_SMALLEST_ROW: Final = 16
_WIDEST_STEP: Final = 256
"""Beyond what cannot be read, the next row is looked for in steps no wider than this."""

_NO_FACTS: Final = {"mirrored": "at digest seq", "kept": "at digest"}
_NO_TAKE: Final = "its conversation is gone"
_NO_END: Final = "the end of its conversation is gone"
_CUT: Final = "a message of its conversation is gone"
_NO_PLACE: Final = "another row has its place"
_PARTS: Final = ("take_end", "message", "verdict", "take_check")
"""What is nothing without its take."""


@dataclass(slots=True)
class SavedTable:
    """What became of one table."""

    saved: int = 0
    unreadable: int = 0
    """Places at which nothing could be read: one row, or a page of them."""
    dropped: int = 0
    """Rows that could be read and were left out: damaged, or part of something that is gone."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """From the first number to the last, both included: of rows that could not be read, were it in
    this table or in another of which the same place could not be read."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was saved, and what is missing."""

    tables: Mapping[str, SavedTable]
    missing: int
    """Rows that were there once and are not in the new store, at most; without those that came
    after the last one that could be read."""
    is_cut_off: bool
    """Whether the end of a table could not be read, so that any number of its last rows is
    missing."""
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Of rows that are missing, the numbers of those that were acknowledged and are in no place
    that could not be read: the log does not hold them any more."""
    problem: str | None = None
    """Why nothing at all could be read."""

    @property
    def saved(self) -> int:
        """How many rows of all tables were saved."""
        return sum(table.saved for table in self.tables.values())


def set_aside(path: Path, now: datetime) -> Path:
    """Copy a store with its log, as it is, beside itself; the copy. Raises `StoreError`."""
    aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%d-%H%M%S}")
    try:
        for suffix in ("", "-wal", "-shm", SUFFIX):
            source = path.with_name(path.name + suffix)
            if source.is_file():
                _copy(source, aside.with_name(aside.name + suffix))
            elif source.exists():
                # a pipe or a folder in the place of a log: it cannot be copied, and must be out of
                # the way
                source.rename(aside.with_name(aside.name + suffix))
        if not aside.exists():  # of a store of which only the log is left
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        sync(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path} could not be copied to {aside.name}: {error.strerror or error}; make room for "
            "a copy of it beside it, and try again"
        ) from error
    return aside


def put_in_place(saved: Path, path: Path) -> None:
    """Make a store that was saved the one at `path`. Whoever calls this has set that aside.

    Raises `StoreError`.
    """
    try:
        # first: the log of the old one would be taken for the new one's
        for suffix in ("-wal", "-shm", SUFFIX):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        sync(path.parent)
        # the names above are gone from the disk before this one is given: a crash between the two
        # leaves a store without a log, never with another one's
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
    """Make a new store of everything that can be read in a damaged one, which stays as it is.

    Every row keeps its `seq`; one that has no place in the new store goes to `left_out`.
    `nothing_else` says that there are no files either, so that a remark that is not whole is better
    than none. Raises `StoreError` where the new one cannot be made.
    """
    create_store(into)
    # by itself and not by the writer: rows keep their `seq`, and nothing is decided about them
    # anew
    with contextlib.closing(sqlite3.connect(into, isolation_level=None)) as new:
        # it is synced once, at its end, and thrown away where that is not reached
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "foreign_keys = OFF"):
            new.execute(f"PRAGMA {pragma}").fetchall()
        new.row_factory = sqlite3.Row
        saving = _Saving(new, left_out, nothing_else=nothing_else)
        new.execute("BEGIN")
        with _readable(damaged, into) as found:
            if found is not None:
                bounds = _bounds(found, _size(damaged))
                for table in TABLES:
                    saving.table(found, table, _present(found, table), bounds[table])
                for table, columns in _NO_FACTS.items():
                    saving.plain(found, table, columns.split())
            said = _not_all_there(found, damaged)
            hidden = log_fault(damaged) is not None or said is not None
            if found is None or saving.has_gaps or hidden or not _has_sound_pages(found):
                # of a log that lost its end, what is left may hide what is newer
                saving.strays(rows_in_pages(damaged))
                with _folded(damaged, into, blindly=hidden) as pages:
                    saving.strays(rows_in_pages(pages))
        report = saving.finish(said)
        new.execute("COMMIT")
        if not report.saved:
            nothing = f"{damaged} holds nothing that can be read"
            report = replace(report, is_cut_off=True, problem=nothing)
    left_out.close()
    sync(into)
    sync(into.parent)
    return report


def _present(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table behind `seq` that it has there: an older store has fewer."""
    with contextlib.suppress(sqlite3.Error):
        there = {row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")}
        if "seq" in there:
            return [name for name in columns_of(table)[1:] if name in there]
    return list(columns_of(table)[1:])


def _size(damaged: Path) -> int:
    """With its log, in bytes."""
    files = (damaged, log_of(damaged))
    return sum(one.stat().st_size for one in files if one.is_file())


def _copy(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as written, source.open("rb") as read:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


# To read at all


@contextlib.contextmanager
def _readable(damaged: Path, new: Path) -> Iterator[sqlite3.Connection | None]:
    """The damaged store, or a copy of it whose first page is made good with that of a new one;
    whichever has more tables that can be read. None where none has any."""
    patched = new.with_name(new.name + ".patched")
    best, most = None, 0
    try:
        # as it is; with a sound header, where that alone came to harm; with a sound first page, in
        # which the schema begins
        for length in (0, _HEADER, PAGE):
            path = damaged
            if not (length or damaged.stat().st_size):
                continue  # SQLite would take its log for an old one's, and delete it
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
        with contextlib.closing(_opened(best)) as connection:
            yield connection
    finally:
        for length in (_HEADER, PAGE):
            _forget(patched.with_suffix(f".patched-{length}"))


@contextlib.contextmanager
def _folded(damaged: Path, new: Path, *, blindly: bool) -> Iterator[Path]:
    """A copy of the damaged store with its log folded in; `blindly` past where SQLite stops."""
    pages = new.with_name(new.name + ".pages")
    try:
        _patched(damaged, new, pages, _HEADER)
        if blindly and has_log(damaged):
            log_of(pages).unlink()
            fold_blindly(log_of(damaged), pages)
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(pages)) as one:
            one.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        yield pages
    finally:
        _forget(pages)


def _forget(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    connection = raw_connection(path)
    # what came to harm need not be UTF-8
    connection.text_factory = bytes
    # otherwise SQLite refuses a file that is shorter than it says
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema = ON").fetchall()
    return connection


def _readable_tables(path: Path) -> int:
    """How many tables can be read from their roots; none where all of them are empty, as in a
    schema that is another store's."""
    readable, has_rows = 0, False
    with contextlib.closing(_opened(path)) as connection:
        for table in TABLES:
            with contextlib.suppress(sqlite3.Error):
                query = f"SELECT {', '.join(_present(connection, table))} FROM {table} NOT INDEXED"
                has_rows |= connection.execute(f"{query} LIMIT 1").fetchone() is not None
                readable += 1
    return readable if has_rows else 0


def _has_sound_pages(connection: sqlite3.Connection) -> bool:
    with contextlib.suppress(sqlite3.Error):
        return page_fault(connection) is None
    return False


def _not_all_there(connection: sqlite3.Connection | None, damaged: Path) -> Acknowledged | None:
    """What was acknowledged, where some of it is not to be seen."""
    said = acknowledged(damaged)
    with contextlib.suppress(sqlite3.Error):
        if said is not None and connection is not None and said.missing(connection):
            return said
    return None


def _patched(damaged: Path, new: Path, patched: Path, length: int) -> Path:
    """The schema of every store begins with the same tables at the same pages."""
    for suffix in ("", "-wal"):
        source = damaged.with_name(damaged.name + suffix)
        target = patched.with_name(patched.name + suffix)
        target.unlink(missing_ok=True)
        if source.is_file():
            _copy(source, target)
    with new.open("rb") as whole, patched.open("r+b") as broken:
        # of a store that was made a moment ago by this program: all stores have pages of the same
        # size
        first = bytearray(whole.read(length))
        pages = max(1, damaged.stat().st_size // PAGE)
        broken.truncate(max(PAGE, damaged.stat().st_size))
        # by https://www.sqlite.org/fileformat.html, 1.3: the change counter and the version that it
        # was valid for, the size in pages, the first free page and their number, the versions to
        # write and to read with
        first[24:28] = first[92:96] = (1).to_bytes(4, "big")  # so that the next is believed
        first[28:32] = pages.to_bytes(4, "big")
        first[32:40] = bytes(8)  # no free pages
        first[18:20] = b"\2\2"  # with a log, as every store is once it was opened
        broken.write(first)
    return patched


# Row by row


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of the damaged store; its unreadable places are noted on the way."""

    connection: sqlite3.Connection
    name: str
    columns: Sequence[str]
    last: int
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """From the first row that may be missing to the last, both included."""

    def rows(self) -> Iterator[RowValues]:
        done = 0
        while True:
            try:
                for row in self._from(done + 1):
                    if not done < row[0] <= self.last:
                        raise sqlite3.DatabaseError("rows out of order")
                    done = row[0]
                    yield row
                return
            except sqlite3.Error:
                readable = self._next(done)
                self.gaps.append((done + 1, (readable or self.last + 1) - 1))
                if readable is None:
                    return
                done = readable - 1

    def _from(self, seq: int) -> Iterator[tuple[int, *RowValues]]:
        columns = ", ".join(("seq", *self.columns))
        yield from self.connection.execute(
            f"SELECT {columns} FROM {self.name} NOT INDEXED WHERE seq >= ? ORDER BY seq", (seq,)
        )

    def _next(self, done: int) -> int | None:
        """The first row beyond `done` that may be readable; None where there is none."""
        key = self._key(done + 1)
        if key is not None:
            # it is found, so that what cannot be read is in it; or in what it points to
            return None if key > self.last else self._beyond(key)
        # in steps that double, then by halves: one lost page may have held hundreds of rows
        # numbers are shared by all tables, so that the next row of this one may be far: a step of
        # one would ask thousands of times
        low, step = done + 1, 1
        while (high := low + step) <= self.last:
            if self._key(high) is not None:
                return self._first_between(low, high)
            low, step = high, min(step * 2, _WIDEST_STEP)
        return None

    def _beyond(self, key: int) -> int:
        try:
            next(self._from(key), None)
        except sqlite3.Error:
            return key + 1
        return key

    def _first_between(self, low: int, high: int) -> int:
        """`low` cannot be read and `high` can."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._key(middle) is None:
                low = middle
            else:
                high = middle
        return high

    def _key(self, seq: int) -> int | None:
        """The first `seq` from this on, one beyond the last where there is none; None where that
        cannot be read."""
        try:
            found = self.connection.execute(
                f"SELECT seq FROM {self.name} NOT INDEXED WHERE seq >= ? ORDER BY seq LIMIT 1",
                (seq,),
            ).fetchone()
        except sqlite3.Error:
            return None
        if found is None:
            return self.last + 1
        key: int = found[0]
        return key if seq <= key <= self.last else None


class _Saving:
    """The new store, while it is filled."""

    def __init__(
        self, new: sqlite3.Connection, left_out: LeftOutRows, *, nothing_else: bool
    ) -> None:
        self._new = new
        self._left_out = left_out
        self._nothing_else = nothing_else
        self._tables = {table: SavedTable() for table in (*TABLES, *_NO_FACTS)}
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._cut: dict[int, int] = {}
        """Takes of which a message cannot be used, and that message's `seq`."""
        self._out: set[tuple[str, object]] = set()
        """Which rows were left out, by table and `seq`."""

    def table(self, old: sqlite3.Connection, name: str, columns: Sequence[str], last: int) -> None:
        table = _Table(old, name, columns, last)
        rows = self._decoded(name, columns, table.rows())
        while some := list(islice(rows, _AT_ONCE)):
            self._put(name, ("seq", *columns), some)
        self._gaps[name] = table.gaps
        self._tables[name].unreadable = len(table.gaps)

    @property
    def has_gaps(self) -> bool:
        return any(self._gaps.values())

    def strays(self, rows: Iterator[tuple[int, Sequence[object]]]) -> None:
        """Take from rows of any table, read past what leads to them, those that are missing."""
        shapes = _shapes(self._new)
        for seq, record in rows:
            for name, (columns, least) in shapes.items():
                # which table it was in, the page does not say: the number of columns must fit, and
                # `mended` refuses what is no row of that table
                if least <= len(record) <= len(columns) and not self._numbered(seq, seq):
                    values = dict(zip(columns, (seq, *record[1:]), strict=False))
                    self._take_in(name, values)

    def _take_in(self, name: str, values: Mapping[str, object]) -> None:
        row = mended(name, values, nothing_else=self._nothing_else)
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
            # any other refusal says that it is no row of this table, by chance with as many
            # columns
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                self._leave_out(name, row, _NO_PLACE)

    def plain(self, old: sqlite3.Connection, name: str, columns: Sequence[str]) -> None:
        """A small table that other rows do not hang on: all of it, or nothing. What was made from
        which rows is forgotten, as they may not be the same any more."""
        columns = ("path", *columns)
        try:
            found = old.execute(f"SELECT {', '.join(columns)} FROM {name} NOT INDEXED").fetchall()
            rows = [tuple(_text(value) for value in row) for row in found]
        except (sqlite3.Error, UnicodeDecodeError):
            self._tables[name].unreadable = 1
            return
        known = [row for row in rows if not str(row[0]).startswith(NOTE)]
        self._put(name, columns, known)

    def _put(self, name: str, columns: Sequence[str], rows: Sequence[RowValues]) -> None:
        marks = ", ".join("?" * len(columns))
        insert = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"
        try:
            with _undone_as_one(self._new):
                self._new.executemany(insert, rows)
        except sqlite3.Error:
            # one of them does not fit: those that do are found by trying each
            for row in rows:
                try:
                    self._new.execute(insert, row)
                except sqlite3.Error:  # of a kind or in a place where no such row can be
                    self._refuse(name, dict(zip(columns, row, strict=True)), _NO_PLACE)
        saved = self._count(name) - self._tables[name].saved
        self._tables[name].saved += saved
        self._tables[name].dropped += len(rows) - saved

    def _leave_out(self, name: str, row: Mapping[str, object], why: str) -> None:
        if name in TABLES and (name, row["seq"]) not in self._out:
            self._out.add((name, row["seq"]))
            self._left_out.add(name, row, why)

    def _refuse(self, name: str, row: Mapping[str, object], why: str) -> None:
        """A message that cannot be used ends what can be used of its conversation."""
        self._leave_out(name, row, why)
        if name == "message":
            seq, take = row["seq"], row["take"]
            if isinstance(seq, int) and isinstance(take, int):
                self._cut[take] = min(seq, self._cut.get(take, seq))

    def _count(self, name: str) -> int:
        return int(self._new.execute(f"SELECT count(*) FROM {name}").fetchone()[0])

    def _decoded(
        self, name: str, columns: Sequence[str], rows: Iterator[RowValues]
    ) -> Iterator[RowValues]:
        """Without those of which the matter cannot be read."""
        at: object = 0
        for row in rows:
            read = dict(zip(("seq", *columns), row, strict=True))
            values = mended(name, read, nothing_else=self._nothing_else)
            if values is None:
                self._tables[name].dropped += 1
                self._refuse(name, read, DAMAGED)
                continue
            # one that cannot be is that of the row before
            at = values["at"] = values["at"] or at
            yield tuple(values.values())

    # What hangs together

    def finish(self, said: Acknowledged | None) -> SalvageReport:
        """`said` is what was acknowledged where that is not all there."""
        last = max(self._highest(table) for table in TABLES)
        is_cut_off = any(high > last for gaps in self._gaps.values() for _, high in gaps)
        for name, gaps in self._gaps.items():
            self._tables[name].lost = list(self._lost(gaps, last))
        lost = [one for table in self._tables.values() for one in table.lost]
        beyond = [] if said is None else list(self._lost([(said.first + 1, said.last)], said.last))
        missing = sum(high - low + 1 for low, high in _merged(iter([*lost, *beyond])))
        # a flipped bit in a number of tokens leaves the row sound and the sum of a run absurd
        forget_implausible(self._new)
        self._new.execute(
            "UPDATE take SET scenario = NULL WHERE scenario NOT IN (SELECT seq FROM scenario)"
        )
        for part in _PARTS:
            self._drop(part, "take NOT IN (SELECT seq FROM take)", _NO_TAKE)
        # what stands in a row that is none of its table says nothing
        self._cut = {take: seq for take, seq in self._cut.items() if not self._numbered(seq, seq)}
        self._cut_short()
        if self._nothing_else:
            self._end_what_was_judged(last)
        for part in ("verdict", "take_check"):
            self._drop(part, "take NOT IN (SELECT take FROM take_end WHERE finished = 1)", _NO_END)
        return SalvageReport(self._tables, missing, is_cut_off, beyond)

    def _highest(self, table: str) -> int:
        return int(self._new.execute(f"SELECT coalesce(max(seq), 0) FROM {table}").fetchone()[0])

    def _lost(self, gaps: Sequence[tuple[int, int]], last: int) -> Iterator[tuple[int, int]]:
        """The numbers in places that could not be read which belong to no row that was saved."""
        union = " UNION ALL ".join(
            f"SELECT seq FROM {table} WHERE seq BETWEEN ?1 AND ?2" for table in TABLES
        )
        for low, high in _merged(iter(gaps)):
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
        """Take from each conversation what comes after something that is missing: the next run
        plays it on from there."""
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
        """Only what was played to its end is judged: an end that is lost was there, and is not to
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
        """The `seq` of the last message before something that is missing; None where nothing is.
        Where `cut`, what was said last is."""
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
        """Whether a message between two rows may be one of those that could not be read."""
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
    """The highest `seq` that each table may hold. Where its end cannot be read, no more than there
    is room for."""
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
    """The columns of each table in the order in which a row holds them, and how many of them a row
    of the first version has."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as first:
        take_step(first, STEPS[0])
        return {table: (_in_order(new, table), len(_in_order(first, table))) for table in TABLES}


def _in_order(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _merged(gaps: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges that do not overlap."""
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
