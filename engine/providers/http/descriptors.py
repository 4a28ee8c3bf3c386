"""How many files and connections this process may have open at the same time."""

from __future__ import annotations

import errno
import os
import resource
import socket
from typing import Final

RESERVED: Final = 96
"""Kept for the store, files, watchers, name lookups, and addresses that are tried in parallel."""
FEWEST: Final = 8
"""Connections that may be opened even if they are fewer than `RESERVED` leaves."""


_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})


def raise_limit() -> None:
    """Raise the soft limit as far as this user may: shells begin with a small one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # the system has a lower limit of its own


def most_connections() -> int:
    """Return how many connections to servers this process may have, by its limit of open files."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def most_connections_raised() -> int:
    """As `most_connections`, after the limit was raised."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def any_left() -> bool:
    """Whether one more file can be opened now."""
    try:
        # tried, as what other processes use of the system's limit cannot be read anywhere
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def for_want_of_any(error: OSError | UnicodeError) -> bool:
    """Whether a connection failed for that reason, which name resolution does not say."""
    if isinstance(error, socket.gaierror):
        return not any_left()
    return isinstance(error, OSError) and error.errno in _NONE_LEFT


def wait_words() -> str:
    """Say that calls wait for open files, and what to do about it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"out of open files (the limit is {soft}): `ulimit -n 4096` before the next run"


def most_under(limit: int) -> int:
    """Return how many connections fit under a limit of open files, after `RESERVED`."""
    return 1 << 20 if limit == resource.RLIM_INFINITY else max(limit - RESERVED, FEWEST)
