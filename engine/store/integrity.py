"""Checks a store for damage: quickly when it is opened, to the last row when it is repaired."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from engine.display import plural
from engine.errors import StoreError
from engine.identity import message_digest
from engine.store.acknowledged import missing_words, rows_missing
from engine.store.codec import columns_of
from engine.store.connection import raw_connection
from engine.store.lock import holder_state
from engine.store.open_reader import open_reader
from engine.store.pages import LOG_HEADER, has_log, log_fault, log_of
from engine.store.process import ProcessState
from engine.store.rowcheck import SPENT, fault, implausible_rows
from engine.store.schema import (
    CHANGES,
    LOST_BASES,
    MOST_REPORTED,
    SCHEMA_VERSION,
    WITHOUT_LAST_REPLY,
    DamagedStoreError,
    check_header,
    damage_in,
    damaged,
    migrated_copy,
    unreadable,
    version_of,
)
from engine.store.tables import TABLES

_INSTRUCTIONS: Final = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock, a few milliseconds."""


class TimeIsOverError(Exception):
    """The time for a check ran out before its end."""


def faults(path: Path) -> list[str]:
    """List what is damaged, in a few words each, at most `MOST_REPORTED`; empty if nothing is.

    Raises `StoreError` for a file that is no store of this program, or cannot be read.
    """
    if not path.stat().st_size:
        return ["the file is empty"]
    if (lost := log_fault(path)) is not None:
        return [lost]
    missing = rows_missing(path)
    missing_rows = [missing_words(missing, path)] if missing else []
    try:
        with closing(raw_connection(path)) as connection:
            check_header(connection, path)
            found = [*missing_rows, *faults_in(connection)][:MOST_REPORTED]
        return found or amount_faults(path)
    except DamagedStoreError as error:
        return [error.how]
    except sqlite3.Error as error:
        how = damage_in(error)
        if how is not None:
            return [how]
        raise unreadable(path, error) from error


def faults_in(connection: sqlite3.Connection, over: Callable[[], bool] | None = None) -> list[str]:
    """List what is damaged, over a connection that is used for nothing else.

    Raises `sqlite3.Error`, and `TimeIsOverError` or an interrupted statement once `over` is true.
    """
    if over is not None:
        # a handler that returns true ends the statement with SQLITE_INTERRUPT
        connection.set_progress_handler(over, _INSTRUCTIONS)
    return list(islice(_faults(connection, over or (lambda: False)), MOST_REPORTED))


def _faults(connection: sqlite3.Connection, over: Callable[[], bool]) -> Iterator[str]:
    version = version_of(connection)
    found = list(_pages(connection))
    if connection.execute(f"SELECT count(*) FROM {CHANGES}").fetchone() != (version,):
        found.append(f"{CHANGES} does not say which changes were made")
    yield from found
    if version == SCHEMA_VERSION:
        yield from _row_faults(connection, over)
    elif not found:
        with closing(migrated_copy(connection)) as copy:
            copy.set_progress_handler(over, _INSTRUCTIONS)
            yield from _row_faults(copy, over)


def _row_faults(connection: sqlite3.Connection, over: Callable[[], bool]) -> Iterator[str]:
    yield from _rows(connection, over)
    yield from _references(connection)


def amount_faults(path: Path) -> list[str]:
    """Say of how many attempts the usage cannot be true. Sums pass over it, so it stops no run.
    Raises `StoreError`."""
    with closing(open_reader(path, leave_no_files=True)) as reader:
        count = implausible_rows(reader.connection)
    what = plural(count, "attempt tells", "attempts tell")
    return [f"{what} of more tokens or dollars than can be"] if count else []


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for [report] in connection.execute(f"PRAGMA integrity_check({MOST_REPORTED})").fetchall():
        if report != "ok":
            yield str(report)


def page_fault(connection: sqlite3.Connection) -> str | None:
    """Return the first fault that SQLite finds in the pages, without checking its indexes. Raises
    `sqlite3.Error`."""
    [report] = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if report in {"ok", b"ok"} else str(report)


