"""One end of a connection on which lines are said and heard; never waits."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.service.messages import LONGEST_LINE
from engine.service.peer import Socket, is_trusted

_AT_ONCE: Final = 1024 * 1024


class BrokenLineError(Exception):
    """The other end cannot be reached, or is gone. Says why, in words that follow a name."""


class Line:
    """Raises `BrokenLineError` wherever the other end is not there any more."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unsent = bytearray()
        self._unread = bytearray()

    @classmethod
    def to(cls, path: Path, uid_of: Callable[[Socket], int | None]) -> Line:
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.settimeout(0)
        try:
            connected.connect(os.fspath(path))
        except OSError as error:
            connected.close()
            raise BrokenLineError(_why(error, path)) from error
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
