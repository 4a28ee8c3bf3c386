"""Writes whole conversations in one transaction: for imported files, not for a run."""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, overload

from engine.benchmark import Speaker, Stage, StopReason, Track
from engine.checks import UserFault
from engine.errors import StoreError
from engine.identity import digest_of
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
_SPEAKERS: Final = (Speaker.USER.value, Speaker.TARGET.value)


class PlainMessages(Sequence[MessageRow]):
    """The messages of a take that alternate from the user's on and have nothing but their text.
    `MessageRow`s are made only for code that reads them; writing needs none."""

    __slots__ = ("digests", "finishes", "texts")

    def __init__(self, texts: Sequence[bytes], finishes: Sequence[str]) -> None:
        """`texts` are UTF-8."""
        self.texts = texts
        self.finishes = finishes
        self.digests = [digest_of(_SPEAKERS[index & 1], text) for index, text in enumerate(texts)]

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> MessageRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageRow]: ...
    def __getitem__(self, index: int | slice) -> MessageRow | list[MessageRow]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return MessageRow(
            take=GIVEN_LATER,
            turn=(index >> 1) + 1,
            speaker=Speaker.TARGET if index & 1 else Speaker.USER,
            text=self.texts[index].decode(),
            finish=self.finishes[index],
            digest=self.digests[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTake:
    """A take with its messages, verdicts and checks, whose `take` is `GIVEN_LATER`."""

    begun: TakeRow
    """If it names no scenario, the newest row of its scenario among those before it is meant."""
    messages: Sequence[MessageRow] = ()
    stop_reason: StopReason | None = None
    """None if it was interrupted."""
    detail: str | None = None
    user_faults: tuple[UserFault, ...] | None = None
    ended_at: int | None = None
    """Milliseconds since 1970, if known."""
    verdicts: Sequence[Verdict] = ()
    """Oldest first."""
    checks: Sequence[CheckRow] = ()
    """Oldest first."""

    def behind_messages(self) -> Iterator[TakeEndRow | Verdict | CheckRow]:
        """Yield the rows that follow the messages."""
        if self.stop_reason is not None:
            yield TakeEndRow(
                take=GIVEN_LATER,
                stop_reason=self.stop_reason,
                detail=self.detail,
                user_faults=self.user_faults,
                at=self.ended_at,
            )
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


_INSERT_PLAIN: Final = (
    "INSERT INTO message (seq, at, take, turn, speaker, text, finish, digest) "
    "VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)"
)


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
    _plain: list[tuple[int, int, PlainMessages]] = field(default_factory=list)
    """The `seq` of a take's first message, its own `seq`, and the messages."""
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
            for part in (*take.messages, *take.behind_messages()):
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
        if self._plain:
            self.connection.executemany(_INSERT_PLAIN, self._plain_values())
            self._plain.clear()
        self._count = 0

    def _plain_values(self) -> Iterator[tuple[str | int | bytearray, ...]]:
        """Yield the values of `_INSERT_PLAIN`."""
        for first, take, messages in self._plain:
            for index, text in enumerate(messages.texts):
                # not bytes: sqlite3 searches long for an adapter of bytes, and of None
                written, digest = bytearray(text), bytearray(messages.digests[index])
                turn, speaker, finish = (index >> 1) + 1, _SPEAKERS[index & 1], messages.finishes
                yield first + index, self.at, take, turn, speaker, written, finish[index], digest

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
            self._messages(take.messages, seq)
            before.begin(has_reply=_has_reply(take.messages))
            for row in take.behind_messages():
                before.add(row, decided_values := decided(row, before, seq))
                self._put_row(row, decided_values)
        for rest in (*conversation.attempts, *conversation.states):
            before.add(rest, decided_values := decided(rest, before, 0))
            self._put_row(rest, decided_values)

    def _messages(self, messages: Sequence[MessageRow], take: int) -> None:
        if isinstance(messages, PlainMessages):
            if messages:
                self._plain.append((self.seq + 1, take, messages))
            self.seq += len(messages)
            self._count += len(messages)
            return
        for message in messages:
            # not `decided`, which would look for the end of a take that has none yet
            self._put_row(message, message_decided(message, take))

    def _scenario(self, begun: TakeRow) -> int | None:
        if begun.scenario_seq is not None:
            return begun.scenario_seq
        return self._scenarios.get((begun.benchmark, begun.key.scenario_id))


def _has_reply(messages: Sequence[MessageRow]) -> bool:
    if isinstance(messages, PlainMessages):
        return len(messages) > 1
    return any(message.speaker is Speaker.TARGET for message in messages)


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
