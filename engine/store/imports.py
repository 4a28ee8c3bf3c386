"""Notes of what was imported, each with the rows of its benchmark as they were then. They stand
among the mirrored files, and may be missing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.store.connection import Connection
from engine.store.rows_digest import NOTE, rows_digest

_KEEP: Final = "INSERT OR REPLACE INTO mirrored (path, at, digest, seq) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """What was imported into a benchmark, written with it. No fact, and no row of its own."""

    benchmark: str
    source: str
    """Which of several that are imported into the same."""
    digest: str
    """Of what was imported, for whoever wants to know whether it still is the same."""
    found: Mapping[str, Any]
    """What was in it, as JSON has it."""


def keep_import(connection: sqlite3.Connection, note: ImportNote, *, seq: int, at: int) -> None:
    """In place of the one before. `seq` is the last that was written before it."""
    rows = rows_digest(Connection(connection, Path()), note.benchmark, seq)
    text = json.dumps({"digest": note.digest, "rows": rows, "found": note.found})
    connection.execute(_KEEP, (_path(note.benchmark, note.source), at, text, seq))


def kept_import(connection: Connection, benchmark: str, source: str) -> ImportNote | None:
    """None where none was kept, and where the store has not all rows any more that it had then."""
    path = _path(benchmark, source)
    row = connection.first("SELECT digest, seq FROM mirrored WHERE path = ?", (path,))
    if row is None:
        return None
    kept = json.loads(row["digest"])
    if kept["rows"] != rows_digest(connection, benchmark, row["seq"]):
        return None
    return ImportNote(
        benchmark=benchmark, source=source, digest=kept["digest"], found=kept["found"]
    )


def _path(benchmark: str, source: str) -> str:
    return f"{NOTE}imported/{benchmark}/{source}"
