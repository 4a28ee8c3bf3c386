"""Applies the schema's steps as migrations of sqlite-utils, which only this module
loads: few commands need it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.errors import StoreError
from engine.kill_points import KillPoint, reached
from engine.store.connection import transaction
from engine.store.schema import APPLICATION_ID, SCHEMA_VERSION, STEPS, take_step

_UNUSED: Final = [name for name in ("numpy", "pandas") if name not in sys.modules]
"""Hidden from sqlite-utils, which would import them to accept values of their types. We have none,
and loading them takes four times as long (0.09 -> 0.38 s of CPU)."""
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # None is "not installed"
try:
    from sqlite_utils import Database, Migrations
    from sqlite_utils.utils import Format, rows_from_file
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

__all__ = ["Database", "Format", "Migrations", "rows_from_file"]


_NAMES: Final = (
    "1 everything",
    "2 whose it is",
    "3 found quickly",
    "4 whom one spoke with",
    "5 whether the user did its part",
    "6 when a behaviour must hold",
    "7 what people label",
    "8 what checks say of a conversation",
    "9 what people say of metrics and scenarios",
    "10 views of what counts",
    "11 why the rest does not count, and what calls may have cost",
)
MIGRATIONS: Final = Migrations("crosswind")


def _migration(step: str) -> Callable[[Database], None]:
    def migrate(database: Database) -> None:
        take_step(database.conn, step)
        database.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    return migrate


for _name, _step in zip(_NAMES, STEPS, strict=True):
    MIGRATIONS(name=_name)(_migration(_step))


def apply_migrations(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date. Raises `StoreError` if it is newer than this program."""
    # no plug-ins: those a person installed for sqlite-utils' own command must not touch a store
    database = Database(connection, execute_plugins=False, recursive_triggers=False)
    applied = {migration.name for migration in MIGRATIONS.applied(database)}
    if strange := applied.difference(_NAMES):
        raise StoreError(
            f"{path} was written by a newer Crosswind (it has the change "
            f"{', '.join(sorted(strange))!r}, which this one does not know): update Crosswind"
        )
    if applied.issuperset(_NAMES):
        return
    # a write transaction from the start, which sqlite-utils would not begin
    with transaction(connection):
        MIGRATIONS.apply(database)
        # in the transaction of the steps: it is in the first page, so both are there or neither
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        reached(KillPoint.MIGRATING)
    reached(KillPoint.MIGRATED)
