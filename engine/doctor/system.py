"""The program and what it runs on."""

from __future__ import annotations

import platform
import sqlite3
import sys
from importlib.metadata import version
from typing import Final

from engine.doctor.findings import Area, Finding, State
from engine.providers.descriptors import most_connections_raised

MANY_CONNECTIONS: Final = 512
"""As many as most runs have at once."""
_WAL_RESET_FIXED: Final = (3, 51, 3)


def system_findings(sqlite: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Finding]:
    python = f"{platform.python_version()} ({sys.executable})"
    return [
        Finding(Area.SYSTEM, "Crosswind", State.OK, version("crosswind")),
        Finding(Area.SYSTEM, "Python", State.OK, python),
        _descriptors(most_connections_raised()),
        _sqlite(sqlite),
    ]


def _descriptors(most: int) -> Finding:
    if most >= MANY_CONNECTIONS:
        return Finding(Area.SYSTEM, "open files", State.OK, f"{most} connections at once")
    return Finding(
        Area.SYSTEM,
        "open files",
        State.NOTE,
        f"the limit lets a run have {most} connections at once; more calls wait for one",
        "raise it before the run: `ulimit -n 4096`, or the hard limit of this user",
    )


def _sqlite(found: tuple[int, ...]) -> Finding:
    words = ".".join(str(part) for part in found)
    if found >= _WAL_RESET_FIXED:
        return Finding(Area.SYSTEM, "SQLite", State.OK, words)
    return Finding(
        Area.SYSTEM,
        "SQLite",
        State.NOTE,
        f"{words}; before 3.51.3, two programs that write at once can damage a store. Crosswind "
        "has one writer and is safe",
        "do not write into the store with other programs while a run goes on",
    )
