"""A reader that shows the store as it stood at an earlier moment, for a replay of what happened.

Each table of facts is shadowed by a view of the same name on its rows up to that moment, so that
every question of `Reader` is answered as it would have been answered then.
"""

# ruff: noqa: S608  (SQL is put together from names and constants of this room, never from values)

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey, Speaker
from engine.facts import NoteKind
from engine.store import parsing
from engine.store.connection import Connection
from engine.store.reader import Reader
from engine.store.reading import open_reader
from engine.store.tables import TABLES

EVERYTHING: Final = 2**62


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message, and the fact before which it cannot have begun."""

    seq: int
    after: int
    """`seq` of the message before it, of its take, or of the start of the run that went on."""
    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    landmark: str | None


_SHADOWS: Final = (
    # what is read stays read-only, as it was opened; these are notes beside it, in memory
    "PRAGMA query_only = OFF",
    "PRAGMA temp_store = MEMORY",
    "CREATE TEMP TABLE shown (seq INTEGER NOT NULL)",
    f"INSERT INTO temp.shown VALUES ({EVERYTHING})",
    *(
        f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} "
        "WHERE seq <= (SELECT seq FROM temp.shown)"
        for table in TABLES
    ),
)


class ReplayReader(Reader):
    """Shows nothing beyond `until()`, which it asks whenever it is asked whether there is news."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.until: Callable[[], int] = lambda: EVERYTHING
        self._shown = EVERYTHING
        for statement in _SHADOWS:
            connection.all(statement)

    def data_version(self) -> int:
        self.show(self.until())
        return self._shown

    def show(self, seq: int) -> None:
        if seq != self._shown:
            self._store.all("UPDATE temp.shown SET seq = ?", (seq,))
            self._shown = seq

    # Of the whole store, whatever is shown

    def beats(self) -> list[tuple[int, datetime]]:
        """When each fact came true, in the order in which they were written."""
        every = " UNION ALL ".join(f"SELECT seq, at FROM main.{table}" for table in TABLES)
        rows = self._store.all(f"{every} ORDER BY seq")
        return [(row["seq"], parsing.moment(row["at"])) for row in rows]

    def spoken(self) -> Iterator[Spoken]:
        """Every message, take by take."""
        starts = [
            row["seq"]
            for row in self._store.all(
                "SELECT seq FROM main.note WHERE kind = ? ORDER BY seq", (NoteKind.RUN_STARTED,)
            )
        ]
        rows = self._store.all(
            "SELECT m.seq, m.take, m.turn, m.speaker, m.landmark, t.benchmark, t.scenario_id,"
            "  t.target, t.sample, t.number "
            "FROM main.message m JOIN main.take t ON t.seq = m.take ORDER BY m.take, m.seq"
        )
        for take, messages in groupby(rows, key=lambda row: int(row["take"])):
            before = take
            for row in messages:
                earlier = bisect_left(starts, row["seq"])
                yield _spoken(row, max(before, starts[earlier - 1] if earlier else 0))
                before = row["seq"]

    def said(self, seq: int) -> str:
        """The text of a message."""
        rows = self._store.all("SELECT text FROM main.message WHERE seq = ?", (seq,))
        return str(rows[0]["text"]) if rows else ""


def open_replay(path: Path) -> ReplayReader:
    """Raises `StoreError`."""
    return ReplayReader(open_reader(path)._store)  # noqa: SLF001  (a reader becomes another kind)


def _spoken(row: sqlite3.Row, after: int) -> Spoken:
    return Spoken(
        seq=row["seq"],
        after=after,
        benchmark=row["benchmark"],
        key=ConversationKey(row["scenario_id"], row["target"], row["sample"]),
        take=row["number"],
        turn=row["turn"],
        speaker=Speaker(row["speaker"]),
        landmark=row["landmark"],
    )
