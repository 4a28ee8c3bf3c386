"""Finds rows that do not hold what was stored, and amounts that cannot be."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from engine.benchmark import MOST_TOKENS, MOST_USD
from engine.errors import DamagedError
from engine.identity import message_digest
from engine.store.codec import columns_of, read, storable
from engine.store.connection import Connection
from engine.store.tables import TABLES

_MOST: Final = 253_402_300_799_999
"""The largest number in any row: the end of the year 9999 in milliseconds since 1970."""

COLUMNS: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
"""The columns of amounts. New rows are checked before they are stored; rows of older versions may
hold any amount, even one that overflows a sum."""


def text_as_it_is(text: bytes) -> str:
    """Decode text; bytes that are not UTF-8 become lone surrogates, which no sound row has. For
    `Connection.text_factory`: an error there would end the whole query, not just its row."""
    return text.decode(errors="surrogateescape")


def rows_with_faults(
    connection: sqlite3.Connection, table: str
) -> Iterator[tuple[sqlite3.Row, str | None]]:
    """Yield every row of a table, and in words what is wrong with it; None if nothing is. Sets how
    the connection reads rows. Raises `sqlite3.Error`."""
    connection.row_factory = sqlite3.Row
    connection.text_factory = text_as_it_is
    # NOT INDEXED: a damaged index would hide the rows that it has lost
    for row in connection.execute(
        f"SELECT {', '.join(columns_of(table))} FROM {table} NOT INDEXED ORDER BY seq"
    ):
        yield row, _fault(table, row)


def _fault(table: str, row: sqlite3.Row) -> str | None:
    try:
        read(TABLES[table], row)
    except DamagedError:
        return f"{table} {row['seq']} cannot be read"
    # by index: SQLite's rows search for a name from the first column on
    for name, value in zip(row.keys(), row, strict=True):
        if name not in COLUMNS and not is_possible(value):
            return f"{table} {row['seq']} has a {name} that cannot be"
    if table == "message" and message_digest(row["speaker"], str(row["text"])) != row["digest"]:
        return f"the text of message {row['seq']} is not the one that was stored"
    return None


def is_possible(value: object) -> bool:
    """Whether a column can hold this text or number."""
    match value:
        case str():
            return storable(value) is value
        case int():
            return 0 <= value <= _MOST
        case float():
            return 0 <= value <= MOST_USD
    return True


def _is_plausible(column: str) -> str:
    return f"{column} BETWEEN 0 AND {MOST_USD if column == 'cost_usd' else MOST_TOKENS}"


def plausible_value(column: str) -> str:
    """Return SQL for the column that is NULL where its amount is implausible."""
    return f"CASE WHEN {_is_plausible(column)} THEN {column} END"


SPENT: Final = (
    f"(SELECT total({plausible_value('cost_usd')}) FROM attempt)"
    " + (SELECT total(counted_usd) FROM unsettled)"
)
"""SQL for what all calls cost in US dollars, as far as that is known or was decided."""


def implausible_rows(connection: Connection) -> int:
    """Count the attempts with an implausible amount. Raises `StoreError`."""
    any_of = " OR ".join(f"NOT {_is_plausible(column)}" for column in COLUMNS)
    return connection.number(f"SELECT count(*) FROM attempt WHERE {any_of}")


def forget_implausible(connection: sqlite3.Connection) -> None:
    """Set every implausible amount to NULL."""
    for column in COLUMNS:
        connection.execute(f"UPDATE attempt SET {column} = NULL WHERE NOT {_is_plausible(column)}")
