"""Writes whole conversations in one transaction: for imported files, not for a run."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Speaker
from engine.errors import StoreError
from engine.store.codec import Value
from engine.store.imports import ImportNote, keep_import
from engine.store.inserts import INSERTS, VALUES, insert, message_decided
from engine.store.tables import (
    AttemptRow,
    CheckRow,
    MessageRow,
    ScenarioRow,
    StateRow,
    StoredRow,
    TakeEndRow,
    TakeRow,
    Verdict,
)

# no row has this number, as the first `seq` is 1
GIVEN_LATER: Final = 0
"""As `take`: the row belongs to the take that is written with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTake:
    """The rows of a take; those that belong to it have `GIVEN_LATER` as their take."""

    begun: TakeRow
    """If it names no scenario, the newest row of its scenario among those before it is meant."""
    messages: Sequence[MessageRow] = ()
    end: TakeEndRow | None = None
    """None if it was interrupted."""
    verdicts: Sequence[Verdict] = ()
    """Oldest first."""
    checks: Sequence[CheckRow] = ()
    """Oldest first."""

    @property
    def finished(self) -> bool:
        """Whether it may be judged: it was played to an end, and the target answered."""
        ended = self.end is not None and self.end.stop_reason.finished
        return ended and any(message.speaker is Speaker.TARGET for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """A conversation: its takes, oldest first, its attempts, and the states of its work."""

    fresh: bool
    """Whether the store has nothing of it yet."""
    takes: Sequence[WholeTake]
    attempts: Sequence[AttemptRow] = ()
    states: Sequence[StateRow] = ()


BulkRow = StoredRow | WholeConversation | ImportNote
CACHE_KB: Final = 2048
"""Pages of the store that its writer keeps in memory."""
_BULK_CACHE_KB: Final = 8192
"""The same during an import: if a transaction evicts a page and changes it again, SQLite reads the
log again and computes its checksums anew."""


class Bulk:
    """Rows for one transaction, consumed while it is written; they can be written once."""

    def __init__(self, rows: Iterable[BulkRow]) -> None:
        self._rows = rows
        self._begun = False
        # set on the event loop, read on the writer's thread before each row
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make `write` raise before its next row; from any thread."""
        self._stopped.set()

    def write(self, connection: sqlite3.Connection, *, after: int, at: int) -> int:
        """Write all rows and return the last `seq`. Raises what the rows raise, `StoreError` and
        `sqlite3.Error`, after which the caller must roll back."""
        if self._begun:
            raise StoreError("the rows were read once already and cannot be written again")
        self._begun = True
        writing = _BulkWriting(connection, after, at)
        connection.execute(f"PRAGMA cache_size = {-_BULK_CACHE_KB}")
        try:
            for row in self._rows:
                # raised, so that the savepoint of all rows is rolled back
                if self._stopped.is_set():
                    raise StoreError("stopped: nothing of it was written")
                writing.add(row)
        finally:
            connection.execute(f"PRAGMA cache_size = {-CACHE_KB}")
        return writing.seq


@dataclass(slots=True)
class _BulkWriting:
    """Gives rows their `seq`, starting after `seq`."""

    connection: sqlite3.Connection
    seq: int
    at: int
    """Milliseconds since 1970, for rows without a time of their own."""
    _scenarios: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: BulkRow) -> None:
        match row:
            case ImportNote():
                keep_import(self.connection, row, seq=self.seq, at=self.at)
            case WholeConversation():
                for take in row.takes:
                    self._take(take)
                for unit in (*row.attempts, *row.states):
                    self._insert(unit)
            case _:
                self._insert(row)

    def _take(self, whole: WholeTake) -> None:
        begun = whole.begun
        if begun.scenario_seq is None:
            scenario = self._scenarios.get((begun.benchmark, begun.key.scenario_id))
            begun = replace(begun, scenario_seq=scenario)
        self._insert(begun)
        take = self.seq
        self.connection.executemany(INSERTS["message"], self._messages(whole.messages, take))
        if whole.end is not None:
            self._insert(replace(whole.end, take=take))
        for verdict in whole.verdicts:
            self._insert(replace(verdict, take=take))
        for check in whole.checks:
            self._insert(replace(check, take=take))

    def _messages(self, messages: Sequence[MessageRow], take: int) -> Iterator[tuple[Value, ...]]:
        for message in messages:
            self.seq += 1
            # not `decided`, which would look for the end of a take that has none yet
            yield VALUES[MessageRow](message, self.seq, self.at, *message_decided(message, take))

    def _insert(self, row: StoredRow) -> None:
        self.seq += 1
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self.seq
        insert(self.connection, row, seq=self.seq, at=self.at)
