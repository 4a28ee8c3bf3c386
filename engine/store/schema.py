"""The schema, as a file for each migration; the header that identifies a store and its version; and
fragments of SQL that several modules share, in which `t` is the take and `v` its newest verdict."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from engine.benchmark import StopReason
from engine.checks import CheckKind
from engine.display import one_line
from engine.errors import DamagedError, StoreError
from engine.jury import TIED
from engine.store.filesystem import lacks_room, log_of, room_advice
from engine.store.tables import TABLES

STEPS: Final = ("schema.sql", *(f"schema_{number}.sql" for number in range(2, 12)))


def take_step(connection: sqlite3.Connection, name: str) -> None:
    """Execute one step of the schema, without a transaction. Raises `sqlite3.Error`."""
    for statement in _statements(Path(__file__).with_name(name).read_text("utf-8")):
        connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements: SQLite's `executescript` would commit before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


LAST_SEQ: Final = "SELECT max({}, 0)".format(
    ", ".join(f"coalesce((SELECT max(seq) FROM {table}), 0)" for table in TABLES)
)
CONV_ID: Final = (
    "scenario_id || '__' || target || CASE WHEN sample THEN '__s' || sample ELSE '' END"
)
"""Must be written as in the schema's index, or SQLite does not use that."""
NEWER_FINISHED: Final = (
    "SELECT 1 FROM take n JOIN take_end f ON f.take = n.seq AND f.finished = 1 "
    "WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id "
    "AND n.target = t.target AND n.sample = t.sample AND n.number > t.number"
)
TAKES_WITH_ENDS: Final = (
    "FROM take t LEFT JOIN take_end e ON e.seq = (SELECT max(seq) FROM take_end WHERE take = t.seq)"
)
"""`e` is a take's newest end: a take that was interrupted and continued has several."""
CHECKED_LANDMARKS: Final = f"kind = '{CheckKind.LANDMARKS}' AND unusable IS NULL"
"""Condition for a usable check of landmarks."""
TURNS: Final = "(SELECT count(*) FROM message m WHERE m.take = t.seq AND m.speaker = 'assistant')"

_AFTER_REPLY: Final = ", ".join(f"'{reason}'" for reason in StopReason if reason.after_reply)
WITHOUT_LAST_REPLY: Final = (
    f"SELECT e.take FROM take_end e WHERE e.stop_reason IN ({_AFTER_REPLY}) "
    "AND e.seq = (SELECT max(seq) FROM take_end WHERE take = e.take) "
    "AND 'assistant' IS NOT (SELECT speaker FROM message WHERE take = e.take "
    "ORDER BY turn DESC, speaker = 'assistant' DESC LIMIT 1)"
)
"""Takes that ended after a reply of the target, but whose last message is not a reply."""


def speaks(judges: str = "'[]'") -> str:
    """Return SQL for the verdict whose words explain what counts: the newest with that result, by
    one of the `judges` (SQL for a JSON array) if there is one. The words of a person's label are
    not for others to read, so a model's come first."""
    return (
        # IS, so that NULL equals NULL: an unscored verdict finds the unscored ones
        "coalesce((SELECT seq FROM verdict WHERE take = t.seq AND passed IS v.counted"
        f" ORDER BY source = 'human', judge NOT IN (SELECT value FROM json_each({judges})),"
        " seq DESC LIMIT 1), v.seq)"
    )


def outcome(said: str = "v") -> str:
    """Return SQL for what counts, as `passed` and `unscored`, the reason taken from `said`."""
    return (
        "v.counted AS passed, CASE WHEN v.counted IS NULL "
        f"THEN coalesce(nullif({said}.unscored, ''), '{TIED}') END AS unscored"
    )


APPLICATION_ID: Final = 0x43574E44
"""`CWND`, in the file's header; a file with another id belongs to another program."""
SCHEMA_VERSION: Final = 11
"""The number of migrations, in the file's header as `user_version`."""
CHANGES: Final = "_sqlite_migrations"
"""The table with a row for each applied migration."""

# one damaged page spoils hundreds of rows, and the first few tell where
MOST_REPORTED: Final = 5
_LONGEST_NAME: Final = 80

_OURS: Final = frozenset(TABLES)
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_SHORT_READ: Final = 522
"""SQLite's extended code for a file that is too short."""
_NO_TEXT: Final = "Could not decode to UTF-8"


