"""Whether the rows of a benchmark are those that they were, without reading what they say."""

# ruff: noqa: S608  (SQL is put together from constants of this module, never from values)

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from engine.store.connection import Connection

NOTE: Final = "/"
"""How the path of a note among the mirrored files begins, which tells from which rows something was
made: no path relative to the workspace begins so."""

_WANTED: Final = ("metric", "scenario")
_DONE: Final = ("take", "state", "attempt")
_OF_A_TAKE: Final = ("take_end", "message", "verdict")
_SUMS: Final = "count(*), max(r.seq), total(r.seq)"
_USED: Final = "total(r.input_tokens), total(r.output_tokens), total(r.cost_usd)"
_LAST: Final = 2**63 - 1


def rows_digest(connection: Connection, benchmark: str, through: int = _LAST) -> str:
    """Another one after any row was added or taken away: a row is a fact, and never written over.
    But for what calls used, which a repair may correct, and which is looked at.

    Of what was done, only rows up to `through` are looked at: what was done since is no change.
    """
    questions = [f"SELECT {_SUMS} FROM {table} r WHERE r.benchmark = ?" for table in _WANTED]
    until = f"AND r.seq <= {through:d}"
    questions += [f"SELECT {_SUMS} FROM {table} r WHERE r.benchmark = ? {until}" for table in _DONE]
    questions += [
        f"SELECT {_SUMS} FROM take t JOIN {table} r ON r.take = t.seq WHERE t.benchmark = ? {until}"
        for table in _OF_A_TAKE
    ]
    questions.append(f"SELECT {_USED} FROM attempt r WHERE r.benchmark = ? {until}")
    found = [tuple(row) for sql in questions for row in connection.all(sql, (benchmark,))]
    return blake2b(repr(found).encode(), digest_size=16).hexdigest()
