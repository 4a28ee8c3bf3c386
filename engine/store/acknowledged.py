"""Records beside a store how far an engine has written it.

SQLite reads a log up to the first wrong checksum and ignores the rest, so a truncated or damaged
log looks like one of an engine that was killed earlier. The engine therefore writes the last
acknowledged row to a small file, after the commit and without a sync: however engine or machine
ends, the file never claims more than was committed. It also keeps how many rows found no room on a
full disk, which the store itself cannot.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.display import plural
from engine.store.connection import raw_connection
from engine.store.filesystem import has_log, log_of
from engine.store.tables import TABLES

SUFFIX: Final = "-acknowledged"

_LOOKED_AT: Final = 10_000
"""The number of last rows that are checked: a log rarely holds more, and a restart must be fast."""


class Acknowledgements:
    """What the engine that writes a store has acknowledged. Used by one thread."""

    def __init__(self, store: Path, engine: str, seq: int) -> None:
        """`seq` is the last one before this engine's first."""
        self._path = store.with_name(store.name + SUFFIX)
        # of fixed width, so that each line overwrites the one before in a single write
        self._begin = f"{engine} {seq:020d}"
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # no room: nothing is recorded
            self._path.unlink(missing_ok=True)
            # unlinked and created with O_EXCL, so that a file or link of another user or an old
            # engine is never written to
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        self.acknowledge(seq)

    def acknowledge(self, seq: int, *, unwritten: int = 0) -> None:
        """Record that everything up to this row is on disk, and that later rows never will be."""
        if self._descriptor is not None:
            line = f"{self._begin} {seq:020d} {unwritten:020d}\n"
            with contextlib.suppress(OSError):
                # no fsync, which would cost as much as a commit: a crash of the machine can only
                # make the file claim less
                os.pwrite(self._descriptor, line.encode(), 0)

    def give_up(self, seq: int, unwritten: int) -> None:
        """Record for how many rows there was no room, and leave the file: it has its space already,
        where the store has none for this."""
        self.acknowledge(seq, unwritten=unwritten)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        """Delete the file, as the engine ended cleanly."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # it may be gone
            # the name may be another engine's file by now; only our own is deleted
            if os.path.samestat(os.fstat(self._descriptor), self._path.lstat()):
                self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What an engine that is running, or did not end cleanly, has acknowledged."""

    engine: str
    first: int
    """The last `seq` before this engine's first."""
    last: int
    unwritten: int = 0
    """Later rows that it could not write before it ended."""

    def missing(self, connection: sqlite3.Connection) -> int | None:
        """Count the acknowledged rows that are not in the store; None if another engine has its
        lease, or none. Raises `sqlite3.Error`."""
        lease = connection.execute("SELECT engine FROM lease").fetchone()
        if lease is None or lease[0] != self.engine:
            return None
        low = max(self.first, self.last - _LOOKED_AT)
        counts = " + ".join(
            f"(SELECT count(*) FROM {table} WHERE seq > ?1 AND seq <= ?2)" for table in TABLES
        )
        [there] = connection.execute(f"SELECT {counts}", (low, self.last)).fetchone()
        return self.last - low - int(there)


def acknowledged(store: Path) -> Acknowledged | None:
    """Return what is recorded; None if nothing is, or if it cannot be read. To be called before
    reading the store, as a running engine continues to write."""
    try:
        path = store.with_name(store.name + SUFFIX)
        # O_NONBLOCK: opening a pipe would block until somebody writes to it
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 200).decode("ascii")
        finally:
            os.close(descriptor)
        # earlier versions did not write the last field
        engine, first, last, *unwritten = line.split()
        return Acknowledged(engine, int(first), int(last), *map(int, unwritten[:1]))
    except (OSError, ValueError):
        return None


def rows_missing(store: Path) -> int | None:
    """Count the acknowledged rows that are missing; None if that is unknown. Changes nothing."""
    last = acknowledged(store)
    # SQLite deletes the log of an empty file
    if last is None or not store.is_file() or not store.stat().st_size:
        return None
    try:
        with contextlib.closing(raw_connection(store)) as connection:
            return last.missing(connection)
    except sqlite3.Error:
        return None


def rows_unwritten(store: Path) -> int:
    """Count the rows that the last engine could not write before it ended, for want of room."""
    last = acknowledged(store)
    return 0 if last is None else last.unwritten


def missing_words(count: int, store: Path) -> str:
    """Say to people why rows are missing."""
    log = log_of(store)
    rows = plural(count, "row that was written last is", "rows that were written last are")
    if has_log(store):
        return f"{rows} missing from its log {log.name}, which was cut or came to harm"
    return f"{rows} missing, and its log {log.name} is gone"
