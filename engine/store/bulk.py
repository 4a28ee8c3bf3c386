"""Writes whole conversations in one transaction: for imported files, not for a run."""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import Speaker, Stage, Track
from engine.errors import StoreError
from engine.jury import Vote
from engine.store.codec import Value
from engine.store.imports import ImportNote, keep_import
from engine.store.inserts import INSERTS, TABLE_OF, VALUES, decided, insert, message_decided
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

_AT_ONCE: Final = 4_000
"""Rows that are gathered before they are passed to SQLite together."""
_ORDER: Final = ("take", "take_end", "message", "verdict", "take_check", "attempt", "state")
"""The order of writing: a take before the rows that belong to it."""
_OF_A_TAKE: Final = (TakeEndRow, MessageRow, Verdict, CheckRow)


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
        return self.has_reply and self.end is not None and self.end.stop_reason.finished

    @property
    def has_reply(self) -> bool:
        return any(message.speaker is Speaker.TARGET for message in self.messages)

    @property
    def behind_messages(self) -> Iterator[TakeEndRow | Verdict | CheckRow]:
        """The rows that follow the messages."""
        if self.end is not None:
            yield self.end
        yield from self.verdicts
        yield from self.checks


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """A conversation: its takes, oldest first, its attempts, and the states of its work."""

    fresh: bool
    """Whether the store has nothing of it yet. Otherwise its rows are written one by one, each
    after a look at the rows before it."""
    takes: Sequence[WholeTake]
    attempts: Sequence[AttemptRow] = ()
    states: Sequence[StateRow] = ()


BulkRow = StoredRow | WholeConversation | ImportNote


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
        for row in self._rows:
            # raised, so that the savepoint of all rows is rolled back
            if self._stopped.is_set():
                raise StoreError("stopped: nothing of it was written")
            writing.add(row)
        writing.flush()
        return writing.seq


@dataclass(slots=True)
class _BulkWriting:
    """Gives rows their `seq`, starting after `seq`. The rows of new conversations wait until there
    are many, and are then written without any query."""

    connection: sqlite3.Connection
    seq: int
    at: int
    """Milliseconds since 1970, for rows without a time of their own."""
    _waiting: dict[str, list[tuple[Value, ...]]] = field(default_factory=lambda: defaultdict(list))
    _count: int = 0
    _scenarios: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: BulkRow) -> None:
        if isinstance(row, ImportNote):
            # its digest is of the rows before it, which must be in the store for that
            self.flush()
            keep_import(self.connection, row, seq=self.seq, at=self.at)
        elif not isinstance(row, WholeConversation):
            self._insert(row)
        elif row.fresh:
            self._conversation(row)
        else:
            self._known_conversation(row)
        if self._count >= _AT_ONCE:
            self.flush()

    def _known_conversation(self, conversation: WholeConversation) -> None:
        for take in conversation.takes:
            self._insert(replace(take.begun, scenario_seq=self._scenario(take.begun)))
            seq = self.seq
            for part in (*take.messages, *take.behind_messages):
                self._insert(part, seq)
        for unit in (*conversation.attempts, *conversation.states):
            self._insert(unit)

    def _insert(self, row: StoredRow, take: int = GIVEN_LATER) -> None:
        """Write a row after a query about earlier rows."""
        # the rows that wait go first, as the query sees only stored rows
        self.flush()
        if isinstance(row, _OF_A_TAKE) and row.take == GIVEN_LATER:
            row = replace(row, take=take)
        self.seq += 1
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self.seq
        insert(self.connection, row, seq=self.seq, at=self.at)

    def flush(self) -> None:
        """Write the rows that wait, in the order of their references."""
        # foreign keys are on: a row may only name rows that are stored
        for table in _ORDER:
            if rows := self._waiting.pop(table, None):
                self.connection.executemany(INSERTS[table], rows)
        self._count = 0

    def _put_row(self, row: StoredRow, decided_values: Sequence[Value]) -> int:
        self.seq += 1
        values = VALUES[type(row)](row, self.seq, self.at, *decided_values)
        self._waiting[TABLE_OF[type(row)]].append(values)
        self._count += 1
        return self.seq

    def _conversation(self, conversation: WholeConversation) -> None:
        """Add a new conversation, whose earlier rows are all known here."""
        before = _WrittenConversation()
        for take in conversation.takes:
            seq = self._put_row(take.begun, (self._scenario(take.begun),))
            for message in take.messages:
                # not `decided`, which would look for the end of a take that has none yet
                self._put_row(message, message_decided(message, seq))
            before.begin(has_reply=take.has_reply)
            for row in take.behind_messages:
                before.add(row, decided_values := decided(row, before, seq))
                self._put_row(row, decided_values)
        for rest in (*conversation.attempts, *conversation.states):
            before.add(rest, decided_values := decided(rest, before, 0))
            self._put_row(rest, decided_values)

    def _scenario(self, begun: TakeRow) -> int | None:
        if begun.scenario_seq is not None:
            return begun.scenario_seq
        return self._scenarios.get((begun.benchmark, begun.key.scenario_id))


class _WrittenConversation:
    """What was written of one conversation: `PriorRows` that need no query."""

    def __init__(self) -> None:
        self._states: dict[tuple[Stage, str], str] = {}
        self._counted: dict[Track, bool | None] = {}
        self._votes: list[Verdict] = []
        """The verdicts on the newest take."""
        self._has_reply = self._is_finished = False

    def begin(self, *, has_reply: bool) -> None:
        """Begin another take."""
        self._has_reply, self._is_finished, self._votes = has_reply, False, []

    def add(self, row: StoredRow, decided_values: Sequence[Value]) -> None:
        """Add a row with what `decided` returned for it."""
        match row:
            case StateRow():
                self._states[row.stage, row.unit] = row.state.value
            case TakeEndRow():
                self._is_finished = bool(decided_values[-1])
            case Verdict():
                self._counted[row.track] = (
                    None if decided_values[-1] is None else bool(decided_values[-1])
                )

    def state(self, row: StateRow) -> str | None:
        return self._states.get((row.stage, row.unit))

    def is_finished(self, _take: int) -> bool:
        return self._is_finished

    def has_reply(self, _take: int) -> bool:
        return self._has_reply

    def counted(self, row: Verdict, _take: int) -> bool | None:
        return self._counted.get(row.track)

    def votes(self, row: Verdict, _take: int) -> Sequence[Vote]:
        """Return the votes; a take that is judged is finished and the newest."""
        self._votes.append(row)
        return self._votes
