"""Opens the store for the engine that writes it; `reading` opens it for everybody else."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

from engine.errors import StoreError
from engine.files import sync
from engine.store.acknowledged import missing_words, rows_missing
from engine.store.filesystem import (
    Mounts,
    current_mounts,
    has_log,
    keep_private,
    log_of,
    refuse_network,
)
from engine.store.inserts import CACHE_KB
from engine.store.lock import WATCH_S, Leaseholder
from engine.store.open_reader import connect, open_reader, refuse_empty, refuse_unfit
from engine.store.reader import Reader
from engine.store.schema import SCHEMA_VERSION, check_header, damaged, unreadable
from engine.store.writer import UtcClock, Writer


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Store(Writer):
    """The store, opened by the engine that holds the workspace: the only one that writes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        clock: UtcClock,
        lease: Leaseholder,
        reader: Reader,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.reader = reader
        """A separate connection, which sees what is committed."""
        self.warnings = warnings
        """What was found at opening that a person should know."""
        super().__init__(connection, path, clock, lease)

    def close(self) -> None:
        """Write what was given, and close the file. Raises `StoreError` for a failed `tell`, and if
        a full disk got no room within a few seconds."""
        self.reader.close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_store(
    path: Path,
    *,
    engine: str | None = None,
    clock: UtcClock = _utc_now,
    mounts: Mounts | None = None,
    watch_s: float = WATCH_S,
) -> Store:
    """Open the store for writing; create it if there is none.

    The caller holds the workspace; `engine` is the name that it has there. `mounts` are by default
    those of the system. An engine that cannot be seen from here is watched for
    `watch_s` seconds. Raises `StoreError`, and `WorkspaceBusyError` if another engine writes this
    store.
    """
    refuse_unfit(path)
    refuse_network(path, current_mounts() if mounts is None else mounts)
    _refuse_read_only(path)
    if not path.exists():
        create_store(path)
    refuse_empty(path)
    keep_private(path)
    # checked before SQLite opens the log: opening it for writing recovers it, and everything behind
    # the first wrong checksum is lost
    had_log, missing = has_log(path), rows_missing(path)
    if had_log and missing:  # opening would cut the log to what SQLite reads of it
        raise damaged(path, missing_words(missing, path))
    try:
        with ExitStack() as undo:
            connection = connect(path, "mode=rw")
            undo.callback(connection.close)
            check_header(connection, path)
            _prepare(connection, path)
            _migrate(connection, path)
            now = _milliseconds(clock)
            lease = Leaseholder(engine or token_hex(8), path, now)
            # a lease that was left behind says that the last engine did not end cleanly
            left_over = lease.take(connection, watch_s=watch_s)
            undo.callback(lease.give_back, connection)
            has_its_log = left_over is None or had_log or missing == 0
            warnings = () if has_its_log else (_without_its_log(path, missing),)
            # so that a store that lost its log can be told from one that was closed
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            # the reader first: the connection belongs to the writer's thread once there is a writer
            reader = open_reader(path)
            undo.callback(reader.close)
            store = Store(connection, path, clock, lease, reader, warnings)
            undo.pop_all()
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    return store


def _milliseconds(clock: UtcClock) -> Callable[[], int]:
    return lambda: round(clock().timestamp() * 1000)


def _without_its_log(path: Path, missing: int | None) -> str:
    """Warn that the last engine did not end cleanly and the log is gone."""
    what = "what was written last may be missing, and is"
    if missing is not None:
        what = (
            "the last row is missing, and is"
            if missing == 1
            else (f"the last {missing} rows are missing, and what they tell of is")
        )
    return (
        f"{path.name} came without its log {path.name}-wal, and the last engine did not close it: "
        f"{what} done again; if you still have the log, stop, and put both files back as they were"
    )


def _refuse_read_only(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder: the store would be {path.name} in it")
    for place in (folder, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise StoreError(
                f"{place} cannot be written by this user: a run stores what it does in {path}; "
                "change who may write there, or name another place as `store: PATH` in config.yaml"
            )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite answers with the mode that it set: `delete` where it cannot map shared memory, as on
    # most network file systems
    [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"{path} lies on a file system that cannot share memory between processes: move the "
            "workspace to a local disk, or name a local file as `store: PATH` in config.yaml"
        )
    for pragma in (
        "synchronous = FULL",  # an acknowledged write survives a power failure
        "fullfsync = ON",  # macOS: its plain fsync does not reach the disk; elsewhere no effect
        "checkpoint_fullfsync = ON",
        # SQLite's default, stated because the limit below depends on it: with pages of 16 kB, 16 MB
        # between two checkpoints
        "wal_autocheckpoint = 1000",
        # 64 MiB: a log that grew during a long read is truncated to it when it is restarted
        "journal_size_limit = 67108864",
        # what a run writes is at the ends of tables and indexes: more would fill up with pages that
        # nobody asks for again
        f"cache_size = {-CACHE_KB}",
        # off by default, and set for each connection
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _is_up_to_date(connection):
        return  # a restart should be fast
    # imported here, as sqlite-utils takes longer to load than the app has for opening a reader
    from engine.store.migrations import apply_migrations

    apply_migrations(connection, path)


def _is_up_to_date(connection: sqlite3.Connection) -> bool:
    """Whether all known migrations were applied, and no others."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        return False
    [changes] = connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()
    return bool(changes == SCHEMA_VERSION)


def create_store(path: Path) -> None:
    """Create an empty store, atomically: made under another name, then renamed.

    Raises `StoreError`.
    """
    log = log_of(path)
    if log.exists() and log.stat().st_size > 0:
        raise StoreError(
            f"{path} is missing, but {log.name} beside it holds what was last written to it: put "
            "the missing file back; or `crosswind repair` saves what can be read of it"
        )
    unfinished = path.with_name(path.name + ".new")
    try:
        # SQLite would apply an old log to a new file of the same name
        for leftover in (log, unfinished, unfinished.with_name(unfinished.name + "-journal")):
            leftover.unlink(missing_ok=True)
        # SQLite creates the log with the mode of the file, so this keeps transcripts private
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = connect(unfinished, "mode=rw")
        try:
            # possible only before the first table; `pages` relies on it
            connection.execute("PRAGMA page_size = 16384")
            # it must be on disk before it is renamed
            connection.execute("PRAGMA synchronous = FULL")
            _migrate(connection, path)
        finally:
            connection.close()
        # the file at `path` is complete from the start, however this ends
        unfinished.rename(path)
        sync(path.parent)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be created: {error}; check the disk's space and who may write there"
        ) from error
