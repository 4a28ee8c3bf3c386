"""The program and what it runs on."""

from __future__ import annotations

import platform
import sqlite3
import sys
from importlib.metadata import version
from typing import Final

from engine.doctor.findings import Area, Finding, State

_WAL_RESET_FIXED: Final = (3, 51, 3)


def system_findings(sqlite: tuple[int, ...] = sqlite3.sqlite_version_info) -> list[Finding]:
    python = f"{platform.python_version()} ({sys.executable})"
    return [
        Finding(Area.SYSTEM, "Crosswind", State.OK, version("crosswind")),
        Finding(Area.SYSTEM, "Python", State.OK, python),
        _sqlite(sqlite),
    ]


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
