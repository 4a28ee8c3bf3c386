"""Ensures that one engine at a time writes a workspace and a store.

A workspace is held by a file lock, which the operating system releases when its holder dies. That
lock file can be deleted, and two workspaces can name one store, so the store itself has a lease: a
row that names its engine and is checked in every transaction that writes. No wall clock decides: a
process on this machine is looked up, and one that cannot be seen from here is alive while it
writes its heartbeat.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from engine.errors import StoreError, WorkspaceBusyError
from engine.kill_points import KillPoint, reached
from engine.store.schema import LAST_SEQ
from engine.store.tables import utc_datetime

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES: Final = ("pid", "time")
"""In another namespace of these kinds, process ids or start times mean something else."""
_DEAD_STATES: Final = frozenset("ZX")
# `ps` answers in milliseconds; a system that hangs must not hang the engine
_TIMEOUT_S: Final = 2.0


class ProcessState(Enum):
    """Whether a process is running."""

    ALIVE = auto()
    GONE = auto()
    UNKNOWN = auto()
    """It is on another machine or in another container."""


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process, which no other process can have; an unknown part is empty."""

    pid: int
    host: str
    boot: str
    """Identifies the machine's present boot."""
    space: str
    """The namespaces within which `pid` and `began` are valid."""
    began: str
    """The start time: a process id may be reused, but not with the same start."""


def this_process() -> Process:
    """Return this process. Correct in a forked child, too, whose process id differs."""
    return _describe(os.getpid())


@cache
def _describe(pid: int) -> Process:
    """Cached, as some systems can only be asked by starting a program."""
    return Process(pid, socket.gethostname(), _boot(), _space(), _began(pid) or "")


def state_of_process(other: Process, here: Process) -> ProcessState:
    """Return whether `other` is running, as far as `here` can see."""
    # containers of one machine share its boot id; without comparing namespaces a process id of
    # one container would be looked up in another
    if other.boot and other.boot == here.boot and other.space == here.space:
        return ProcessState.ALIVE if _is_there(other) else ProcessState.GONE
    if other.boot and here.boot and other.boot != here.boot and other.host == here.host:
        return ProcessState.GONE  # this machine was restarted since
    return ProcessState.UNKNOWN


def send(number: signal.Signals, process: Process) -> bool:
    """Send a signal to a process. False if it may not be that very process, as on another machine
    or in another container, or if it belongs to another user."""
    if not process.began or state_of_process(process, this_process()) is not ProcessState.ALIVE:
        return False
    try:
        # a handle, so that a process that gets the id next does not get the signal
        handle = os.pidfd_open(process.pid) if sys.platform == "linux" else None
        try:
            # checked after opening the handle: from here on the id cannot refer to another process
            if _began(process.pid) != process.began or not _is_own(process.pid):
                return False
            if sys.platform == "linux" and handle is not None:
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(process.pid, number)
        finally:
            if handle is not None:
                os.close(handle)
    except OSError:
        return False
    return True


def _is_own(pid: int) -> bool:
    """Whether this user owns a process. Without `/proc`, kill(2) checks that, but not for root."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        # kill(2) checks the owner for everybody but root
        return sys.platform != "linux" and os.getuid() != 0


def _is_there(process: Process) -> bool:
    began = _began(process.pid)
    # an empty start could not be read, then or now: the process id alone must do
    return began is not None and (began == process.began or "" in {began, process.began})


def _boot() -> str:
    if sys.platform == "darwin":
        return _output_of("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return " ".join(str(Path(f"/proc/self/ns/{name}").readlink()) for name in _NAMESPACES)
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Return when a process started, in the system's own format; None if it is not running, empty
    if that cannot be read."""
    if sys.platform == "darwin":
        return _began_by_ps(pid)
    try:
        # the name in parentheses may hold anything, parentheses too
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends in this moment
        return None
    except OSError:
        return ""
    # after the name: field 3 of proc(5) is the state, field 22 the start in ticks since boot; a
    # zombie has ended, though its process id is still taken
    return None if fields[0] in _DEAD_STATES else fields[19]


