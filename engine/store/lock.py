"""One engine per workspace: a lock that the operating system lets go of when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Final

from engine.errors import StoreError, WorkspaceBusyError
from engine.kill_points import KillPoint, reached
from engine.store.process import Process, ProcessState, fate, this_process

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


class Hold:
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
def hold_workspace(root: Path, socket: Path | None = None) -> Iterator[Hold]:
    """Hold the workspace for as long as the block lasts.

    Raises `WorkspaceBusyError` where another engine holds it, `StoreError` where it cannot be held
    at all.
    """
    path = root / LOCK_NAME
    reached(KillPoint.LOCKING)
    descriptor = _locked(path)
    try:
        hold = Hold(root, descriptor, socket)
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
