"""How many files and connections this process may have open at once."""

from __future__ import annotations

import errno
import os
import resource
import socket
from typing import Final

RESERVED: Final = 96
"""For the store, the files, watchers, names looked up, and addresses tried side by side."""
FEWEST: Final = 8
"""Connections that are opened whatever is reserved."""


_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})


def raise_limit() -> None:
    """As far as this user may: shells begin with a limit that is small and not meant."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # where the system has a limit of its own below that


def most_connections() -> int:
    """How many connections to servers this process may have at once, by its limit of open files."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def most_connections_raised() -> int:
    """As `most_connections`, once the limit is raised as far as it goes."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def any_left() -> bool:
    """Whether one more can be opened at this moment, whoever has the others."""
    try:
        # asked by doing it: what other processes hold of the system's limit is to be seen in no
        # number
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def for_want_of_any(error: OSError | UnicodeError) -> bool:
    """Whether a connection failed for that. What looks names up does not say so."""
    if isinstance(error, socket.gaierror):
        return not any_left()
    return isinstance(error, OSError) and error.errno in _NONE_LEFT


def wait_words() -> str:
    """What calls wait for where no more connections may be open, and what to do about it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"out of open files (the limit is {soft}): `ulimit -n 4096` before the next run"


def most_under(limit: int) -> int:
    """How many connections fit under a limit of open files, with `RESERVED` left for all else."""
    return 1 << 20 if limit == resource.RLIM_INFINITY else max(limit - RESERVED, FEWEST)
