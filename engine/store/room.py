"""How a disk without room shows, and what to say of it."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Final

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_GROW: Final = frozenset(
    {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_SHMSIZE}
)
"""What SQLite makes of a quota, a limit on the size of files, and a disk that fills while it
syncs."""


def lacks_room(error: Exception) -> bool:
    """Whether trying again helps, once there is room."""
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or code in _CANNOT_GROW


def room_advice(path: Path, error: Exception) -> str:
    """What to do so that there is room for `path`."""
    if getattr(error, "sqlite_errorcode", None) in _CANNOT_GROW:
        return f"free some space on {mount_of(path)}, or raise the quota or limit on file sizes"
    return f"free some space on {mount_of(path)}"


def mount_of(path: Path) -> Path:
    """The folder under which the file system of `path` is seen."""
    place = path.resolve()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place
