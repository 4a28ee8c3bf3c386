"""Whole conversations into the store, many at once: for what comes from files, not from a run."""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Speaker, StopReason, Track
from engine.errors import StoreError
from engine.jury import what_counts
from engine.store.imports import ImportNote, keep_import
from engine.store.inserts import (
    INSERTS,
    Value,
    attempt_values,
    insert,
    message_values,
    storable,
    take_values,
    verdict_values,
)
from engine.store.rows import (
    AttemptRow,
    MessageRow,
    NewVerdict,
    Row,
    ScenarioRow,
    StateRow,
    TakeEndRow,
    TakeRow,
)

GIVEN_LATER: Final = 0
"""Stands where a row names the take that is written together with it."""

_AT_ONCE: Final = 4_000
"""Rows that are gathered before they go to SQLite together."""
_ORDER: Final = ("take", "take_end", "message", "verdict", "attempt", "state")
"""A take before what belongs to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTake:
    """One playing of a conversation, with all that was said in it and about it. Its messages and
    verdicts name their take as `GIVEN_LATER`."""

    begun: TakeRow
    """Where it names no scenario, it is of the newest row among those before it."""
    messages: Sequence[MessageRow] = ()
    stop_reason: StopReason | None = None
    """None where it was interrupted."""
    detail: str | None = None
    ended_at: int | None = None
    """When, where that is known."""
    verdicts: Sequence[NewVerdict] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """One conversation: its takes, oldest first, what was called for it, and where its rows of
    work stand."""

    fresh: bool
    """Whether the store knows nothing of it yet. Otherwise its rows are written one by one, each
    asking what is there before it."""
    takes: Sequence[WholeTake]
    attempts: Sequence[AttemptRow] = ()
    states: Sequence[StateRow] = ()


BulkRow = Row | WholeConversation | ImportNote


class Bulk:
    """Rows that become one transaction, read while they are written; at most once."""

    def __init__(self, rows: Iterable[BulkRow]) -> None:
        self._rows = rows
        self._begun = False
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Write nothing of it, from any thread."""
        self._stopped.set()

    def write(self, connection: sqlite3.Connection, *, after: int, at: int) -> int:
        """The last `seq` that was given. Raises what the rows raise, `StoreError` and
        `sqlite3.Error`; then the transaction is to be rolled back."""
        if self._begun:
            raise StoreError("the rows were read once already and cannot be written again")
        self._begun = True
        writing = _Writing(connection, after, at)
        for row in self._rows:
            if self._stopped.is_set():
                raise StoreError("stopped: nothing of it was written")
            writing.add(row)
        writing.flush()
        return writing.seq


@dataclass(slots=True)
class _Writing:
    connection: sqlite3.Connection
    seq: int
    at: int
    _waiting: dict[str, list[tuple[Value, ...]]] = field(default_factory=lambda: defaultdict(list))
    _count: int = 0
    _scenarios: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: BulkRow) -> None:
        if isinstance(row, ImportNote):
            self.flush()
            keep_import(self.connection, row, seq=self.seq, at=self.at)
        elif not isinstance(row, WholeConversation):
            self._one(row)
        elif row.fresh:
            self._conversation(row)
        else:
            for take in row.takes:
                begun = replace(take.begun, scenario_seq=self._scenario_of(take.begun))
                seq = self._one(begun)
                for part in _rows_of(take, seq):
                    self._one(part)
            rest: list[Row] = [*row.attempts, *row.states]
            for one in rest:
                self._one(one)
        if self._count >= _AT_ONCE:
            self.flush()

    def _one(self, row: Row) -> int:
        self.flush()  # the row may ask for what waits
        self.seq += 1
        insert(self.connection, row, seq=self.seq, at=self.at)
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self.seq
        return self.seq

    def flush(self) -> None:
        for table in _ORDER:
            if rows := self._waiting.pop(table, None):
                self.connection.executemany(INSERTS[table], rows)
        self._count = 0

    def _put(self, table: str, values: Iterable[Value], at: int | None = None) -> int:
        kept = [
            value if type(value) is not str or value.isascii() else storable(value)
            for value in values
        ]
        self.seq += 1
        self._waiting[table].append((self.seq, self.at if at is None else at, *kept))
        self._count += 1
        return self.seq

    def _messages(self, rows: Sequence[MessageRow], take: int) -> None:
        waiting = self._waiting["message"]
        for seq, row in enumerate(rows, self.seq + 1):
            at = self.at if row.at is None else row.at
            waiting.append((seq, at, *message_values(row, take)))
        self.seq += len(rows)
        self._count += len(rows)

    def _conversation(self, row: WholeConversation) -> None:
        counted: dict[Track, bool | None] = {}
        for take in row.takes:
            self._take(take, counted)
        for attempt in row.attempts:
            self._put("attempt", attempt_values(attempt), attempt.at)
        for state, was in _with_before(row.states):
            unit = (state.benchmark, state.stage.value, state.unit)
            values = (*unit, state.target, was, state.state.value, state.reason)
            self._put("state", values, state.at)

    def _scenario_of(self, take: TakeRow) -> int | None:
        if take.scenario_seq is not None:
            return take.scenario_seq
        return self._scenarios.get((take.benchmark, take.key.scenario_id))

    def _take(self, take: WholeTake, counted: dict[Track, bool | None]) -> None:
        begun = take.begun
        seq = self._put("take", take_values(begun, self._scenario_of(begun)), begun.at)
        self._messages(take.messages, seq)
        finished = False
        if take.stop_reason is not None:
            answered = any(message.speaker is Speaker.TARGET for message in take.messages)
            finished = take.stop_reason.finished and answered
            end = (seq, take.stop_reason.value, int(finished), take.detail)
            self._put("take_end", end, take.ended_at)
        if take.verdicts and not finished:
            raise StoreError(f"{begun.key} was not played to its end and cannot be judged")
        for verdict, before, now in _counting(take.verdicts, counted):
            self._put("verdict", verdict_values(verdict, seq, before, now), verdict.at)


def _counting(
    verdicts: Sequence[NewVerdict], counted: dict[Track, bool | None]
) -> Iterator[tuple[NewVerdict, int | None, bool | None]]:
    """What counted before and from each verdict on, as it is for rows that come one by one: the
    take that was written last is the newest finished one."""
    given: list[NewVerdict] = []
    for verdict in verdicts:
        given.append(verdict)
        before = counted.get(verdict.track)
        now = counted[verdict.track] = what_counts(given, verdict.jury)
        yield verdict, None if before is None else int(before), now


def _with_before(states: Sequence[StateRow]) -> Iterator[tuple[StateRow, str | None]]:
    newest: dict[tuple[str, str], str] = {}
    for state in states:
        unit = (state.stage.value, state.unit)
        yield state, newest.get(unit)
        newest[unit] = state.state.value


def _rows_of(take: WholeTake, seq: int) -> Iterator[Row]:
    for message in take.messages:
        yield replace(message, take=seq)
    if take.stop_reason is not None:
        yield TakeEndRow(
            take=seq, stop_reason=take.stop_reason, detail=take.detail, at=take.ended_at
        )
    for verdict in take.verdicts:
        yield replace(verdict, take=seq)
