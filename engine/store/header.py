"""How a file says that it is a store, and of which version."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from engine.errors import StoreError

APPLICATION_ID: Final = 0x43574E44
"""`CWND`, in the header of the file: what has another one is not ours to touch."""
SCHEMA_VERSION: Final = 1
"""The number of migrations, in the header as `user_version`."""


def check_header(connection: sqlite3.Connection, path: Path) -> None:
    """Look before anything is changed. Raises `StoreError` and `sqlite3.Error`."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path} is a database of another program (application id {application:#x}): "
            "move it away, or name another place as `store: PATH` in config.yaml"
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer Crosswind (store version {version}, this one knows "
            f"{SCHEMA_VERSION}): update Crosswind"
        )


def unreadable(path: Path, error: sqlite3.Error) -> StoreError:
    """What to say of a store that SQLite cannot read."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreError(
            f"{path} is damaged ({error}): put a copy of it back, or move it away to begin anew; "
            "the files under benchmarks/ stay as they are"
        )
    return StoreError(f"{path} could not be read: {error}; check who may read and write there")
