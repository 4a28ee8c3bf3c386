"""The temporary folder that Dask needs for workers. A process that is killed cannot remove its own,
so the next one does."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = "crosswind-spool-"
_NEW_S: Final = 60.0
"""Seconds for which a folder is left alone, as its process may not have locked it yet."""


@contextmanager
def temporary_spool() -> Iterator[str]:
    """Yield the path of a new folder, which is locked as long as this process or a fork of it
    lives. First remove those of this user whose processes have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_abandoned(folder)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as path:
        lock = _locked(Path(path), fcntl.LOCK_EX)
        try:
            yield path
        finally:
            if lock is not None:
                os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    lock = _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if lock is None:
        return
    try:
        found = os.fstat(lock)
        if found.st_uid == os.getuid() and time.time() - found.st_mtime > _NEW_S:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _locked(folder: Path, operation: int) -> int | None:
    """Return a descriptor that locks the folder; None if it cannot be locked."""
    try:
        # never through a link that somebody else put there
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
