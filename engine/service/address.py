"""Where the engine of a workspace is reached: a socket in a folder that only its user may enter."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Final

from engine.errors import CrosswindError

LONGEST_PATH: Final = 103
"""Bytes of a socket's path that every system takes: Linux takes 107, macOS 103."""


class UnsafeFolderError(CrosswindError):
    """The folder of the sockets cannot be made, or is not the user's own."""


def socket_path(workspace_root: Path, temporary: Path | None = None) -> Path:
    """The same for every process of this user, as long as their temporary folder is the same; one
    whose folder differs finds the engine through the workspace's lock file.

    `temporary` is the system's temporary folder where it is not given.
    """
    digest = blake2b(os.fsencode(workspace_root.resolve()), digest_size=8).hexdigest()
    own = f"crosswind-{os.getuid()}"
    place = Path(tempfile.gettempdir()) if temporary is None else temporary
    path = place.absolute() / own / f"{digest}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        return Path("/tmp") / own / path.name  # noqa: S108  (our own folder in it is checked)
    return path


def usable_socket(workspace_root: Path) -> tuple[Path, str | None]:
    """Where an engine can be reached: at the usual place, or where somebody else has taken that, in
    the user's own cache, or else in a new folder of a name that nobody can foresee; and why it is
    not the usual one. Watchers are told by the workspace's lock file."""
    usual = socket_path(workspace_root)
    try:
        private_folder(usual.parent)
    except UnsafeFolderError as error:
        return _elsewhere(usual), str(error)
    return usual, None


def _elsewhere(usual: Path) -> Path:
    """Raises nothing: what cannot be used is told by whoever binds it."""
    with contextlib.suppress(RuntimeError, OSError, UnsafeFolderError):
        folder = Path.home() / ".cache" / "crosswind"
        path = folder / usual.name
        if len(os.fsencode(path)) <= LONGEST_PATH:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            private_folder(folder)
            return path
    with contextlib.suppress(OSError):
        return Path(tempfile.mkdtemp(prefix="crosswind-")) / usual.name
    return usual


def private_folder(folder: Path) -> None:
    """Make it where it is missing. Raises `UnsafeFolderError` where anybody else could enter."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise UnsafeFolderError(
            f"{folder} cannot be made ({error.strerror}): the engine's socket lies in it; check "
            "the system's temporary folder, or set TMPDIR to one that you may write"
        ) from error
    fault = _fault(found)
    if fault is not None:
        raise UnsafeFolderError(
            f"{folder} {fault}, but the engine's socket must lie where only you can reach it: "
            "remove it, or set TMPDIR to a folder of your own"
        )


def _fault(found: os.stat_result) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "is a link to another place"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}, not to you ({os.getuid()})"
    if found.st_mode & 0o077:
        return f"is open to others (mode {stat.S_IMODE(found.st_mode):04o}, expected 0700)"
    return None
