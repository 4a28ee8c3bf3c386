"""The schema, step by step: each change and the record of it are one transaction."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from sqlite_utils import Database, Migrations

from engine.errors import StoreError
from engine.moments import Moment, reached
from engine.store.header import APPLICATION_ID, SCHEMA_VERSION
from engine.store.schema import STEPS, take_step

_NAMES: Final = ("1 everything", "2 whose it is", "3 found quickly", "4 whom one spoke with")
MIGRATIONS: Final = Migrations("crosswind")


@MIGRATIONS(name=_NAMES[0])
def _everything(database: Database) -> None:
    take_step(database.conn, STEPS[0])
    database.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@MIGRATIONS(name=_NAMES[1])
def _whose_it_is(database: Database) -> None:
    take_step(database.conn, STEPS[1])


@MIGRATIONS(name=_NAMES[2])
def _found_quickly(database: Database) -> None:
    take_step(database.conn, STEPS[2])


@MIGRATIONS(name=_NAMES[3])
def _whom_one_spoke_with(database: Database) -> None:
    take_step(database.conn, STEPS[3])


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
