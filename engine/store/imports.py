"""Notes of what was imported, each with a digest of its benchmark's rows at that time. They are
kept among the mirrored files, and may be missing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from engine.store.connection import Connection

NOTE: Final = "/"
"""Prefix of a note's path among the mirrored files. No path relative to the workspace begins with
it."""
CONFIG: Final = f"{NOTE}config"
"""The path of the note of the configuration under which the newest import was made, as JSON."""
TESTED: Final = f"{NOTE}tested"
"""The path of the note of the settings under which imported logs tested their models, as JSON."""

_WANTED: Final = ("metric", "scenario", "review")
_DONE: Final = ("take", "state", "attempt")
_OF_A_TAKE: Final = ("take_end", "message", "verdict", "take_check")
_SUMS: Final = "count(*), max(r.seq), total(r.seq)"
_USED: Final = "total(r.input_tokens), total(r.output_tokens), total(r.cost_usd)"
_LAST: Final = 2**63 - 1


def rows_digest(connection: Connection, benchmark: str, through: int = _LAST) -> str:
    """Return a digest that changes when a row of the benchmark is added or removed.

    Rows are facts and never overwritten, except for amounts of usage, which a repair may correct
    and which are included. Takes, states and attempts count only up to `through`: what was done
    since then is no change.
    """
    questions = [f"SELECT {_SUMS} FROM {table} r WHERE r.benchmark = ?" for table in _WANTED]
    until = f"AND r.seq <= {through:d}"
    questions += [f"SELECT {_SUMS} FROM {table} r WHERE r.benchmark = ? {until}" for table in _DONE]
    questions += [
        f"SELECT {_SUMS} FROM take t JOIN {table} r ON r.take = t.seq WHERE t.benchmark = ? {until}"
        for table in _OF_A_TAKE
    ]
    questions.append(f"SELECT {_USED} FROM attempt r WHERE r.benchmark = ? {until}")
    rows = [tuple(row) for sql in questions for row in connection.all(sql, (benchmark,))]
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()


_KEEP: Final = "INSERT OR REPLACE INTO mirrored (path, at, digest, seq) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """What was imported into a benchmark, written together with it. Not a fact."""

    benchmark: str
    source: str
    """Tells several imports into the same benchmark apart."""
    digest: str
    """Digest of what was imported, to see whether it has changed."""
    found: Mapping[str, Any]
    """What was found in it, as JSON."""


def keep_import(connection: sqlite3.Connection, note: ImportNote, *, seq: int, at: int) -> None:
    """Replace the note before. `seq` is the last row before it."""
    rows = rows_digest(Connection(connection, Path()), note.benchmark, seq)
    text = json.dumps({"digest": note.digest, "rows": rows, "found": note.found})
    connection.execute(_KEEP, (_path(note.benchmark, note.source), at, text, seq))


def kept_import(connection: Connection, benchmark: str, source: str) -> ImportNote | None:
    """Return the note; None if there is none, if it cannot be read, or if the store has lost rows
    since then."""
    path = _path(benchmark, source)
    row = connection.first("SELECT digest, seq FROM mirrored WHERE path = ?", (path,))
    if row is None:
        return None
    try:
        noted = json.loads(row["digest"])
        rows, digest, found = noted["rows"], noted["digest"], noted["found"]
    except (ValueError, TypeError, KeyError):  # a damaged store's: all is read again
        return None
    if rows != rows_digest(connection, benchmark, row["seq"]):
        return None
    return ImportNote(benchmark=benchmark, source=source, digest=digest, found=found)


def _path(benchmark: str, source: str) -> str:
    return f"{NOTE}imported/{benchmark}/{source}"
