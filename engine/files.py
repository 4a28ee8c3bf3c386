"""Opens a file for reading, and only a file: whoever opens a pipe waits, maybe for ever, and a
device such as `/dev/zero` never ends."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Final

_NO_FILE: Final = "it is a pipe or a device, expected a regular file"


def open_regular(path: Path) -> BufferedReader:
    """Raises `OSError`; its `strerror` is a phrase for people where this is no regular file."""
    return open(path, "rb", opener=_opened)


def open_unbuffered(path: Path) -> FileIO:
    """As `open_regular` does."""
    return open(path, "rb", buffering=0, opener=_opened)


def read_regular(path: Path) -> bytes:
    """All of it. Raises `OSError` as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def _opened(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(errno.EINVAL, _NO_FILE, path) from error
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # a folder is refused by who called
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, _NO_FILE, path)
