"""How a file says that it is a store, and of which version."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from engine.errors import StoreError
from engine.store.room import lacks_room, room_advice

APPLICATION_ID: Final = 0x43574E44
"""`CWND`, in the header of the file: what has another one is not ours to touch."""
SCHEMA_VERSION: Final = 4
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


class OlderStoreError(StoreError):
    """A store of an older version, which whoever only reads cannot bring up to date."""


def refuse_older(connection: sqlite3.Connection, path: Path) -> None:
    """For whoever only reads. Raises `OlderStoreError`."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version < SCHEMA_VERSION:
        raise OlderStoreError(
            f"{path} was written by an older Crosswind (store version {version}, this one reads "
            f"{SCHEMA_VERSION}): `crosswind run` or `crosswind repair` brings it up to date"
        )


def unreadable(path: Path, error: sqlite3.Error) -> StoreError:
    """What to say of a store that SQLite cannot use."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return damaged(path, str(error))
    if lacks_room(error):
        return StoreError(f"{path} could not be written: {error}; {room_advice(path, error)}")
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return StoreError(
            f"{path} is being written by another program ({error}): close what has it open and "
            "try again"
        )
    return StoreError(f"{path} could not be read: {error}; check who may read and write there")


def damaged(path: Path, how: str) -> StoreError:
    """What to say of a store that is not whole."""
    return StoreError(
        f"{path} is damaged ({how}): `crosswind repair` puts it aside and saves what can be read; "
        "the files under benchmarks/ stay as they are"
    )
