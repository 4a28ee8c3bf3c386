"""What rows of usage may tell of. Numbers are looked at where they come in; rows that were written
before that was so may hold any, and a few of those are too much for a sum."""

# ruff: noqa: S608  (SQL is put together from names and constants of this room, never from values)

from __future__ import annotations

import sqlite3
from typing import Final

from engine.benchmark import MOST_TOKENS, MOST_USD

COLUMNS: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")


def _is_plausible(column: str) -> str:
    return f"{column} BETWEEN 0 AND {MOST_USD if column == 'cost_usd' else MOST_TOKENS}"


def plausible(column: str) -> str:
    """The column, unknown where it holds what cannot be."""
    return f"CASE WHEN {_is_plausible(column)} THEN {column} END"


def implausible_rows(connection: sqlite3.Connection) -> int:
    """How many attempts hold an amount that cannot be."""
    any_of = " OR ".join(f"NOT {_is_plausible(column)}" for column in COLUMNS)
    [count] = connection.execute(f"SELECT count(*) FROM attempt WHERE {any_of}").fetchone()
    return int(count)


def forget_implausible(connection: sqlite3.Connection) -> None:
    """Make every amount that cannot be unknown."""
    for column in COLUMNS:
        connection.execute(f"UPDATE attempt SET {column} = NULL WHERE NOT {_is_plausible(column)}")
