"""Where the engine of a workspace is reached: a socket in a folder that only its user may enter."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from engine.errors import CrosswindError
from engine.service.protocol import LONGEST_LINE

LONGEST_PATH: Final = 103
"""Bytes of a socket's path that every system takes: Linux takes 107, macOS 103."""


class UnsafeFolderError(CrosswindError):
    """The folder of the sockets cannot be made, or is not the user's own."""


def socket_path(workspace_root: Path, temporary: Path | None = None) -> Path:
    """The same for every process of this user, as long as their temporary folder is the same; one
    whose folder differs finds the engine through the workspace's lock file.

    `temporary` is the system's temporary folder where it is not given.
    """
    # resolved, so that a workspace reached by a link has one socket; a digest, as a path of a
    # socket is short
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
        # not `stat`: in a temporary folder that all users share, a link of this name may be
        # somebody else's
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
    # Linux asks for the right to write on a socket's file, but some systems ask for none: the
    # folder must keep others out
    if found.st_mode & 0o077:
        return f"is open to others (mode {stat.S_IMODE(found.st_mode):04o}, expected 0700)"
    return None


_LOCAL_LEVEL = 0
_LOCAL_PEERCRED = 1
"""Of macOS, in whose answer the user's id comes second; Python has no names for them."""


class Socket(Protocol):
    """What a socket and asyncio's view of one have in common."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer_uid(connected: Socket) -> int | None:
    """The user id of the process that connected; None where the system does not tell."""
    try:
        if sys.platform == "linux":
            found = connected.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
            # struct ucred of unix(7): process, user, group
            _, uid, _ = struct.unpack("3i", found)
        else:
            found = connected.getsockopt(_LOCAL_LEVEL, _LOCAL_PEERCRED, 76)
            _, uid = struct.unpack_from("=II", found)
    except (OSError, struct.error):
        return None
    return int(uid)


def is_trusted(uid: int | None) -> bool:
    """Whether it is this user, or root, which needs no socket to do as it likes."""
    return uid in {os.getuid(), 0}


_AT_ONCE: Final = 1024 * 1024


class BrokenLineError(Exception):
    """The other end cannot be reached, or is gone. Says why, in words that follow a name."""


class LineSocket:
    """Raises `BrokenLineError` wherever the other end is not there any more."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unsent = bytearray()
        self._unread = bytearray()

    @classmethod
    def to(cls, path: Path, uid_of: Callable[[Socket], int | None]) -> LineSocket:
        """Connect to an engine of this user. Never waits."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # a full backlog is told at once (EAGAIN) instead of being waited for
        connected.settimeout(0)
        try:
            connected.connect(os.fspath(path))
        except OSError as error:
            connected.close()
            raise BrokenLineError(_why(error, path)) from error
        # the folder is private, but may have been opened since: who is at the other end is asked of
        # the system, which cannot be lied to
        if not is_trusted(uid_of(connected)):
            connected.close()
            raise BrokenLineError(f"{path} belongs to another user")
        return cls(connected)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def say(self, line: bytes) -> None:
        """Send as much as goes without waiting, and keep the rest for `send`."""
        self._unsent += line
        self.send()

    def send(self) -> None:
        """As much as the system takes now. Where nobody takes it any more, `hear` tells so, behind
        the last words that came."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def hear(self) -> list[bytes]:
        """The lines that came to their end by now."""
        try:
            data = self._socket.recv(_AT_ONCE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise BrokenLineError("the connection broke") from error
        if not data:
            raise BrokenLineError("the connection was closed")
        self._unread += data
        if b"\n" not in data:
            if len(self._unread) > LONGEST_LINE:
                raise BrokenLineError(f"a line of it is longer than {LONGEST_LINE} bytes")
            return []
        *lines, rest = self._unread.split(b"\n")
        self._unread = bytearray(rest)
        return [bytes(line) for line in lines]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def _why(error: OSError, path: Path) -> str:
    match error:
        case FileNotFoundError():
            return f"there is no socket at {path}"
        case ConnectionRefusedError():
            return f"nobody listens at {path}"
        case PermissionError():
            return f"{path} belongs to another user"
        case BlockingIOError():
            return "too many wait for it to answer"
        case _:
            return f"{path}: {error.strerror or error}"
