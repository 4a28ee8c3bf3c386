"""Whether the rows of a benchmark are those that they were, without reading what they say."""

# ruff: noqa: S608  (SQL is put together from constants of this module, never from values)

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from engine.store.connection import Connection

_NAMED: Final = ("metric", "scenario", "take", "state", "attempt")
_OF_A_TAKE: Final = ("take_end", "message", "verdict")
_SUMS: Final = "count(*), max(r.seq), total(r.seq)"
_USED: Final = "total(a.input_tokens), total(a.output_tokens), total(a.cost_usd)"


def rows_digest(connection: Connection, benchmark: str) -> str:
    """Another one after any row was added or taken away: a row is a fact, and never written over.
    But for what calls used, which a repair may correct, and which is looked at."""
    questions = [f"SELECT {_SUMS} FROM {table} r WHERE r.benchmark = ?" for table in _NAMED]
    questions += [
        f"SELECT {_SUMS} FROM take t JOIN {table} r ON r.take = t.seq WHERE t.benchmark = ?"
        for table in _OF_A_TAKE
    ]
    questions.append(f"SELECT {_USED} FROM attempt a WHERE a.benchmark = ?")
    found = [tuple(row) for sql in questions for row in connection.all(sql, (benchmark,))]
    return blake2b(repr(found).encode(), digest_size=16).hexdigest()