def _rows(connection: sqlite3.Connection, over: Callable[[], bool]) -> Iterator[str]:
    # as bytes: text that is not UTF-8 would end the whole query, not just its row
    connection.text_factory = bytes
    spoken: dict[object, int] = {}
    for table in TABLES:
        columns = columns_of(table)
        for row in connection.execute(
            # NOT INDEXED: a damaged index would hide the rows that it has lost
            f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY seq"
        ):
            if over():
                raise TimeIsOverError
            values = dict(zip(columns, row, strict=True))
            row_fault = fault(table, values)
            if row_fault is not None:
                yield row_fault
            elif table == "message" and not _follows_previous(spoken, values):
                yield f"what was said before message {values['seq']} is missing"
    for table, names in _TABLES_WITHOUT_SEQ.items():
        for row in connection.execute(f"SELECT {names} FROM {table} NOT INDEXED"):
            if not all(_is_text(value) for value in row):
                yield f"a row of {table} cannot be read"


_TABLES_WITHOUT_SEQ: Final = {
    "mirrored": "path, digest",
    "kept": "path, digest",
    "counts_as_of": "benchmark, digest",
    "lease": "engine, host, boot, space, began, place",
}


def _follows_previous(spoken: dict[object, int], values: dict[str, object]) -> bool:
    """Whether a message directly follows the one before it in its take."""
    place = spoken.get(values["take"], 0)
    spoken[values["take"]] = place + 1
    expected = (place // 2 + 1, b"assistant" if place % 2 else b"user")
    return (values["turn"], values["speaker"]) == expected


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, bytes) and bool(value.decode() or True)
    except UnicodeDecodeError:
        return False


def _references(connection: sqlite3.Connection) -> Iterator[str]:
    # table names must be text again: the checks before left the connection on bytes
    connection.text_factory = str
    for table, seq, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} {seq} belongs to a {parent} that is gone"
    for table in ("verdict", "take_check"):
        for [seq] in connection.execute(
            f"SELECT seq FROM {table} "
            "WHERE take NOT IN (SELECT take FROM take_end WHERE finished = 1)"
        ):
            yield f"{table} {seq} is of a conversation whose end is gone"
    for [take] in connection.execute(WITHOUT_LAST_REPLY):
        yield f"what was said last in take {take} is missing"
    for benchmark, base in connection.execute(LOST_BASES):
        yield f"scenario {base} of {benchmark}, from which others were made, is missing"


LONGEST_S: Final = 10.0

_ROWS: Final = (
    "SELECT EXISTS (SELECT 1 FROM run) + EXISTS (SELECT 1 FROM state) + EXISTS (SELECT 1 FROM take)"
    " + EXISTS (SELECT 1 FROM scenario) + EXISTS (SELECT 1 FROM metric)"
)


def quick_check(
    path: Path, *, longest_s: float = LONGEST_S, clock: Callable[[], float] = time.monotonic
) -> list[str] | None:
    """List what is damaged; None if `longest_s` seconds were over before the end.

    Creates no files beside a store whose log is empty. Raises `StoreError`.
    """
    if (lost := log_fault(path)) is not None:
        return [lost]
    if has_log(path) and (missing := rows_missing(path)):
        return [missing_words(missing, path)]
    # `immutable=1` neither locks nor notices changes, so size and time are compared around it
    before = _at_rest(path)
    if before is not None:
        # the usual way would leave two files beside the store
        faults = _run_check(path, "immutable=1", longest_s, clock)
        # if the file changed meanwhile, it is checked once more in the usual way
        if _at_rest(path) == before:
            return _or_raise(path, faults)
    with closing(open_reader(path)):
        return _or_raise(path, _run_check(path, "mode=ro", longest_s, clock))


def spent_usd(path: Path) -> float | None:
    """Return what all calls cost in US dollars, as far as their prices are known; None if that
    cannot be read. Creates no files beside a store whose log is empty."""
    return _queried_number(path, f"SELECT {SPENT}")


def is_empty(path: Path) -> bool:
    """Whether nothing was ever stored. False if that cannot be read. Creates nothing either."""
    return _queried_number(path, _ROWS) == 0


def _queried_number(path: Path, sql: str) -> float | None:
    # opening a pipe would block, and SQLite deletes the log of an empty file
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        with closing(open_reader(path, leave_no_files=True)) as reader:
            return float(reader.connection.all(sql)[0][0])
    except StoreError:
        return None


