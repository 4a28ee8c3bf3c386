"""Who is at the other end of a local socket."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Protocol

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
