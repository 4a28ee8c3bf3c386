"""Whether a store is whole, to the last row: as much time as it takes, for who repairs it."""

# ruff: noqa: S608  (SQL is put together from names of this room, never from values)

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from engine.store.acknowledged import missing_words, rows_missing
from engine.store.header import CHANGES, DamagedStoreError, check_header, damage_in, unreadable
from engine.store.log import log_fault, log_of
from engine.store.rowcheck import columns_of, fault, implausible_rows
from engine.store.schema import STEPS, take_step
from engine.store.tables import TABLES

TOLD: Final = 5
_STEPS: Final = 10_000
"""Of SQLite's machine, between two looks at the clock: a few thousandths of a second."""

Over = Callable[[], bool]
"""Whether it has taken long enough."""


class TimeIsOverError(Exception):
    """The end was not reached in the time that there was."""


def faults(path: Path) -> list[str]:
    """What is damaged, in a few words each; nothing for a store that is whole.

    Raises `StoreError` for a file that is no store of this program, and for one that cannot be
    looked at.
    """
    if not path.stat().st_size:
        return ["the file is empty"]
    log = log_of(path)
    if (lost := log_fault(path)) is not None:
        return [lost]
    missing = rows_missing(path)
    told = [missing_words(missing, path)] if missing else []
    try:
        with closing(_opened(path, log)) as connection:
            check_header(connection, path)
            return [*told, *_amounts(connection), *faults_in(connection)][:TOLD]
    except DamagedStoreError as error:
        return [error.how]
    except sqlite3.Error as error:
        how = damage_in(error)
        if how is not None:
            return [how]
        raise unreadable(path, error) from error


def faults_in(connection: sqlite3.Connection, over: Over | None = None) -> list[str]:
    """The same of a connection that is not used for anything else. Raises `sqlite3.Error`, and
    `TimeIsOverError` as soon as `over` says so."""
    if over is not None:
        connection.set_progress_handler(over, _STEPS)
    return list(islice(_faults(connection, over or (lambda: False)), TOLD))


def _opened(path: Path, log: Path) -> sqlite3.Connection:
    """A log that holds something is read with it; without one, nothing is made beside the file."""
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def _faults(connection: sqlite3.Connection, over: Over) -> Iterator[str]:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    yield from _schema(connection, version)
    # that of a schema which is not ours says little
    yield from _pages(connection)
    yield from _rows(connection, over)
    yield from _references(connection)


def _amounts(connection: sqlite3.Connection) -> list[str]:
    count = implausible_rows(connection)
    what = "attempt tells" if count == 1 else "attempts tell"
    return [f"{count} {what} of more tokens or dollars than can be"] if count else []


def _schema(connection: sqlite3.Connection, version: int) -> Iterator[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        for step in STEPS[:version]:
            take_step(new, step)
        expected = _parts(new)
    found = _parts(connection)
    for (kind, name), sql in expected.items():
        if found.get((kind, name)) != sql:
            what = "is missing" if (kind, name) not in found else "is not as it was made"
            yield f"the {kind} {name} {what}"
    if ("table", CHANGES) not in found:
        yield f"the table {CHANGES} is missing"
    elif connection.execute(f"SELECT count(*) FROM {CHANGES}").fetchone() != (version,):
        yield f"{CHANGES} does not say which changes were made"


def _parts(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {(kind, name): sql for kind, name, sql in rows}


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    for [found] in connection.execute(f"PRAGMA integrity_check({TOLD})").fetchall():
        if found != "ok":
            yield str(found)


def _rows(connection: sqlite3.Connection, over: Over) -> Iterator[str]:
    connection.text_factory = bytes
    spoken: dict[object, int] = {}
    for table in TABLES:
        there = _columns(connection, table)
        columns = [name for name in columns_of(table) if name in there]
        if not columns:
            continue
        for row in connection.execute(
            f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED ORDER BY seq"
        ):
            if over():
                raise TimeIsOverError
            values = dict(zip(columns, row, strict=True))
            found = fault(table, values)
            if found is not None:
                yield found
            elif table == "message" and not _follows(spoken, values):
                yield f"what was said before message {values['seq']} is missing"
    for table, names in _NO_FACTS.items():
        if not _columns(connection, table):
            continue  # an older store has none
        for row in connection.execute(f"SELECT {names} FROM {table} NOT INDEXED"):
            if not all(_is_text(value) for value in row):
                yield f"a row of {table} cannot be read"


_NO_FACTS: Final = {
    "mirrored": "path, digest",
    "kept": "path, digest",
    "lease": "engine, host, boot, space, began, place",
}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    connection.text_factory = str
    names = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
    connection.text_factory = bytes
    return names


def _follows(spoken: dict[object, int], values: dict[str, object]) -> bool:
    """Whether a message comes after the one before it, with nothing between."""
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
    connection.text_factory = str
    for table, seq, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} {seq} belongs to a {parent} that is gone"
    for [seq] in connection.execute(
        "SELECT seq FROM verdict WHERE take NOT IN (SELECT take FROM take_end WHERE finished = 1)"
    ):
        yield f"verdict {seq} is of a conversation whose end is gone"
