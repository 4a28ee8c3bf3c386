"""How far a store was written, kept beside it while an engine has it.

SQLite reads a log as far as its sums are right, and goes on from there: a log that lost its end, or
came to harm in its middle, looks like one of an engine that was killed earlier. So the engine says
in a small file which rows it has acknowledged. It says so once they are on disk, and does not wait
until the file is: whatever ends engine or machine, the file tells of no more than there was.
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
from engine.store.pages import has_log, log_of
from engine.store.tables import TABLES

SUFFIX: Final = "-acknowledged"

_LOOKED_AT: Final = 10_000
"""Of so many of the last rows it is looked whether each is there: a log rarely holds more, and a
restart is not to be kept waiting."""


class Acknowledgements:
    """What the engine that writes a store has acknowledged. One thread."""

    def __init__(self, store: Path, engine: str, seq: int) -> None:
        """`seq` is the last one before this engine's first."""
        self._path = store.with_name(store.name + SUFFIX)
        # of fixed width, so that each line covers the one before and is written in one step
        self._begin = f"{engine} {seq:020d}"
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):  # no room for it: nothing is said
            self._path.unlink(missing_ok=True)
            # unlinked first and made with O_EXCL: what another user or an old engine left in its
            # place, a link above all, is never written to
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        self.say(seq)

    def say(self, seq: int) -> None:
        """Everything up to this one is on disk."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                # no fsync, which would cost what a commit costs: what is lost with the machine
                # makes the file claim less, never more
                os.pwrite(self._descriptor, f"{self._begin} {seq:020d}\n".encode(), 0)

    def close(self) -> None:
        """There is no more to say of an engine that ended by itself."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # it is gone, or another engine's by now
            # the name may be another engine's file by now; only our own is taken away
            if os.path.samestat(os.fstat(self._descriptor), self._path.lstat()):
                self._path.unlink()
        os.close(self._descriptor)
        self._descriptor = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What an engine that did not end well, or is at work, has said."""

    engine: str
    first: int
    """The last `seq` before its own."""
    last: int

    def missing(self, connection: sqlite3.Connection) -> int | None:
        """How many of these rows are not there; None where the store is not that engine's any more.
        Raises `sqlite3.Error`."""
        lease = connection.execute("SELECT engine FROM lease").fetchone()
        # bytes, too: a caller that looks for damage reads text as bytes
        if lease is None or lease[0] not in {self.engine, self.engine.encode()}:
            return None
        low = max(self.first, self.last - _LOOKED_AT)
        counts = " + ".join(
            f"(SELECT count(*) FROM {table} WHERE seq > ?1 AND seq <= ?2)" for table in TABLES
        )
        [there] = connection.execute(f"SELECT {counts}", (low, self.last)).fetchone()
        return self.last - low - int(there)


def acknowledged(store: Path) -> Acknowledged | None:
    """None where nothing is said, or it cannot be read. To be asked before the store is looked at:
    an engine at work goes on."""
    try:
        path = store.with_name(store.name + SUFFIX)
        # O_NONBLOCK: to open a pipe for reading waits until somebody writes to it
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 200).decode("ascii")
        finally:
            os.close(descriptor)
        engine, first, last = line.split()
        return Acknowledged(engine, int(first), int(last))
    except (OSError, ValueError):
        return None


def rows_missing(store: Path) -> int | None:
    """How many rows were acknowledged and are not there; None where that cannot be told. Changes
    nothing."""
    said = acknowledged(store)
    # of an empty file SQLite deletes the log
    if said is None or not store.is_file() or not store.stat().st_size:
        return None
    try:
        with contextlib.closing(raw_connection(store)) as connection:
            return said.missing(connection)
    except sqlite3.Error:
        return None


def missing_words(count: int, store: Path) -> str:
    """Why rows are missing, for people."""
    log = log_of(store)
    rows = plural(count, "row that was written last is", "rows that were written last are")
    if has_log(store):
        return f"{rows} missing from its log {log.name}, which was cut or came to harm"
    return f"{rows} missing, and its log {log.name} is gone"
