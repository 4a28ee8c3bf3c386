"""One engine per workspace and per store: a lock that the operating system lets go of when its
holder dies, and a row that says whose the store is, looked at with everything that is written.

The lock of a workspace can be deleted, and two workspaces can name one store. What decides is
written into the store itself. Nothing of it hangs on a clock: a process of this machine is asked
for; one that cannot be seen from here has to be seen writing its heartbeat.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from engine.errors import StoreError, WorkspaceBusyError
from engine.kill_points import KillPoint, reached
from engine.store.process import Process, ProcessState, fate, this_process
from engine.store.tables import utc_datetime

LOCK_NAME: Final = "crosswind.lock"

_PATIENCE_S: Final = 0.5
"""Whoever asks who holds a workspace has its lock for a moment; so has an engine that has not said
yet who it is."""
_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a workspace, as it says itself; what could not be read is None."""

    pid: int | None
    host: str | None
    since: datetime | None
    socket: Path | None = None
    """Where it can be spoken to."""
    engine: str | None = None
    """The name that it gave itself, by chance; no other engine has it."""
    process: Process | None = None
    """So that no other one can be taken for it."""

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid}"
        where = "" if self.host is None else f" on {self.host}"
        when = "" if self.since is None else f" since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return who + where + when


_NOBODY_KNOWN: Final = Holder(None, None, None)


class WorkspaceLock:
    """A workspace that is held, by this process."""

    def __init__(self, root: Path, descriptor: int, socket: Path | None) -> None:
        self.root = root
        self.engine = token_hex(8)
        """What this engine calls itself, here and in the store."""
        self._descriptor = descriptor
        self._process = this_process()
        self._since = datetime.now(UTC)
        self.tell_socket(socket)

    def tell_socket(self, socket: Path | None) -> None:
        """Say, to whoever asks for the holder, where this engine can be spoken to."""
        introduction = {
            **asdict(self._process),
            "since": self._since.isoformat(timespec="seconds"),
            "engine": self.engine,
            "socket": None if socket is None else str(socket),
        }
        try:
            # whoever reads between the two steps reads one line, which is whole
            line = json.dumps(introduction).encode() + b"\n"
            os.pwrite(self._descriptor, line, 0)
            os.ftruncate(self._descriptor, len(line))
        except OSError:  # no room on the disk: it is held all the same
            os.ftruncate(self._descriptor, 0)


@contextlib.contextmanager
def hold_workspace(root: Path, socket: Path | None = None) -> Iterator[WorkspaceLock]:
    """Hold the workspace for as long as the block lasts.

    Raises `WorkspaceBusyError` where another engine holds it, `StoreError` where it cannot be held
    at all.
    """
    path = root / LOCK_NAME
    reached(KillPoint.LOCKING)
    descriptor = _locked(path)
    try:
        hold = WorkspaceLock(root, descriptor, socket)
        reached(KillPoint.LOCKED)
        yield hold
        # only emptied, never deleted: whoever waits on a deleted file waits on another lock
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def workspace_holder(root: Path) -> Holder | None:
    """Who holds the workspace; None where nobody does. Creates nothing."""
    try:
        # without O_NONBLOCK, a pipe in its place would be waited for
        descriptor = os.open(root / LOCK_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # shared, so that two who only look do not take each other for an engine
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _introduced(descriptor) or _NOBODY_KNOWN
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _locked(path: Path) -> int:
    until = time.monotonic() + _PATIENCE_S
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _introduced(descriptor)
            os.close(descriptor)
            # whoever locked it a moment ago has not introduced itself yet, and who only looks holds
            # it for a moment too: neither is worth a refusal
            if holder is None and time.monotonic() < until:
                time.sleep(_STEP_S)
                continue
            raise WorkspaceBusyError(
                f"{path.parent} is being worked on by {holder or _NOBODY_KNOWN}, which holds "
                f"{path.name}: `crosswind watch` shows it, `crosswind stop` ends it"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"{path} cannot be locked ({error.strerror}): the file system of a workspace must "
                "support locks; move the workspace to a local disk"
            ) from error
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # somebody deleted the file between our two steps


def _opened(path: Path) -> int:
    # through a link the lock of another workspace would be taken; a pipe in its place would be
    # waited for; and a child that kept the descriptor would keep the lock
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
            return descriptor
        os.close(descriptor)
        raise StoreError(
            f"{path} is a pipe or a device: expected a file that a run can lock; remove it"
        )
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened ({error.strerror}): a run writes into the workspace's "
            "folder; check that it exists and who may write there"
        ) from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _introduced(descriptor: int) -> Holder | None:
    """What the holder says of itself. None where it has not done so yet, is none of ours, or where
    what stands there is of an earlier one that was killed."""
    # one line: what a longer one left behind it stands until the file is cut to its length
    line = os.pread(descriptor, 4096, 0).partition(b"\n")[0]
    try:
        said = json.loads(line)
        process = Process(
            int(said["pid"]),
            str(said["host"]),
            str(said.get("boot", "")),
            str(said.get("space", "")),
            str(said.get("began", "")),
        )
        since = datetime.fromisoformat(str(said["since"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    # a killed holder could not empty the file: its words stand there until the next one writes its
    # own
    if fate(process, this_process()) is ProcessState.GONE:
        return None
    socket, engine = said.get("socket"), said.get("engine")
    return Holder(
        process.pid,
        process.host,
        since,
        None if socket is None else Path(str(socket)),
        None if engine is None else str(engine),
        process,
    )


IDLE_BEAT_S: Final = 5.0
"""How often an engine that has nothing to write says that it is there."""
BUSY_BEAT_S: Final = 2.5
"""How often it is said with something that is written anyway."""
# more than an idle beat and a look take together, so that a living engine is seen to beat at least
# once
WATCH_S: Final = 7.0
"""How long another engine that cannot be seen from here is watched for a heartbeat."""

_LOOK_S: Final = 0.25

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
    """The lease that stands in a store; None in one that is nobody's. Raises `sqlite3.Error`."""
    row = connection.execute(f"SELECT {LEASE} FROM lease").fetchone()
    return None if row is None else lease_from(row)


def lease_from(row: Iterable[Any]) -> Lease:
    """The lease in the columns that `LEASE` names, in its order."""
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
        # cheap and without the right to write; what is decided on is looked at again below
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
                # an engine on another machine or in another container: only its heartbeats tell,
                # and two looks that found the same after this time have seen none
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
            # outside the transaction: the other engine needs the right to write for its beats
            time.sleep(min(_LOOK_S, watch_s))

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
        # the table has one row by its key `one`; whatever a dead engine left goes in the same
        # transaction
        connection.execute("DELETE FROM lease")
        connection.execute(
            "INSERT INTO lease (one, engine, pid, host, boot, space, began, since, heartbeat, "
            "beats, place) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
            (
                *(self._engine, process.pid, process.host, process.boot, process.space),
                *(process.began, self._now(), self._now(), self._place),
            ),
        )
        # by the monotonic clock, as a clock that is set back would stop the heart
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
            # only where it is still ours: an engine that lost the store must not end another's
            # claim
            connection.execute("DELETE FROM lease WHERE engine = ?", (self._engine,))
