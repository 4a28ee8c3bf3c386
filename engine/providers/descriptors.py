"""How many files and connections this process may have open at once."""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 96
"""For the store, the files, watchers, names looked up, and addresses tried side by side."""
FEWEST: Final = 8
"""Connections that are opened whatever is reserved."""


def raise_limit() -> None:
    """As far as this user may: shells begin with a limit that is small and not meant."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return  # where the system has a limit of its own below that


def most_connections() -> int:
    """To servers, at once."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def most_connections_raised() -> int:
    """The same, once the limit is raised as far as it goes."""
    return most_under(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def most_under(limit: int) -> int:
    return 1 << 20 if limit == resource.RLIM_INFINITY else max(limit - RESERVED, FEWEST)
