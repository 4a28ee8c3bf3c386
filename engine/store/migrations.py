"""The schema, step by step: each change and the record of it are one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from sqlite_utils import Database, Migrations

from engine.errors import StoreError
from engine.moments import Moment, reached
from engine.store.header import APPLICATION_ID, SCHEMA_VERSION

_NAMES: Final = ("1 everything", "2 whose it is", "3 found quickly")
MIGRATIONS: Final = Migrations("crosswind")


@MIGRATIONS(name=_NAMES[0])
def _everything(database: Database) -> None:
    _run("schema.sql", database)
    database.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@MIGRATIONS(name=_NAMES[1])
def _whose_it_is(database: Database) -> None:
    _run("schema_2.sql", database)


@MIGRATIONS(name=_NAMES[2])
def _found_quickly(database: Database) -> None:
    _run("schema_3.sql", database)


def _run(name: str, database: Database) -> None:
    schema = files("engine.store").joinpath(name).read_text(encoding="utf-8")
    for statement in _statements(schema):
        database.conn.execute(statement)


def apply_migrations(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date. Raises `StoreError` where it is newer than this program."""
    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    applied = {migration.name for migration in MIGRATIONS.applied(database)}
    if strange := applied.difference(_NAMES):
        raise StoreError(
            f"{path} was written by a newer Crosswind (it has the change "
            f"{', '.join(sorted(strange))!r}, which this one does not know): update Crosswind"
        )
    if applied.issuperset(_NAMES):
        return
    # a writer from the start: sqlite-utils alone would begin as a reader and might be refused
    connection.execute("BEGIN IMMEDIATE")
    try:
        MIGRATIONS.apply(database)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        reached(Moment.MIGRATING)
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    reached(Moment.MIGRATED)


def _statements(script: str) -> Iterator[str]:
    """One by one: SQLite's own way to run a script commits before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
