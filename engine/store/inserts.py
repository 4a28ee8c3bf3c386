"""The one row of a table that a value becomes, with what only the writing end knows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from engine.benchmark import Speaker, plausible_tokens, plausible_usd
from engine.errors import StoreError
from engine.identity import digest_of
from engine.jury import PlainVote, Vote, what_counts
from engine.store.codec import Value, encoder, flag, insert_into, storable
from engine.store.tables import (
    TABLES,
    AttemptRow,
    CheckRow,
    MessageRow,
    StateRow,
    StoredRow,
    TakeEndRow,
    TakeRow,
    Verdict,
)

TABLE_OF: Final = {row: table for table, row in TABLES.items()}
INSERTS: Final = {table: insert_into(table) for table in TABLES}
"""For each table the statement that adds a row."""

_DECIDED: Final[dict[type[StoredRow], tuple[str, ...]]] = {
    StateRow: ("was",),
    TakeRow: ("scenario",),
    TakeEndRow: ("take", "finished"),
    MessageRow: ("take", "text", "digest"),
    Verdict: ("take", "counted_before", "counted"),
    CheckRow: ("take",),
    AttemptRow: ("input_tokens", "cached_tokens", "output_tokens", "cost_usd"),
}
"""Columns that hold what `decided` says, in its order."""
VALUES: Final = {row: encoder(row, *_DECIDED.get(row, ())) for row in TABLE_OF}
"""For each kind of row what makes its columns: of it, its `seq`, the time, and those values."""


def storable_message(speaker: Speaker, text: str) -> tuple[str, bytes]:
    """The text as it can be stored, and its digest: both need it encoded, which is done once."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        text = storable(text)
        encoded = text.encode()
    return text, digest_of(speaker, encoded)


def insert(connection: sqlite3.Connection, row: StoredRow, *, seq: int, at: int) -> None:
    """Raises `StoreError` for a row that contradicts those that are there, and `sqlite3.Error`."""
    take = getattr(row, "take", 0)  # quicker than to ask of which kind it is
    given = decided(row, StoredPriorRows(connection), take)
    connection.execute(INSERTS[TABLE_OF[type(row)]], VALUES[type(row)](row, seq, at, *given))


class PriorRows(Protocol):
    """What stands before a row, where that decides what is written with it."""

    def state(self, row: StateRow) -> str | None:
        """The one that its row of work has."""

    def is_finished(self, take: int) -> bool:
        """Whether it was played to an end that may be judged."""

    def has_reply(self, take: int) -> bool:
        """Whether the target said anything in it."""

    def counted(self, row: Verdict, take: int) -> bool | None:
        """What the verdict before this one left, on whatever take that was, so that changes added
        up are always the present sum."""

    def votes(self, row: Verdict, take: int) -> Sequence[Vote]:
        """Oldest first, those on the newest finished take of the conversation, which counts; with
        this one where it is on that."""


def decided(row: StoredRow, before: PriorRows, take: int) -> Sequence[Value]:
    """What the writer adds to a row, or puts in place of what it says; `take` is its take's `seq`,
    where it is a part of one. Raises `StoreError` for a row that contradicts what is there."""
    match row:
        case MessageRow():
            _refuse_finished(before, take)
            return message_decided(row, take)
        case StateRow():
            return (before.state(row),)
        case AttemptRow():
            used = row.usage
            tokens = (used.input_tokens, used.cached_tokens, used.output_tokens)
            return (*map(plausible_tokens, tokens), plausible_usd(used.cost_usd))
        case TakeRow():
            return (row.scenario_seq,)
        case TakeEndRow():
            _refuse_finished(before, take)
            # without one reply there is nothing to judge, however it ended
            return take, int(row.stop_reason.finished and before.has_reply(take))
        case Verdict():
            _refuse_unfinished(before, take)
            counts = what_counts(before.votes(row, take), row.jury)
            return take, _bit(before.counted(row, take)), _bit(counts)
        case CheckRow():
            _refuse_unfinished(before, take)
            return (take,)
        case _:
            return ()


def message_decided(row: MessageRow, take: int) -> tuple[int, str, bytes]:
    """What `decided` says of a message of a take that is not finished. One that knows its digest
    has a text that can be stored."""
    if row.digest is not None:
        return take, row.text, row.digest
    return take, *storable_message(row.speaker, row.text)


def _bit(value: bool | None) -> int | None:  # noqa: FBT001  (a value to be stored, not a switch)
    return None if value is None else int(value)


def _refuse_unfinished(before: PriorRows, take: int) -> None:
    if not before.is_finished(take):
        raise StoreError(f"take {take} was not played to its end and cannot be judged")


def _refuse_finished(before: PriorRows, take: int) -> None:
    """What was judged must stay as it was."""
    if before.is_finished(take):
        raise StoreError(f"take {take} was played to its end; nothing can be added to it")


_SAME: Final = "t.benchmark = ? AND t.scenario_id = ? AND t.target = ? AND t.sample = ?"


class StoredPriorRows:
    """What the store itself holds, asked row by row as a run writes them. What comes from files in
    thousands is known to `bulk`, which answers without SQL."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def state(self, row: StateRow) -> str | None:
        newest: tuple[str] | None = self._connection.execute(
            "SELECT state FROM state WHERE benchmark = ? AND stage = ? AND unit = ? "
            "ORDER BY seq DESC LIMIT 1",
            (row.benchmark, str(row.stage), storable(row.unit)),
        ).fetchone()
        return None if newest is None else newest[0]

    def is_finished(self, take: int) -> bool:
        return self._is_so("FROM take_end WHERE take = ? AND finished = 1", take)

    def has_reply(self, take: int) -> bool:
        return self._is_so("FROM message WHERE take = ? AND speaker = 'assistant'", take)

    def _is_so(self, where: str, take: int) -> bool:
        [found] = self._connection.execute(f"SELECT EXISTS (SELECT 1 {where})", (take,)).fetchone()
        return bool(found)

    def counted(self, row: Verdict, take: int) -> bool | None:
        before: tuple[bool | None] | None = self._connection.execute(
            "SELECT v.counted FROM verdict v JOIN take t ON t.seq = v.take "
            f"WHERE {_SAME} AND v.track = ? ORDER BY v.seq DESC LIMIT 1",
            (*self._conversation(take), str(row.track)),
        ).fetchone()
        return None if before is None else before[0]

    def votes(self, row: Verdict, take: int) -> Sequence[Vote]:
        [counting] = self._connection.execute(
            "SELECT t.seq FROM take t JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
            f"WHERE {_SAME} ORDER BY t.number DESC LIMIT 1",
            self._conversation(take),
        ).fetchone()
        given = self._connection.execute(
            "SELECT judge, source, number, metric_id, CASE WHEN json_valid(depends) "
            "THEN json_extract(depends, '$.\"metric definition\"') END, passed, unscored "
            "FROM verdict WHERE take = ? ORDER BY seq",
            (counting,),
        )
        # a vote is given under one definition of its metric, of which `depends` has the digest
        votes: list[Vote] = [
            PlainVote(judge, source, number, metric, under, flag(passed), why)
            for judge, source, number, metric, under, passed, why in given
        ]
        if take == counting:
            votes.append(replace(row, judge=storable(row.judge), metric_id=storable(row.metric_id)))
        return votes

    def _conversation(self, take: int) -> tuple[Value, ...]:
        found: tuple[Value, ...] = self._connection.execute(
            "SELECT benchmark, scenario_id, target, sample FROM take WHERE seq = ?", (take,)
        ).fetchone()
        return found
