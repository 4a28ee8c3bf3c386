"""Turns a value into the one row that is inserted for it, with the columns that only the writer
knows: its number, its time, and what earlier rows decide. Imported conversations are written as a
whole."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.benchmark import Speaker, plausible_tokens, plausible_usd
from engine.errors import StoreError
from engine.identity import digest_of
from engine.jury import Vote, what_counts
from engine.store.codec import VOTE, Value, encoder, insert_into, plain_vote, storable
from engine.store.imports import ImportNote, keep_import
from engine.store.tables import (
    TABLES,
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

TABLE_OF: Final = {row: table for table, row in TABLES.items()}
INSERTS: Final = {table: insert_into(table) for table in TABLES}
"""The INSERT statement of each table."""

_DECIDED: Final[dict[type[StoredRow], tuple[str, ...]]] = {
    StateRow: ("was",),
    TakeRow: ("scenario",),
    TakeEndRow: ("take", "finished"),
    MessageRow: ("take", "text", "digest"),
    Verdict: ("take", "counted_before", "counted"),
    CheckRow: ("take",),
    AttemptRow: ("input_tokens", "cached_tokens", "output_tokens", "cost_usd"),
}
"""Columns whose values come from `_decided`, in its order."""
VALUES: Final = {row: encoder(row, *_DECIDED.get(row, ())) for row in TABLE_OF}
"""For each class of rows, what makes its columns from the row, its `seq`, the time, and the values
of `_decided`."""


def storable_message(speaker: Speaker, text: str) -> tuple[str, bytes]:
    """Return the text as it can be stored, and its digest. Encodes the text only once."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = storable(text)
        encoded = text.encode()
    return text, digest_of(speaker, encoded)


def insert(connection: sqlite3.Connection, row: StoredRow, *, seq: int, at: int) -> None:
    """Insert a row. Raises `StoreError` if it contradicts the rows there, and `sqlite3.Error`."""
    take = getattr(row, "take", 0)  # faster than asking for the class of the row
    decided_values = _decided(row, connection, take)
    connection.execute(
        INSERTS[TABLE_OF[type(row)]], VALUES[type(row)](row, seq, at, *decided_values)
    )


def _decided(row: StoredRow, earlier: sqlite3.Connection, take: int) -> Sequence[Value]:
    """Return the values that the writer adds to a row or puts in place of its own.

    `take` is the `seq` of the row's take, if it belongs to one. Raises `StoreError` for a row that
    contradicts the rows there.
    """
    match row:
        case MessageRow():
            _refuse_finished(earlier, take)
            return message_decided(row, take)
        case StateRow():
            return (_present_state(earlier, row),)
        case AttemptRow():
            used = row.usage
            tokens = (used.input_tokens, used.cached_tokens, used.output_tokens)
            return (*map(plausible_tokens, tokens), plausible_usd(used.cost_usd))
        case TakeRow():
            return (row.scenario_seq,)
        case TakeEndRow():
            _refuse_finished(earlier, take)
            # without any reply there is nothing to judge, however it ended
            return take, int(row.stop_reason.finished and _has_reply(earlier, take))
        case Verdict():
            _refuse_unfinished(earlier, take)
            counts = what_counts(_votes_on_counting(earlier, row, take), row.jury)
            return take, _bit(_counted_before(earlier, row, take)), _bit(counts)
        case CheckRow():
            _refuse_unfinished(earlier, take)
            return (take,)
        case _:
            return ()


def message_decided(row: MessageRow, take: int) -> tuple[int, str, bytes]:
    """Return what `_decided` does for a message of a take that is not finished. The text of a
    message that has its digest must be storable."""
    if row.digest is not None:
        return take, row.text, row.digest
    return take, *storable_message(row.speaker, row.text)


def _bit(value: bool | None) -> int | None:  # noqa: FBT001  (a value to be stored, not a switch)
    return None if value is None else int(value)


def _refuse_unfinished(earlier: sqlite3.Connection, take: int) -> None:
    if not _is_finished(earlier, take):
        raise StoreError(f"take {take} was not played to its end and cannot be judged")


def _refuse_finished(earlier: sqlite3.Connection, take: int) -> None:
    """A take that may have been judged must not change."""
    if _is_finished(earlier, take):
        raise StoreError(f"take {take} was played to its end; nothing can be added to it")


_SAME: Final = "t.benchmark = ? AND t.scenario_id = ? AND t.target = ? AND t.sample = ?"


# What earlier rows decide of what is written with a row