def _began_by_ps(pid: int) -> str | None:
    state, _, began = _output_of("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    if state:
        return None if state[0] in _DEAD_STATES else began.strip()
    # ps says nothing of a process that is not there, or it failed or took too long
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it is there, and another user's
    return ""


def _output_of(*command: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603  (a fixed command of the system)
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            # ps writes times in the language and time zone of whoever asks
            env={"LC_ALL": "C", "TZ": "UTC"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


LOCK_NAME: Final = "crosswind.lock"

_PATIENCE_S: Final = 0.5
"""How long to retry a lock without a named holder: a process that only looks holds it for a moment,
and an engine that has just started has not written its name yet."""
# `flock` either waits for ever or not at all, so a wait with an end is made of tries
_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a workspace, as its lock file says; None for what could not be read."""

    pid: int | None
    host: str | None
    since: datetime | None
    socket: Path | None = None
    """The path of the engine's socket."""
    engine: str | None = None
    """The random name that the engine gave itself."""
    process: Process | None = None
    """Identifies the process even if its number is reused."""

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid}"
        where = "" if self.host is None else f" on {self.host}"
        when = "" if self.since is None else f" since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return who + where + when


_NOBODY_KNOWN: Final = Holder(None, None, None)


class WorkspaceLock:
    """A workspace lock that this process holds."""

    def __init__(self, root: Path, descriptor: int, socket: Path | None) -> None:
        self.root = root
        self.engine = token_hex(8)
        """This engine's random name, in the lock file and in the store."""
        self._descriptor = descriptor
        self._process = this_process()
        self._since = datetime.now(UTC)
        self.tell_socket(socket)

    def tell_socket(self, socket: Path | None) -> None:
        """Write into the lock file who holds it and where this engine's socket is."""
        introduction = {
            **asdict(self._process),
            "since": self._since.isoformat(timespec="seconds"),
            "engine": self.engine,
            "socket": None if socket is None else str(socket),
        }
        try:
            # between the two steps a reader still finds one complete line
            line = json.dumps(introduction).encode() + b"\n"
            os.pwrite(self._descriptor, line, 0)
            os.ftruncate(self._descriptor, len(line))
        except OSError:  # no room on the disk: the lock is held without a name
            os.ftruncate(self._descriptor, 0)


@contextlib.contextmanager
def hold_workspace(root: Path, socket: Path | None = None) -> Iterator[WorkspaceLock]:
    """Hold the workspace's lock while the block runs.

    Raises `WorkspaceBusyError` if another engine holds it, and `StoreError` if the file system
    refuses the lock.
    """
    path = root / LOCK_NAME
    reached(KillPoint.LOCKING)
    descriptor = _locked(path)
    try:
        hold = WorkspaceLock(root, descriptor, socket)
        reached(KillPoint.LOCKED)
        yield hold
        # emptied, not deleted: after a deletion two processes could hold locks on different files
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def workspace_holder(root: Path) -> Holder | None:
    """Return who holds the workspace, or None. Creates nothing."""
    try:
        # O_NONBLOCK: opening a pipe of this name would block
        descriptor = os.open(root / LOCK_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # shared, so that two readers do not take each other for an engine
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder_of(descriptor) or _NOBODY_KNOWN
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _locked(path: Path) -> int:
    until = time.monotonic() + _PATIENCE_S
    while True:
        descriptor = _open_lock(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder_of(descriptor)
            os.close(descriptor)
            # the holder may be a reader, or an engine that has not written its name yet: neither
            # is a reason to refuse
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
        os.close(descriptor)  # the file was deleted between opening and locking it


def _open_lock(path: Path) -> int:
    # O_NOFOLLOW: a link would take the lock of another workspace; O_NONBLOCK: a pipe would block;
    # O_CLOEXEC: a child that inherited the descriptor would keep the lock
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


def _holder_of(descriptor: int) -> Holder | None:
    """Read the holder from the lock file. None if it has written nothing yet, if what it wrote
    cannot be read, or if it was written by an earlier holder that was killed."""
    # only the first line: behind it the end of a longer one remains until the file is truncated
    line = os.pread(descriptor, 4096, 0).partition(b"\n")[0]
    try:
        holder = json.loads(line)
        process = Process(
            int(holder["pid"]),
            str(holder["host"]),
            str(holder.get("boot", "")),
            str(holder.get("space", "")),
            str(holder.get("began", "")),
        )
        since = datetime.fromisoformat(str(holder["since"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    # a killed holder cannot empty the file: its line remains until the next holder writes
    if state_of_process(process, this_process()) is ProcessState.GONE:
        return None
    socket, engine = holder.get("socket"), holder.get("engine")
    return Holder(
        process.pid,
        process.host,
        since,
        None if socket is None else Path(str(socket)),
        None if engine is None else str(engine),
        process,
    )


IDLE_BEAT_S: Final = 5.0
"""Seconds between heartbeats of an engine that has nothing else to write."""
BUSY_BEAT_S: Final = 2.5
"""Seconds after which a heartbeat is added to a transaction that is written anyway."""
# longer than an idle beat and a poll together, so that at least one beat of a living engine is seen
WATCH_S: Final = 7.0
"""Seconds for which an engine that cannot be seen from here is watched for a heartbeat."""

# a tenth of the interval between the heartbeats of an engine that is busy
_LOOK_S: Final = 0.25

_OPEN_HERE: set[str] = set()
"""Names of the engines in this process that have a store open."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The row of a store that says which engine may write it."""

    engine: str
    process: Process
    since: int
    place: str
    """Device and inode of the file that the lease was written into: a copy of a store is free."""
    beats: int

    @property
    def holder(self) -> Holder:
        """The engine as shown to people; without its socket, which only the lock file names."""
        process = self.process
        return Holder(
            process.pid, process.host, utc_datetime(self.since), engine=self.engine, process=process
        )


LEASE: Final = "engine, pid, host, boot, space, began, since, place, beats"


def lease_of(connection: sqlite3.Connection) -> Lease | None:
    """Return the lease of a store, or None if it is free. Raises `sqlite3.Error`."""
    row = connection.execute(f"SELECT {LEASE} FROM lease").fetchone()
    return None if row is None else lease_from(row)


def lease_from(row: Iterable[Any]) -> Lease:
    """Return the lease in these columns, which are those of `LEASE` in its order."""
    engine, pid, host, boot, space, began, since, place, beats = row
    return Lease(engine, Process(pid, host, boot, space, began), since, place, beats)


def holder_state(lease: Lease, path: Path) -> ProcessState:
    """Return whether the engine that holds the store at `path` is alive."""
    if lease.place != place_of(path):
        return ProcessState.GONE
    here = this_process()
    # this process, but no engine that it has open: an earlier one ended without giving it back
    if lease.process == here and lease.engine not in _OPEN_HERE:
        return ProcessState.GONE
    return state_of_process(lease.process, here)


def place_of(path: Path) -> str | None:
    """Return device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    # not the path: a hard link is the same file, and a copy is another one
    return f"{status.st_dev}:{status.st_ino}"


def being_written(path: Path, holder: Holder) -> WorkspaceBusyError:
    """Return the error to raise for a store that another engine writes."""
    return WorkspaceBusyError(
        f"{path} is being written by {holder}: `crosswind watch` shows it, `crosswind stop` ends it"
    )


class Leaseholder:
    """This engine's lease on a store. Used by the writer's thread only."""

    def __init__(self, engine: str, path: Path, now: Callable[[], int]) -> None:
        self._engine = engine
        self._path = path
        self._place = place_of(path)
        self._now = now
        self._beaten = 0.0

    @property
    def engine(self) -> str:
        """The name of the engine that holds the lease."""
        return self._engine

    def take(self, connection: sqlite3.Connection, *, watch_s: float = WATCH_S) -> Lease | None:
        """Take the lease; return that of an engine which did not end cleanly, if there was one.

        Watches an engine that cannot be seen from here for `watch_s` seconds. Raises
        `WorkspaceBusyError` if another engine is alive, and `sqlite3.Error`.
        """
        # cheap, and needs no write lock; checked again below
        self._refuse_living(connection)
        first: Lease | None = None
        until = 0.0
        while True:
            connection.execute("BEGIN IMMEDIATE")
            try:
                lease = lease_of(connection)
                # its heartbeat advanced while it was watched, whatever its clock says
                if first is not None and lease != first and lease is not None:
                    raise being_written(self._path, lease.holder)
                fate = ProcessState.GONE if lease is None else holder_state(lease, self._path)
                # on another machine or in another container only a heartbeat shows that it lives,
                # and two equal leases this far apart show none
                watched = first is not None and time.monotonic() >= until
                if fate is ProcessState.GONE or (fate is ProcessState.UNKNOWN and watched):
                    self._write(connection)
                    connection.execute("COMMIT")
                    return lease
                if lease is not None and fate is ProcessState.ALIVE:
                    raise being_written(self._path, lease.holder)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if first is None:
                first, until = lease, time.monotonic() + watch_s
            # outside the transaction: the other engine needs the write lock for its heartbeat
            time.sleep(min(_LOOK_S, watch_s))

    def _refuse_living(self, connection: sqlite3.Connection) -> None:
        """Refuse before waiting for the write lock, which a living engine may hold for long."""
        lease = lease_of(connection)
        if lease is not None and holder_state(lease, self._path) is ProcessState.ALIVE:
            raise being_written(self._path, lease.holder)

    def _write(self, connection: sqlite3.Connection) -> None:
        process = this_process()
        connection.execute(
            f"INSERT INTO unsettled (seq, at, most_usd) SELECT ({LAST_SEQ}) + 1, ?, open_usd "
            "FROM lease WHERE open_usd > 0",
            (self._now(),),
        )
        # the key `one` allows a single row, so a dead engine's lease goes in the same transaction
        connection.execute("DELETE FROM lease")
        connection.execute(
            "INSERT INTO lease (one, engine, pid, host, boot, space, began, since, heartbeat, "
            "beats, place) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
            (
                *(self._engine, process.pid, process.host, process.boot, process.space),
                *(process.began, self._now(), self._now(), self._place),
            ),
        )
        # monotonic: a wall clock that is set back would stop the heartbeat
        self._beaten = time.monotonic()
        _OPEN_HERE.add(self._engine)

    def require_held(self, connection: sqlite3.Connection, *, every_s: float) -> None:
        """Check, within a transaction that writes, that this engine still holds the lease.

        Adds a heartbeat if the last one is older than `every_s` seconds. Raises `StoreError` if the
        lease is lost or the file was replaced, and `sqlite3.Error`.
        """
        row = connection.execute("SELECT engine FROM lease").fetchone()
        if row is None or row[0] != self._engine:
            raise StoreError(self._taken_words(lease_of(connection)))
        if place_of(self._path) != self._place:
            raise StoreError(
                f"{self._path} was moved, deleted or replaced while this engine wrote it: this "
                "engine writes no more; put the file back, or run again"
            )
        if time.monotonic() - self._beaten >= every_s:
            connection.execute("UPDATE lease SET beats = beats + 1, heartbeat = ?", (self._now(),))
            self._beaten = time.monotonic()

    def _taken_words(self, lease: Lease | None) -> str:
        who = "somebody" if lease is None else str(lease.holder)
        return f"{self._path} was taken over by {who}: this engine writes no more"

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Delete the lease, as a sign of a clean end. An error such as a full disk is ignored."""
        _OPEN_HERE.discard(self._engine)
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            # only our own: an engine that lost the store must not delete another's lease
            connection.execute("DELETE FROM lease WHERE engine = ?", (self._engine,))
