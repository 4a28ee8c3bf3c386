"""Checks a store for damage: quickly when it is opened, to the last row when it is repaired."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Final

from engine.display import plural
from engine.errors import Problem, StoreError
from engine.store.acknowledged import missing_words, rows_missing
from engine.store.connection import raw_connection
from engine.store.filesystem import has_log, log_of
from engine.store.lock import ProcessState, holder_state
from engine.store.open_reader import open_reader
from engine.store.rowcheck import SPENT, implausible_rows, is_possible, rows_with_faults
from engine.store.schema import (
    CHANGES,
    MOST_REPORTED,
    SCHEMA_VERSION,
    WITHOUT_LAST_REPLY,
    DamagedStoreError,
    check_header,
    damage_in,
    migrated_copy,
    unreadable,
    version_of,
)
from engine.store.tables import TABLES

_INSTRUCTIONS: Final = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock, a few milliseconds."""


class TimeIsOverError(Exception):
    """The time for a check ran out before its end."""


LONGEST_S: Final = 10.0
"""Seconds for which a store is checked where a person waits for it."""


def faults(
    path: Path, *, longest_s: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> list[str] | None:
    """List what is damaged, in a few words each, at most `MOST_REPORTED`; empty if nothing is; None
    if `longest_s` seconds were over before the end.

    Creates no files beside a store whose log is empty. Raises `StoreError` for a file that is no
    store of this program, or cannot be read.
    """
    if not path.stat().st_size:
        return ["the file is empty"]
    log = log_of(path)
    if log.exists() and not log.is_file():
        return [f"{log.name} beside it is not a file"]
    if has_log(path) and (missing := rows_missing(path)):
        return [missing_words(missing, path)]
    deadline = clock() + longest_s
    before = _at_rest(path)
    found = _checked(path, None, lambda: clock() >= deadline)
    # without a log, SQLite neither locks the file nor notices changes: if it changed meanwhile, it
    # is checked once more in the usual way, which leaves two files beside it
    if before is not None and _at_rest(path) != before:
        found = _checked(path, "mode=ro", lambda: clock() >= deadline)
    return found


def _at_rest(path: Path) -> tuple[int, int] | None:
    """Return size and modification time; None if the store is gone or has a log."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return None
    return None if has_log(path) else (now.st_size, now.st_mtime_ns)


def _checked(path: Path, how: str | None, over: Callable[[], bool]) -> list[str] | None:
    try:
        with closing(raw_connection(path, how)) as connection:
            # a handler that returns true ends the statement with SQLITE_INTERRUPT
            connection.set_progress_handler(over, _INSTRUCTIONS)
            check_header(connection, path)
            return list(islice(_faults(connection, over), MOST_REPORTED))
    except TimeIsOverError:
        return None
    except DamagedStoreError as error:
        return [error.how]
    except sqlite3.Error as error:
        if _is_interrupted(error):
            return None
        if (damage := damage_in(error)) is not None:
            return [damage]
        raise unreadable(path, error) from error


def _faults(connection: sqlite3.Connection, over: Callable[[], bool]) -> Iterator[str]:
    version = version_of(connection)
    found = [
        str(report)
        for [report] in connection.execute(f"PRAGMA integrity_check({MOST_REPORTED})").fetchall()
        if report != "ok"
    ]
    if connection.execute(f"SELECT count(*) FROM {CHANGES}").fetchone() != (version,):
        found.append(f"{CHANGES} does not say which changes were made")
    yield from found
    if version == SCHEMA_VERSION:
        yield from _row_faults(connection, over)
        yield from _references(connection)
    elif not found:
        with closing(migrated_copy(connection)) as copy:
            copy.set_progress_handler(over, _INSTRUCTIONS)
            yield from _row_faults(copy, over)
            yield from _references(copy)


def amount_faults(path: Path) -> list[str]:
    """Say of how many attempts the usage cannot be true. Sums pass over it, so it stops no run.
    Raises `StoreError`."""
    with closing(open_reader(path, leave_no_files=True)) as reader:
        count = implausible_rows(reader.connection)
    what = plural(count, "attempt tells", "attempts tell")
    return [f"{what} of more tokens or dollars than can be"] if count else []


def _row_faults(connection: sqlite3.Connection, over: Callable[[], bool]) -> Iterator[str]:
    spoken: dict[int, int] = {}
    for table in TABLES:
        for row, fault in rows_with_faults(connection, table):
            if over():
                raise TimeIsOverError
            if fault is not None:
                yield fault
            elif table == "message" and not _follows_previous(spoken, row):
                yield f"what was said before message {row['seq']} is missing"
    for table, names in _TABLES_WITHOUT_SEQ.items():
        for row in connection.execute(f"SELECT {names} FROM {table} NOT INDEXED"):
            if not all(map(is_possible, row)):
                yield f"a row of {table} cannot be read"


_TABLES_WITHOUT_SEQ: Final = {
    "mirrored": "path, digest",
    "kept": "path, digest",
    "counts_as_of": "benchmark, digest",
    "lease": "engine, host, boot, space, began, place, open_usd",
}


def _follows_previous(spoken: dict[int, int], row: sqlite3.Row) -> bool:
    """Whether a message directly follows the one before it in its take."""
    place = spoken.get(row["take"], 0)
    spoken[row["take"]] = place + 1
    expected = (place // 2 + 1, "assistant" if place % 2 else "user")
    return (row["turn"], row["speaker"]) == expected


def _references(connection: sqlite3.Connection) -> Iterator[str]:
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


_ROWS: Final = (
    "SELECT EXISTS (SELECT 1 FROM run) + EXISTS (SELECT 1 FROM state) + EXISTS (SELECT 1 FROM take)"
    " + EXISTS (SELECT 1 FROM scenario) + EXISTS (SELECT 1 FROM metric)"
)


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


def lost_its_log(store: Path) -> bool:
    """Whether the last engine did not end cleanly and the log with its last writes is gone.
    Creates nothing."""
    if has_log(store) or rows_missing(store) == 0:
        return False
    # the usual way would leave two files beside the store
    with (
        suppress(StoreError, sqlite3.Error),
        closing(open_reader(store, leave_no_files=True)) as reader,
    ):
        lease = reader.lease()
        return lease is not None and holder_state(lease, store) is ProcessState.GONE
    return False


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


def lost_store(benchmarks: Path, store: Path) -> Problem | None:
    """A problem where the store is missing although its results are in files, as all of them would
    be paid for twice."""
    if not (names := unread_results(benchmarks, store)):
        return None
    hint = "`crosswind repair`, or `crosswind run --anew` to ask everything again"
    return Problem(unread_words(names, store), hint=hint)


def unread_words(names: list[str], store: Path) -> str:
    """Say to people that the store is missing although its results are in files."""
    single = len(names) == 1
    which = f"`{names[0]}`" if single else f"{len(names)} benchmarks, `{names[0]}` first,"
    files = "files of" if single else "the files of"
    return (
        f"{store} is missing or empty, but {files} {which} hold what was run here: "
        "`crosswind repair` makes the store again from them, asks no model and costs nothing"
    )
