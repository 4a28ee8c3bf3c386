"""Reads files that hold keys, and refuses those that other users can read or write."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from engine.cluster.folder import ClusterError
from engine.errors import Problem
from engine.files import open_regular

# a key has a few kilobytes; another file, named by mistake, may be of any size
_MOST_BYTES: Final = 1 << 20


def read_kept(path: Path, what: str, *, hint: str | None = None) -> bytes:
    """Read the file. `what` names the expected content, `hint` says what to do if it is missing.
    Raises `ClusterError`."""
    try:
        with open_regular(path) as file:
            _check_kept(os.fstat(file.fileno()), path)
            return file.read(_MOST_BYTES)
    except FileNotFoundError as error:
        raise ClusterError(
            Problem(f"there is no such file, expected {what}", path=path, hint=hint)
        ) from error
    except OSError as error:
        raise ClusterError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def _check_kept(status: os.stat_result, path: Path) -> None:
    """Raise `ClusterError` for unsafe permissions, by PostgreSQL's rule: one's own key must be
    private; a group may read root's, as with Secrets that Kubernetes mounts."""
    mode = stat.S_IMODE(status.st_mode)
    lent = 0o040 if status.st_uid == 0 != os.geteuid() else 0
    if mode & 0o077 & ~lent:
        raise ClusterError(
            Problem(
                f"others can read or write this key: its mode is {mode:04o}, expected 0600",
                path=path,
                hint=f"chmod 600 {path}; if anyone else may have read it, make another one",
            )
        )