def _at_rest(path: Path) -> tuple[int, int] | None:
    """Return size and modification time; None if the store is empty, gone, or has a log."""
    log = log_of(path)
    try:
        if not path.is_file() or (log.exists() and log.stat().st_size > 0):
            return None
        now = path.stat()
    except OSError:
        return None
    return (now.st_size, now.st_mtime_ns) if now.st_size else None


def _or_raise(path: Path, faults: list[str] | sqlite3.Error | None) -> list[str] | None:
    if isinstance(faults, sqlite3.Error):
        raise unreadable(path, faults) from faults
    return faults


def _run_check(
    path: Path, how: str, longest_s: float, clock: Callable[[], float]
) -> list[str] | sqlite3.Error | None:
    """Return the faults, SQLite's error, or None if the time was over. Raises `StoreError` for a
    file that is no store of this program."""
    deadline = clock() + longest_s
    try:
        with closing(raw_connection(path, how)) as connection:
            check_header(connection, path)
            return faults_in(connection, lambda: clock() >= deadline)
    except TimeIsOverError:
        return None
    except sqlite3.Error as error:
        return None if _is_interrupted(error) else error


def lost_its_log(store: Path) -> bool:
    """Whether the last engine did not end cleanly and the log with its last writes is gone.
    Creates nothing."""
    log = log_of(store)
    if (log.exists() and log.stat().st_size >= LOG_HEADER) or rows_missing(store) == 0:
        return False
    # the usual way would leave two files beside the store
    with (
        suppress(StoreError, sqlite3.Error),
        closing(open_reader(store, leave_no_files=True)) as reader,
    ):
        lease = reader.lease()
        return lease is not None and holder_state(lease, store) is ProcessState.GONE
    return False


# a crash harms what was written last, and checking all of it would delay a restart
_NEWEST: Final = 200
_LONGEST_S: Final = 0.25


def check_newest(connection: sqlite3.Connection, path: Path) -> None:
    """Check the newest messages, and pages for a moment. Raises `StoreError` for a damaged store,
    and `sqlite3.Error`."""
    rows = connection.execute(
        f"SELECT seq, speaker, text, digest FROM message ORDER BY seq DESC LIMIT {_NEWEST}"
    )
    for seq, speaker, text, digest in rows.fetchall():
        # damage can make a value of any type of a text
        if message_digest(speaker, str(text)) != digest:
            raise damaged(path, f"the text of message {seq} is not the one that was stored")
    deadline = time.monotonic() + _LONGEST_S
    connection.set_progress_handler(lambda: time.monotonic() >= deadline, _INSTRUCTIONS)
    try:
        damage = page_fault(connection)
    except sqlite3.Error as error:
        if not _is_interrupted(error):
            raise
    else:
        if damage is not None:
            raise damaged(path, damage)
    finally:
        connection.set_progress_handler(None, 0)


def _is_interrupted(error: sqlite3.Error) -> bool:
    """Whether the progress handler ended the statement, as its time was over."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


_RESULTS: Final = (
    "runs/*/conversations.json",
    "runs/*/history.jsonl",
    "history.jsonl",
    "validation/*/runs/*/conversations.json",
)
"""Files that a run writes beside those that people write."""


def unread_results(benchmarks: Path, store: Path) -> list[str]:
    """Name the benchmarks in this folder whose files hold results, if the store is missing or
    empty. An unreadable store gives none, as that is reported elsewhere."""
    try:
        if store.exists() and not is_empty(store):
            return []
        folders = sorted(path for path in benchmarks.iterdir() if path.is_dir())
        return [
            folder.name
            for folder in folders
            if any(_has_match(folder, pattern) for pattern in _RESULTS)
        ]
    except OSError:
        return []


def _has_match(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for path in folder.glob(pattern))


def unread_words(names: list[str], store: Path) -> str:
    """Say to people that the store is missing although its results are in files."""
    single = len(names) == 1
    which = f"`{names[0]}`" if single else f"{len(names)} benchmarks, `{names[0]}` first,"
    files = "files of" if single else "the files of"
    return (
        f"{store} is missing or empty, but {files} {which} hold what was run here: "
        "`crosswind repair` makes the store again from them, asks no model and costs nothing"
    )
