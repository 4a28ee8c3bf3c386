"""Keeps what was said from the other users of a machine, whoever made the files and under whatever
mask."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def keep_private(database: Path) -> None:
    """Take a database of this user's, and what SQLite keeps beside it, from everybody else. It is
    not opened for that: closing it again would give up SQLite's locks."""
    real = database.resolve()
    for suffix in ("", "-wal", "-shm"):
        place = real.with_name(real.name + suffix)
        with contextlib.suppress(OSError):  # not there, or of a file system without modes
            found = place.lstat()
            is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            if is_ours and found.st_mode & 0o077:
                place.chmod(0o600)
