"""One engine per workspace: a lock that the operating system lets go of when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from engine.errors import StoreError, WorkspaceBusyError

LOCK_NAME: Final = "crosswind.lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a workspace, as it says itself; what could not be read is None."""

    pid: int | None
    host: str | None
    since: datetime | None

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid}"
        where = "" if self.host is None else f" on {self.host}"
        when = "" if self.since is None else f" since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return who + where + when


@contextlib.contextmanager
def hold_workspace(root: Path) -> Iterator[None]:
    """Hold the workspace for as long as the block lasts.

    Raises `WorkspaceBusyError` where another engine holds it, `StoreError` where it cannot be held
    at all.
    """
    path = root / LOCK_NAME
    descriptor = _locked(path)
    try:
        _introduce(descriptor)
        yield
        # only emptied, never deleted: whoever waits on a deleted file waits on another lock
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def workspace_holder(root: Path) -> Holder | None:
    """Who holds the workspace; None where nobody does. Takes nothing and creates nothing."""
    try:
        descriptor = os.open(root / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _locked(path: Path) -> int:
    while True:
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(descriptor)
            os.close(descriptor)
            raise WorkspaceBusyError(
                f"{path.parent} is being worked on by {holder}, which holds {path.name}: "
                "watch it, or stop it first"
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
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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


def _introduce(descriptor: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)


def _read(descriptor: int) -> Holder:
    """Its holder may be writing into it at this moment, or may not be one of ours."""
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(
            int(found["pid"]), str(found["host"]), datetime.fromisoformat(str(found["since"]))
        )
    except (ValueError, KeyError, TypeError):
        return Holder(None, None, None)
