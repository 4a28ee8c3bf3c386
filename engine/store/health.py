"""Whether a store is whole, in no more time than a person will wait."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from engine.errors import StoreError
from engine.store.acknowledged import missing_words, rows_missing
from engine.store.header import check_header, unreadable
from engine.store.log import has_log, log_fault
from engine.store.reading import connect, open_reader
from engine.store.rowcheck import plausible
from engine.store.soundness import TimeIsOverError, faults_in

LONGEST_S: Final = 10.0

_ROWS: Final = (
    "SELECT EXISTS (SELECT 1 FROM run) + EXISTS (SELECT 1 FROM state) + EXISTS (SELECT 1 FROM take)"
    " + EXISTS (SELECT 1 FROM scenario) + EXISTS (SELECT 1 FROM metric)"
)

Clock = Callable[[], float]


def quick_check(
    path: Path, *, longest_s: float = LONGEST_S, clock: Clock = time.monotonic
) -> list[str] | None:
    """What is damaged, in words; None where the time was over before the end was reached.

    Creates nothing beside a store that nobody has open. Raises `StoreError`.
    """
    if (lost := log_fault(path)) is not None:
        return [lost]
    if has_log(path) and (missing := rows_missing(path)):
        return [missing_words(missing, path)]
    before = _at_rest(path)
    if before is not None:
        # SQLite would leave two files beside a store that it reads in the usual way
        found = _checked(path, "immutable=1", longest_s, clock)
        if _at_rest(path) == before:
            return _told(path, found)
    with closing(open_reader(path)):
        return _told(path, _checked(path, "mode=ro", longest_s, clock))


def spent_usd(path: Path) -> float | None:
    """What all calls cost, of those whose price is known; None where that cannot be read. Creates
    nothing beside a store that nobody has open."""
    return _asked(path, f"SELECT total({plausible('cost_usd')}) FROM attempt")  # noqa: S608


def is_empty(path: Path) -> bool:
    """Whether nothing was ever stored in it, as far as it can be read; creates nothing either."""
    return _asked(path, _ROWS) == 0


def _asked(path: Path, sql: str) -> float | None:
    # whoever opens a pipe waits for ever, and of an empty file SQLite deletes the log
    if not path.is_file() or not path.stat().st_size:
        return None
    before = _at_rest(path)
    how = "mode=ro" if before is None else "immutable=1"
    try:
        with closing(connect(path, how)) as connection:
            return float(connection.execute(sql).fetchone()[0])
    except (sqlite3.Error, StoreError):
        return None


def _at_rest(path: Path) -> tuple[int, int] | None:
    """Its state while nothing is on its way into it; None where something may be."""
    log = path.with_name(path.name + "-wal")
    try:
        if not path.is_file() or (log.exists() and log.stat().st_size > 0):
            return None
        now = path.stat()
    except OSError:
        return None
    return (now.st_size, now.st_mtime_ns) if now.st_size else None


def _told(path: Path, found: list[str] | sqlite3.Error | None) -> list[str] | None:
    if isinstance(found, sqlite3.Error):
        raise unreadable(path, found) from found
    return found


def _checked(
    path: Path, how: str, longest_s: float, clock: Clock
) -> list[str] | sqlite3.Error | None:
    """Raises `StoreError` for a file that is no store of this program."""
    deadline = clock() + longest_s
    uri = f"{path.absolute().as_uri()}?{how}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            check_header(connection, path)
            return faults_in(connection, lambda: clock() >= deadline)
    except TimeIsOverError:
        return None
    except sqlite3.Error as error:
        over = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT
        return None if over else error
