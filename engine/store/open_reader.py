"""Opens the store for readers, without loading the code that writes it."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

from engine.errors import StoreError
from engine.store.connection import Connection, raw_connection
from engine.store.filesystem import log_of
from engine.store.lock import Holder, ProcessState, holder_state, workspace_holder
from engine.store.reader import Reader
from engine.store.schema import (
    SCHEMA_VERSION,
    STEPS,
    check_header,
    damaged,
    migrated_copy,
    take_step,
    unreadable,
    version_of,
)


def open_reader(path: Path, *, leave_no_files: bool = False) -> Reader:
    """Open the store for reading, whether or not an engine is running; of an older store, a
    temporary copy that was migrated.

    With `leave_no_files`, SQLite creates none beside a store whose log is empty; it then does not
    notice what is written from now on. Raises `StoreError`.
    """
    refuse_unfit(path)
    if not path.exists():
        raise StoreError(
            f"{path} does not exist yet: nothing was run here so far; if files of earlier runs are "
            "under benchmarks/, `crosswind repair` rebuilds it from them"
        )
    refuse_empty(path)
    try:
        connection = _open_checked(path, None if leave_no_files else "mode=ro")
    except sqlite3.OperationalError as error:
        connection = _connect_unchanging(path, error)
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    connection.execute("PRAGMA query_only = ON")
    return Reader(Connection(connection, path))


def empty_reader(path: Path) -> Reader:
    """Return a reader of an empty store that would be at `path`; it is in memory only."""
    # made by all steps, so that no query needs to expect missing tables
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for step in STEPS:
        take_step(connection, step)
    return Reader(Connection(connection, path))


def reader_or_empty(path: Path) -> Reader:
    """Open the store at `path`, or an empty one if there is none. Raises `StoreError`."""
    return open_reader(path) if path.exists() else empty_reader(path)


def connect(path: Path, how: str | None) -> sqlite3.Connection:
    """As `raw_connection`, but raises `StoreError`."""
    try:
        return raw_connection(path, how)
    except sqlite3.Error as error:
        raise unreadable(path, error) from error


def refuse_empty(path: Path) -> None:
    """Raise `StoreError` for an empty file, and for what is not a file."""
    refuse_unfit(path)
    if path.stat().st_size == 0:
        raise damaged(path, "the file is empty")


def refuse_unfit(path: Path) -> None:
    """Raise `StoreError` for what is not a file, and for a broken link. It is not opened, as
    opening a pipe would block."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        if not path.is_symlink():
            return
        fault = f"is a link to {path.readlink()}, and nothing is there"
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    else:
        if stat.S_ISREG(kind):
            return
        fault = "is a folder" if stat.S_ISDIR(kind) else "is a pipe or a device"
    raise StoreError(
        f"{path} {fault}: expected the store; move it away, and `crosswind repair` makes one again "
        "from the files under benchmarks/"
    )


def _connect_unchanging(path: Path, error: sqlite3.OperationalError) -> sqlite3.Connection:
    """Open a store in a folder that this user may not write, as on a read-only disk. SQLite must
    then be told that the file does not change, so that is checked first."""
    # with `immutable=1` SQLite takes no lock and ignores the log: what is being written, or is in
    # the log only, would be missed or torn
    log = log_of(path)
    nobody_writes = workspace_holder(path.parent) is None
    all_is_in_it = not log.exists() or log.stat().st_size == 0
    if os.access(path.parent, os.W_OK) or not nobody_writes or not all_is_in_it:
        raise unreadable(path, error) from error
    try:
        return _open_checked(path, "immutable=1")
    except sqlite3.Error as second:
        raise unreadable(path, second) from second


def _open_checked(path: Path, how: str | None) -> sqlite3.Connection:
    """Connect and check. Raises `StoreError` for an unsuitable store, and `sqlite3.Error`."""
    connection = connect(path, how)
    try:
        check_header(connection, path)
        if version_of(connection) == SCHEMA_VERSION:
            return connection
        _refuse_being_written(path)
        copy = migrated_copy(connection)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return copy


def _refuse_being_written(older: Path) -> None:
    """Raise `StoreError` if an engine is at work: what it writes would be missing in a copy."""
    holder = workspace_holder(older.parent)
    if holder is not None:
        raise StoreError(
            f"{older} is being written by {holder}, an engine of an older Crosswind: read it with "
            "that version, or when the engine has ended"
        )


def is_older(path: Path) -> bool:
    """Whether there is a store of an older version. Raises `StoreError`."""
    if not path.exists():
        return False
    refuse_empty(path)
    with closing(connect(path, None)) as connection:
        try:
            check_header(connection, path)
            return version_of(connection) < SCHEMA_VERSION
        except sqlite3.Error as error:
            raise unreadable(path, error) from error


def writer_of(store: Path) -> Holder | None:
    """Return the engine that holds the store's lease, if its process is seen to be running."""
    if not store.exists():
        return None
    with suppress(StoreError), closing(open_reader(store)) as reader:
        lease = reader.lease()
        # a killed engine leaves its lease behind
        if lease is not None and holder_state(lease, store) is ProcessState.ALIVE:
            return lease.holder
    return None