def _present_state(earlier: sqlite3.Connection, row: StateRow) -> str | None:
    """Return the present state of its row of work."""
    newest: tuple[str] | None = earlier.execute(
        "SELECT state FROM state WHERE benchmark = ? AND stage = ? AND unit = ? "
        "ORDER BY seq DESC LIMIT 1",
        (row.benchmark, str(row.stage), storable(row.unit)),
    ).fetchone()
    return None if newest is None else newest[0]


def _is_finished(earlier: sqlite3.Connection, take: int) -> bool:
    """Whether the take was played to an end that may be judged."""
    return _is_so(earlier, "FROM take_end WHERE take = ? AND finished = 1", take)


def _has_reply(earlier: sqlite3.Connection, take: int) -> bool:
    return _is_so(earlier, "FROM message WHERE take = ? AND speaker = 'assistant'", take)


def _is_so(earlier: sqlite3.Connection, where: str, take: int) -> bool:
    [is_so] = earlier.execute(f"SELECT EXISTS (SELECT 1 {where})", (take,)).fetchone()
    return bool(is_so)


def _counted_before(earlier: sqlite3.Connection, row: Verdict, take: int) -> bool | None:
    """Return what the conversation's latest verdict of this track counted as, on whatever take,
    so that the changes always add up to the present sum."""
    before: tuple[bool | None] | None = earlier.execute(
        "SELECT v.counted FROM verdict v JOIN take t ON t.seq = v.take "
        f"WHERE {_SAME} AND v.track = ? ORDER BY v.seq DESC LIMIT 1",
        (*_conversation(earlier, take), str(row.track)),
    ).fetchone()
    return None if before is None else before[0]


def _votes_on_counting(earlier: sqlite3.Connection, row: Verdict, take: int) -> Sequence[Vote]:
    """Return the votes on the conversation's newest finished take, which counts; oldest first,
    with this verdict if it is on that take."""
    [counting] = earlier.execute(
        "SELECT t.seq FROM take t JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
        f"WHERE {_SAME} ORDER BY t.number DESC LIMIT 1",
        _conversation(earlier, take),
    ).fetchone()
    rows = earlier.execute(
        f"SELECT {VOTE} FROM verdict v WHERE v.take = ? ORDER BY v.seq", (counting,)
    )
    votes: list[Vote] = [*map(plain_vote, rows)]
    if take == counting:
        votes.append(replace(row, judge=storable(row.judge), metric_id=storable(row.metric_id)))
    return votes


def _conversation(earlier: sqlite3.Connection, take: int) -> tuple[Value, ...]:
    columns: tuple[Value, ...] = earlier.execute(
        "SELECT benchmark, scenario_id, target, sample FROM take WHERE seq = ?", (take,)
    ).fetchone()
    return columns


# Whole conversations in one transaction: for imported files, not for a run


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
        self._scenarios: dict[tuple[str, str], int] = {}

    def stop(self) -> None:
        """Make `write` raise before its next row; from any thread."""
        self._stopped.set()

    def write(self, connection: sqlite3.Connection, *, after: int, at: int) -> int:
        """Write all rows and return the last `seq`. `at` is in milliseconds since 1970, for rows
        without a time of their own. Raises what the rows raise, `StoreError` and `sqlite3.Error`,
        after which the caller must roll back."""
        if self._begun:
            raise StoreError("the rows were read once already and cannot be written again")
        self._begun = True
        self._connection, self._seq, self._at = connection, after, at
        connection.execute(f"PRAGMA cache_size = {-_BULK_CACHE_KB}")
        try:
            for row in self._rows:
                # raised, so that the savepoint of all rows is rolled back
                if self._stopped.is_set():
                    raise StoreError("stopped: nothing of it was written")
                self._add(row)
        finally:
            connection.execute(f"PRAGMA cache_size = {-CACHE_KB}")
        return self._seq

    def _add(self, row: BulkRow) -> None:
        match row:
            case ImportNote():
                keep_import(self._connection, row, seq=self._seq, at=self._at)
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
        take = self._seq
        self._connection.executemany(INSERTS["message"], self._messages(whole.messages, take))
        if whole.end is not None:
            self._insert(replace(whole.end, take=take))
        for verdict in whole.verdicts:
            self._insert(replace(verdict, take=take))
        for check in whole.checks:
            self._insert(replace(check, take=take))

    def _messages(self, messages: Sequence[MessageRow], take: int) -> Iterator[tuple[Value, ...]]:
        for message in messages:
            self._seq += 1
            # not `decided`, which would look for the end of a take that has none yet
            decided = message_decided(message, take)
            yield VALUES[MessageRow](message, self._seq, self._at, *decided)

    def _insert(self, row: StoredRow) -> None:
        self._seq += 1
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self._seq
        insert(self._connection, row, seq=self._seq, at=self._at)
