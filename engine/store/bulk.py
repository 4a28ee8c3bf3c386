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
from engine.store.codec import Value, columns_of
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

UNPLACED: Final = 1 << 40
"""Numbers from here on are relative to the store's last row at the time of writing, which is not
known where they are assigned."""

_AT_ONCE: Final = 4_000
"""Rows that are gathered before they are passed to SQLite together."""
_ORDER: Final = ("take", "take_end", "message", "verdict", "take_check", "attempt", "state")
"""The order of writing: a take before the rows that belong to it."""
_SEQ: Final = {table: columns_of(table).index("seq") for table in _ORDER}
"""The position of `seq` among the columns."""
_NUMBERS: Final = frozenset({"seq", "take", "scenario"})
"""Columns that hold a row's number. In `ColumnRows` these are of rows in it or before it."""

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


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows of one table as columns, with their `seq`; they are written without any query."""

    table: str
    values: Sequence[tuple[Value, ...]]


_PlainTake = tuple[int, int, Sequence[bytes], Sequence[str], Sequence[bytes]]
"""The `seq` of a take's first message, its own `seq`, and its `PlainMessages`."""


@dataclass(frozen=True, slots=True)
class PlainMessageRows:
    """`PlainMessages` of several takes, written at `at`."""

    at: int
    takes: Sequence[_PlainTake]

    @property
    def last(self) -> int:
        """The `seq` of the last message."""
        first, _, texts, *_ = self.takes[-1]
        return first + len(texts) - 1

    def values(self, shift: int) -> Iterator[tuple[str | int | bytearray, ...]]:
        """Yield the values of `_INSERT_PLAIN`; `shift` is added to the numbers of rows."""
        for first, take, texts, finishes, digests in self.takes:
            first, take = first + shift, take + shift
            for index, text in enumerate(texts):
                # not bytes: sqlite3 searches long for an adapter of bytes, and of None
                written, digest = bytearray(text), bytearray(digests[index])
                turn, speaker = (index >> 1) + 1, _SPEAKERS[index & 1]
                yield first + index, self.at, take, turn, speaker, written, finishes[index], digest


_INSERT_PLAIN: Final = (
    "INSERT INTO message (seq, at, take, turn, speaker, text, finish, digest) "
    "VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)"
)


@dataclass(frozen=True, slots=True)
class NumberedRow:
    """A row that is written after a query about earlier rows. An `ImportNote` has the `seq` of the
    last row before it."""

    row: StoredRow | ImportNote
    seq: int
    at: int
    """Milliseconds since 1970, for a row without a time of its own."""


NumberedRows = ColumnRows | PlainMessageRows | NumberedRow


class Bulk:
    """Rows for one transaction, consumed while it is written; they can be written once."""

    def __init__(self, rows: Iterable[BulkRow | NumberedRows]) -> None:
        """Either no row is numbered, or all are, from `UNPLACED + 1` on."""
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
        numbering = Numbering(after, at)
        for row in self._rows:
            # raised, so that the savepoint of all rows is rolled back
            if self._stopped.is_set():
                raise StoreError("stopped: nothing of it was written")
            if isinstance(row, NumberedRows):
                last = _write(connection, row, after - UNPLACED)
                numbering.seq = max(numbering.seq, last)
            else:
                for numbered in numbering.add(row):
                    _write(connection, numbered, 0)
        for numbered in numbering.rest():
            _write(connection, numbered, 0)
        return numbering.seq


def _write(connection: sqlite3.Connection, rows: NumberedRows, shift: int) -> int:
    """Return the last `seq`. `shift` is added to the numbers of rows beyond `UNPLACED`."""
    if isinstance(rows, ColumnRows):
        connection.executemany(_insert_shifted(rows.table, shift), rows.values)
        return int(rows.values[-1][_SEQ[rows.table]] or 0) + shift
    if isinstance(rows, PlainMessageRows):
        connection.executemany(_INSERT_PLAIN, rows.values(shift))
        return rows.last + shift
    seq = rows.seq + shift
    if isinstance(rows.row, ImportNote):
        keep_import(connection, rows.row, seq=seq, at=rows.at)
    else:
        insert(connection, _shifted_row(rows.row, shift), seq=seq, at=rows.at)
    return seq


def _insert_shifted(table: str, shift: int) -> str:
    if not shift:
        return INSERTS[table]
    names = columns_of(table)
    # added by SQLite at almost no cost, instead of rebuilding every row
    values = (f"? + {shift}" if name in _NUMBERS else "?" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


def _shifted_row(row: StoredRow, shift: int) -> StoredRow:
    """Shift the numbers in a row. The take or scenario that it names may already be stored."""
    if isinstance(row, _OF_A_TAKE) and row.take > UNPLACED:
        return replace(row, take=row.take + shift)
    if isinstance(row, TakeRow) and (row.scenario_seq or 0) > UNPLACED:
        return replace(row, scenario_seq=(row.scenario_seq or 0) + shift)
    return row


@dataclass(slots=True)
class Numbering:
    """Gives rows their `seq`, starting after `seq`, without querying the store."""

    seq: int
    at: int
    _waiting: dict[str, list[tuple[Value, ...]]] = field(default_factory=lambda: defaultdict(list))
    _plain: list[_PlainTake] = field(default_factory=list)
    _count: int = 0
    _scenarios: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: BulkRow) -> Iterator[NumberedRows]:
        """Yield what is to be written now; consume all of it before adding the next row."""
        if isinstance(row, ImportNote):
            # its digest is of the rows before it, which must be in the store for that
            yield from self.rest()
            yield NumberedRow(row, self.seq, self.at)
        elif not isinstance(row, WholeConversation):
            yield from self._number_row(row)
        elif row.fresh:
            self._conversation(row)
        else:
            for take in row.takes:
                yield from self._number_row(
                    replace(take.begun, scenario_seq=self._scenario(take.begun))
                )
                seq = self.seq
                for part in (*take.messages, *take.behind_messages()):
                    yield from self._number_row(part, seq)
            for unit in (*row.attempts, *row.states):
                yield from self._number_row(unit)
        if self._count >= _AT_ONCE:
            yield from self.rest()

    def _number_row(self, row: StoredRow, take: int = GIVEN_LATER) -> Iterator[NumberedRows]:
        """Yield a row that is written after a query about earlier rows."""
        # the rows that wait go first, as the query sees only stored rows
        yield from self.rest()
        if isinstance(row, _OF_A_TAKE) and row.take == GIVEN_LATER:
            row = replace(row, take=take)
        self.seq += 1
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self.seq
        yield NumberedRow(row, self.seq, self.at)

    def rest(self) -> Iterator[ColumnRows | PlainMessageRows]:
        """Yield the rows that wait, in the order of their references."""
        # foreign keys are on: a row may only name rows that are stored
        for table in _ORDER:
            if rows := self._waiting.pop(table, None):
                yield ColumnRows(table, rows)
        if self._plain:
            yield PlainMessageRows(self.at, self._plain)
            self._plain = []
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
                texts, finishes, digests = messages.texts, messages.finishes, messages.digests
                self._plain.append((self.seq + 1, take, texts, finishes, digests))
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