def check_header(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file is a store of a known version. Raises `StoreError` and `sqlite3.Error`."""
    try:
        _check_version_and_schema(connection, path)
    except UnicodeDecodeError:
        # SQLite's own error, which quotes a damaged schema
        raise damaged(path, "its schema cannot be read") from None


def _check_version_and_schema(connection: sqlite3.Connection, path: Path) -> None:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or version != SCHEMA_VERSION:
        _check_older(connection, path, application, version)
    if wrong := schema_faults(connection, version):
        raise damaged(path, "; ".join(wrong[:MOST_REPORTED]))


def _check_older(
    connection: sqlite3.Connection, path: Path, application: int, version: int
) -> None:
    """Raise `StoreError` for what is not an older store with a sound header."""
    tables = _tables(connection)
    if not tables.isdisjoint(_OURS) or not tables:
        _refuse_a_damaged_one(connection, path, application, version, tables)
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path} is a database of another program (application id {application:#x}): "
            "move it away, or name another place as `store: PATH` in config.yaml; then "
            "`crosswind repair` makes a store again from the files under benchmarks/"
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer Crosswind (store version {version}, this one knows "
            f"{SCHEMA_VERSION}): update Crosswind; or move it away, and `crosswind repair` makes "
            "one again from the files under benchmarks/"
        )


def _refuse_a_damaged_one(
    connection: sqlite3.Connection, path: Path, application: int, version: int, tables: set[str]
) -> None:
    """Raise if the file is a store whose header does not match its tables."""
    if not tables:
        raise damaged(path, "there are no tables in it")
    if application != APPLICATION_ID:
        raise damaged(path, f"its header says application id {application:#x}")
    if CHANGES not in tables:
        raise damaged(path, f"the table {CHANGES} is missing")
    [changes] = connection.execute(f"SELECT count(*) FROM {CHANGES}").fetchone()
    if changes != version:
        raise damaged(
            path, f"its header says version {version}, but it has the changes of version {changes}"
        )


def schema_faults(connection: sqlite3.Connection, version: int) -> list[str]:
    """Say of each part of the schema how it differs from that of a store of this version: a trigger
    or a view of others changes what is read and written. Raises `sqlite3.Error`."""
    expected, parts = _expected_schema(version), _schema_parts(connection)
    foreign = [
        f"the {kind} {one_line(name, _LONGEST_NAME)} is not of Crosswind"
        for kind, name in parts
        if (kind, name) not in expected
    ]
    return foreign + [
        f"the {kind} {name} " + ("is not as it was made" if (kind, name) in parts else "is missing")
        for (kind, name), sql in expected.items()
        if parts.get((kind, name)) != sql
    ]


def tables_of(version: int) -> frozenset[str]:
    """Return the names of the tables whose rows are facts in a store of this version; of a version
    that does not exist, all."""
    if not 1 <= version <= SCHEMA_VERSION:
        return _OURS
    return _OURS.intersection(name for _, name in _expected_schema(version))


@cache
def _expected_schema(version: int) -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        for step in STEPS[:version]:
            take_step(new, step)
        return _schema_parts(new)


def _schema_parts(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    # not the table of sqlite-utils, which depends on its version, nor SQLite's statistics
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL "
        f"AND NOT (type IN ('table', 'index') "
        f"AND tbl_name IN ('{CHANGES}', 'sqlite_stat1', 'sqlite_stat4'))"
    )
    return {(kind, name): sql for kind, name, sql in rows}


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in rows}


def migrated_copy(older: sqlite3.Connection) -> sqlite3.Connection:
    """Return a copy of a store, of which the version is known, with the schema of today. SQLite
    keeps it in a nameless file, which is gone when it is closed. Raises `sqlite3.Error`."""
    copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        older.backup(copy)
        for step in STEPS[version_of(copy) :]:
            take_step(copy, step)
        copy.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except BaseException:
        copy.close()
        raise
    return copy


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a store's schema. Raises `sqlite3.Error`."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def unreadable(path: Path, error: sqlite3.Error) -> StoreError:
    """Return the error to raise after SQLite could not use a store."""
    code = getattr(error, "sqlite_errorcode", 0)
    how = damage_in(error)
    if how is not None:
        return damaged(path, how)
    log = log_of(path)
    if log.exists() and not log.is_file():
        return damaged(path, f"{log.name} beside it is not a file")
    if lacks_room(error):
        return StoreError(f"{path} could not be written: {error}; {room_advice(path, error)}")
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StoreError(
            f"{path} is being written by another program ({error}): close what has it open and "
            "try again"
        )
    return StoreError(f"{path} could not be read: {error}; check who may read and write there")


def damage_in(error: sqlite3.Error) -> str | None:
    """Say what is damaged; None for an error that is not about damage."""
    if str(error).startswith(_NO_TEXT):
        return "text in it is not UTF-8"  # the rest of SQLite's message is that text
    code = getattr(error, "sqlite_errorcode", 0)
    # our statements are correct, so SQLITE_ERROR means that a table is not as it should be
    return str(error) if code & 0xFF in _DAMAGE or code == _SHORT_READ else None


class DamagedStoreError(StoreError):
    """A damaged store; `how` says what is wrong."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(_damage(path, how))
        self.how = how


def damaged(path: Path, how: str) -> StoreError:
    """Return the error to raise for a damaged store."""
    return DamagedStoreError(path, how)


def row_is_damaged(row: sqlite3.Row) -> DamagedError:
    """Return the error to raise for a row that does not hold what its table declares. It names the
    file only if the row came through `Connection`."""
    seq = f"row {row['seq']}" if "seq" in row.keys() else "a row"  # noqa: SIM118  (not a mapping)
    return DamagedError(_damage(getattr(row, "store", None), f"{seq} cannot be read"))


def part_is_damaged(path: Path, how: str) -> DamagedError:
    """Return the error to raise if rows are missing."""
    return DamagedError(_damage(path, how))


def _damage(path: Path | None, how: str) -> str:
    return (
        f"{path or 'the store'} is damaged ({how}): `crosswind repair` puts it aside and saves "
        "what can be read; the files under benchmarks/ stay as they are"
    )
