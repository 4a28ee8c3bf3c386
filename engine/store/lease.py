"""One engine per store: a row that says whose it is, looked at with everything that is written.

The lock of a workspace can be deleted, and two workspaces can name one store. What decides is
written into the store itself. Nothing of it hangs on a clock: a process of this machine is asked
for; one that cannot be seen from here has to be seen writing its heartbeat.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.errors import StoreError, WorkspaceBusyError
from engine.store.lock import Holder
from engine.store.process import Process, ProcessState, fate, this_process
from engine.store.tables import utc_datetime

IDLE_BEAT_S: Final = 5.0
"""How often an engine that has nothing to write says that it is there."""
BUSY_BEAT_S: Final = 2.5
"""How often it is said with something that is written anyway."""
WATCH_S: Final = 7.0
"""How long another engine that cannot be seen from here is watched for a heartbeat."""

_STEP_S: Final = 0.25

_OPEN_HERE: set[str] = set()
"""The engines of this process that have a store open."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Whose a store is."""

    engine: str
    process: Process
    since: int
    place: str
    """The file that it was written into: a copy of a store is nobody's."""
    beats: int

    @property
    def holder(self) -> Holder:
        """The engine, as people are told of it; without its socket, which only the lock names."""
        process = self.process
        return Holder(
            process.pid, process.host, utc_datetime(self.since), engine=self.engine, process=process
        )


LEASE: Final = "engine, pid, host, boot, space, began, since, place, beats"


def lease_of(connection: sqlite3.Connection) -> Lease | None:
    """Raises `sqlite3.Error`."""
    row = connection.execute(f"SELECT {LEASE} FROM lease").fetchone()
    return None if row is None else lease_from(row)


def lease_from(row: Iterable[Any]) -> Lease:
    """Of the columns that `LEASE` names, in its order."""
    engine, pid, host, boot, space, began, since, place, beats = row
    return Lease(engine, Process(pid, host, boot, space, began), since, place, beats)


def holder_state(lease: Lease, path: Path) -> ProcessState:
    """What became of the engine whose the store at `path` is."""
    if lease.place != place_of(path):
        return ProcessState.GONE
    here = this_process()
    # this very process, but not an engine that it has: one of its earlier ones ended without a word
    if lease.process == here and lease.engine not in _OPEN_HERE:
        return ProcessState.GONE
    return fate(lease.process, here)


def place_of(path: Path) -> str | None:
    """None where there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    # the inode, not the path: a link names the same file, and a copy is another
    return f"{found.st_dev}:{found.st_ino}"


class Leaseholder:
    """This engine's claim on a store. Belongs to whoever writes."""

    def __init__(self, engine: str, path: Path, now: Callable[[], int]) -> None:
        self._engine = engine
        self._path = path
        self._place = place_of(path)
        self._now = now
        self._beaten = 0.0

    @property
    def engine(self) -> str:
        """What the engine whose claim this is calls itself."""
        return self._engine

    def take(self, connection: sqlite3.Connection, *, watch_s: float = WATCH_S) -> Lease | None:
        """Make the store this engine's; the lease of one that did not end well, if there was one.

        Raises `WorkspaceBusyError` where the store is another's, and `sqlite3.Error`.
        """
        self._refuse_living(connection)
        first: Lease | None = None
        until = 0.0
        while True:
            connection.execute("BEGIN IMMEDIATE")
            try:
                found = lease_of(connection)
                # its beats went on while it was watched, whatever its clock says
                if first is not None and found != first and found is not None:
                    raise self._busy(found)
                fate = ProcessState.GONE if found is None else holder_state(found, self._path)
                watched = first is not None and time.monotonic() >= until
                if fate is ProcessState.GONE or (fate is ProcessState.UNKNOWN and watched):
                    self._write(connection)
                    connection.execute("COMMIT")
                    return found
                if found is not None and fate is ProcessState.ALIVE:
                    raise self._busy(found)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if first is None:
                first, until = found, time.monotonic() + watch_s
            time.sleep(min(_STEP_S, watch_s))

    def _refuse_living(self, connection: sqlite3.Connection) -> None:
        """Before the right to write is waited for, which a living engine may hold for long."""
        found = lease_of(connection)
        if found is not None and holder_state(found, self._path) is ProcessState.ALIVE:
            raise self._busy(found)

    def _busy(self, lease: Lease) -> WorkspaceBusyError:
        return WorkspaceBusyError(
            f"{self._path} is being written by {lease.holder}: `crosswind watch` shows it, "
            "`crosswind stop` ends it"
        )

    def _write(self, connection: sqlite3.Connection) -> None:
        process = this_process()
        connection.execute("DELETE FROM lease")
        connection.execute(
            "INSERT INTO lease (one, engine, pid, host, boot, space, began, since, heartbeat, "
            "beats, place) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
            (
                *(self._engine, process.pid, process.host, process.boot, process.space),
                *(process.began, self._now(), self._now(), self._place),
            ),
        )
        self._beaten = time.monotonic()
        _OPEN_HERE.add(self._engine)

    def keep(self, connection: sqlite3.Connection, *, every_s: float) -> None:
        """Look, within a transaction that writes, whether the store is still this engine's.

        Raises `StoreError` where it is not, and `sqlite3.Error`.
        """
        found = connection.execute("SELECT engine FROM lease").fetchone()
        if found is None or found[0] != self._engine:
            raise StoreError(self._taken(lease_of(connection)))
        if place_of(self._path) != self._place:
            raise StoreError(
                f"{self._path} was moved, deleted or replaced while this engine wrote it: this "
                "engine writes no more; put the file back, or run again"
            )
        if time.monotonic() - self._beaten >= every_s:
            connection.execute("UPDATE lease SET beats = beats + 1, heartbeat = ?", (self._now(),))
            self._beaten = time.monotonic()

    def _taken(self, lease: Lease | None) -> str:
        who = "somebody" if lease is None else str(lease.holder)
        return f"{self._path} was taken over by {who}: this engine writes no more"

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Say that this engine has ended well, as far as there is room to say it."""
        _OPEN_HERE.discard(self._engine)
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("DELETE FROM lease WHERE engine = ?", (self._engine,))
