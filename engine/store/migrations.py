"""The schema, step by step: each change and the record of it are one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from sqlite_utils import Database, Migrations

from engine.errors import StoreError
from engine.store.header import APPLICATION_ID, SCHEMA_VERSION

_NAMES: Final = ("1 everything",)
_MIGRATIONS: Final = Migrations("crosswind")


@_MIGRATIONS(name=_NAMES[0])
def _everything(database: Database) -> None:
    schema = files("engine.store").joinpath("schema.sql").read_text(encoding="utf-8")
    for statement in _statements(schema):
        database.conn.execute(statement)
    database.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def apply_migrations(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date. Raises `StoreError` where it is newer than this program."""
    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    applied = {migration.name for migration in _MIGRATIONS.applied(database)}
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
        _MIGRATIONS.apply(database)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """One by one: SQLite's own way to run a script commits before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
