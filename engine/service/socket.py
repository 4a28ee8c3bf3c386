"""The engine's socket: its path, in a folder private to its user, and who is at its other end."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from engine.errors import CrosswindError

LONGEST_PATH: Final = 103
"""The most bytes in a socket's path that every system accepts: Linux takes 107, macOS 103."""


class UnsafeFolderError(CrosswindError):
    """The folder for the socket cannot be created, or others have access to it."""


def socket_path(workspace_root: Path, temporary: Path | None = None) -> Path:
    """The usual path, equal for all processes of this user that have the same temporary folder.
    Others find the engine through the workspace's lock file.

    `temporary` defaults to the system's temporary folder.
    """
    # resolved, so that a workspace reached through a link has the same socket; a digest, because
    # paths of sockets must be short
    digest = blake2b(os.fsencode(workspace_root.resolve()), digest_size=8).hexdigest()
    own = f"crosswind-{os.getuid()}"
    place = Path(tempfile.gettempdir()) if temporary is None else temporary
    path = place.absolute() / own / f"{digest}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        return Path("/tmp") / own / path.name  # noqa: S108  (our own folder in it is checked)
    return path


def usable_socket(workspace_root: Path) -> tuple[Path, str | None]:
    """The path for an engine's socket, and why it is not the usual one (None where it is). If
    somebody else has taken the usual folder, it is in the user's cache, or else in a new folder
    with an unpredictable name. Watchers find it through the workspace's lock file."""
    usual = socket_path(workspace_root)
    try:
        private_folder(usual.parent)
    except UnsafeFolderError as error:
        return _fallback_folder(usual), str(error)
    return usual, None


def _fallback_folder(usual: Path) -> Path:
    """Never raises: whoever binds an unusable path reports it."""
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
    """Create the folder if missing. Raises `UnsafeFolderError` if anybody else could enter it."""
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # not `stat`: in a shared temporary folder, this name may be somebody else's symbolic link
        status = folder.lstat()
    except OSError as error:
        raise UnsafeFolderError(
            f"{folder} cannot be made ({error.strerror}): the engine's socket lies in it; check "
            "the system's temporary folder, or set TMPDIR to one that you may write"
        ) from error
    fault = _folder_fault(status)
    if fault is not None:
        raise UnsafeFolderError(
            f"{folder} {fault}, but the engine's socket must lie where only you can reach it: "
            "remove it, or set TMPDIR to a folder of your own"
        )


def _folder_fault(status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "is a link to another place"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a folder"
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}, not to you ({os.getuid()})"
    # Linux checks write permission on the socket's file, but some systems do not, so the folder
    # must keep others out
    if status.st_mode & 0o077:
        return f"is open to others (mode {stat.S_IMODE(status.st_mode):04o}, expected 0700)"
    return None


_LOCAL_LEVEL = 0
_LOCAL_PEERCRED = 1
"""Constants of macOS, missing in Python. The second field of the answer is the user's id."""


class Socket(Protocol):
    """What a socket and asyncio's transport socket have in common."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer_uid(connected: Socket) -> int | None:
    """The user id of the peer's process; None where the system does not tell."""
    try:
        if sys.platform == "linux":
            credentials = connected.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
            # struct ucred of unix(7): process, user, group
            _, uid, _ = struct.unpack("3i", credentials)
        else:
            credentials = connected.getsockopt(_LOCAL_LEVEL, _LOCAL_PEERCRED, 76)
            _, uid = struct.unpack_from("=II", credentials)
    except (OSError, struct.error):
        return None
    return int(uid)


def is_trusted(uid: int | None) -> bool:
    """Whether it is this user or root, who could do anything without a socket as well."""
    return uid in {os.getuid(), 0}
