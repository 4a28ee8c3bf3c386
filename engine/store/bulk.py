"""Whole conversations into the store, many at once: for what comes from files, not from a run."""

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
"""Stands where a row names the take that is written together with it."""

UNPLACED: Final = 1 << 40
"""Numbers of rows from here on count from the last row that the store has when they are written,
which who makes them ahead does not know."""

_AT_ONCE: Final = 4_000
"""Rows that are gathered before they go to SQLite together."""
_ORDER: Final = ("take", "take_end", "message", "verdict", "take_check", "attempt", "state")
"""A take before what belongs to it."""
_SEQ: Final = {table: columns_of(table).index("seq") for table in _ORDER}
"""Where a row has its `seq`."""
_NUMBERS: Final = frozenset({"seq", "take", "scenario"})
"""Columns with the number of a row. Of `ColumnRows`, all are of rows in them or before them."""

_OF_A_TAKE: Final = (TakeEndRow, MessageRow, Verdict, CheckRow)
_SPEAKERS: Final = (Speaker.USER.value, Speaker.TARGET.value)


class PlainMessages(Sequence[MessageRow]):
    """What was said in turns that the user begins, where no more is known of a message than its
    words. Its rows are made for whoever looks at them; to write it, nobody has to."""

    __slots__ = ("finishes", "texts")

    def __init__(self, texts: Sequence[bytes], finishes: Sequence[str]) -> None:
        """`texts` are UTF-8."""
        self.texts = texts
        self.finishes = finishes

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, place: int) -> MessageRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[MessageRow]: ...
    def __getitem__(self, place: int | slice) -> MessageRow | list[MessageRow]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return MessageRow(
            take=GIVEN_LATER,
            turn=(place >> 1) + 1,
            speaker=Speaker.TARGET if place & 1 else Speaker.USER,
            text=self.texts[place].decode(),
            finish=self.finishes[place],
        )


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
    user_faults: tuple[UserFault, ...] | None = None
    ended_at: int | None = None
    """When, where that is known."""
    verdicts: Sequence[Verdict] = ()
    """Oldest first."""
    checks: Sequence[CheckRow] = ()
    """Oldest first."""

    def behind_messages(self) -> Iterator[TakeEndRow | Verdict | CheckRow]:
        """The rows that come after what was said."""
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
    """One conversation: its takes, oldest first, what was called for it, and where its rows of
    work stand."""

    fresh: bool
    """Whether the store knows nothing of it yet. Otherwise its rows are written one by one, each
    asking what is there before it."""
    takes: Sequence[WholeTake]
    attempts: Sequence[AttemptRow] = ()
    states: Sequence[StateRow] = ()


BulkRow = StoredRow | WholeConversation | ImportNote


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows of one table as their columns, each with its `seq`: nothing is to be asked before they
    are written."""

    table: str
    values: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class PlainMessageRows:
    """`PlainMessages` of several takes, written at `at`."""

    at: int
    takes: Sequence[tuple[int, int, Sequence[bytes], Sequence[str]]]
    """Of each the `seq` of its first message, its own, and what `PlainMessages` has."""

    @property
    def last(self) -> int:
        """The last `seq`."""
        first, _, texts, _ = self.takes[-1]
        return first + len(texts) - 1

    def values(self, shift: int) -> Iterator[tuple[str | int | bytearray, ...]]:
        """As `_INSERT_PLAIN` takes them; `shift` is added to the numbers of rows."""
        for first, take, texts, finishes in self.takes:
            first, take = first + shift, take + shift
            for place, text in enumerate(texts):
                speaker = _SPEAKERS[place & 1]
                # not as bytes: sqlite3 looks far and wide for what adapts those, and for None
                written, digest = bytearray(text), bytearray(digest_of(speaker, text))
                turn = (place >> 1) + 1
                yield first + place, self.at, take, turn, speaker, written, finishes[place], digest


_INSERT_PLAIN: Final = (
    "INSERT INTO message (seq, at, take, turn, speaker, text, finish, digest) "
    "VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)"
)


@dataclass(frozen=True, slots=True)
class NumberedRow:
    """A row that the store is asked about when it is written. A note has the last `seq` before
    it."""

    row: StoredRow | ImportNote
    seq: int
    at: int
    """When it is written, where the row does not say it: milliseconds since 1970."""


NumberedRows = ColumnRows | PlainMessageRows | NumberedRow


class Bulk:
    """Rows that become one transaction, read while they are written; at most once."""

    def __init__(self, rows: Iterable[BulkRow | NumberedRows]) -> None:
        """Where rows are numbered, all are, from the one behind `UNPLACED` on."""
        self._rows = rows
        self._begun = False
        # from the event loop to the writer's thread, which looks at it before each row
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
        numbering = Numbering(after, at)
        for row in self._rows:
            # raised, so that the savepoint of the whole is rolled back
            if self._stopped.is_set():
                raise StoreError("stopped: nothing of it was written")
            if isinstance(row, NumberedRows):
                last = _write(connection, row, after - UNPLACED)
                numbering.seq = max(numbering.seq, last)
            else:
                for each in numbering.add(row):
                    _write(connection, each, 0)
        for each in numbering.rest():
            _write(connection, each, 0)
        return numbering.seq


def _write(connection: sqlite3.Connection, rows: NumberedRows, shift: int) -> int:
    """The last `seq`. `shift` is added to the numbers of rows that are not in the store yet."""
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
        insert(connection, _placed(rows.row, shift), seq=seq, at=rows.at)
    return seq


def _insert_shifted(table: str, shift: int) -> str:
    if not shift:
        return INSERTS[table]
    names = columns_of(table)
    # by SQLite, which costs nothing beside what it does; to make every row anew would
    values = (f"? + {shift}" if name in _NUMBERS else "?" for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


def _placed(row: StoredRow, shift: int) -> StoredRow:
    """It may be of a take that the store has, or of one before it."""
    if isinstance(row, _OF_A_TAKE) and row.take > UNPLACED:
        return replace(row, take=row.take + shift)
    if isinstance(row, TakeRow) and (row.scenario_seq or 0) > UNPLACED:
        return replace(row, scenario_seq=(row.scenario_seq or 0) + shift)
    return row


@dataclass(slots=True)
class Numbering:
    """Gives rows their `seq`, behind `seq`, and asks the store nothing."""

    seq: int
    at: int
    _waiting: dict[str, list[tuple[Value, ...]]] = field(default_factory=lambda: defaultdict(list))
    _plain: list[tuple[int, int, Sequence[bytes], Sequence[str]]] = field(default_factory=list)
    _count: int = 0
    _scenarios: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: BulkRow) -> Iterator[NumberedRows]:
        """What is to be written now; to be taken to the end before the next one is added."""
        if isinstance(row, ImportNote):
            # it holds a digest of the rows before it, which have to be in the store for that
            yield from self.rest()
            yield NumberedRow(row, self.seq, self.at)
        elif not isinstance(row, WholeConversation):
            yield from self._one(row)
        elif row.fresh:
            self._conversation(row)
        else:
            for take in row.takes:
                yield from self._one(replace(take.begun, scenario_seq=self._scenario(take.begun)))
                seq = self.seq
                for part in (*take.messages, *take.behind_messages()):
                    yield from self._one(part, seq)
            for one in (*row.attempts, *row.states):
                yield from self._one(one)
        if self._count >= _AT_ONCE:
            yield from self.rest()

    def _one(self, row: StoredRow, take: int = GIVEN_LATER) -> Iterator[NumberedRows]:
        """What is there before it is asked of the store."""
        # what waits comes first: the store answers only for rows that it has
        yield from self.rest()
        if isinstance(row, _OF_A_TAKE) and row.take == GIVEN_LATER:
            row = replace(row, take=take)
        self.seq += 1
        if isinstance(row, ScenarioRow):
            self._scenarios[row.benchmark, row.scenario.id] = self.seq
        yield NumberedRow(row, self.seq, self.at)

    def rest(self) -> Iterator[ColumnRows | PlainMessageRows]:
        """What waits, in the order in which rows refer to each other."""
        # foreign keys are on, and a row may name only what is written
        for table in _ORDER:
            if rows := self._waiting.pop(table, None):
                yield ColumnRows(table, rows)
        if self._plain:
            yield PlainMessageRows(self.at, self._plain)
            self._plain = []
        self._count = 0

    def _put(self, row: StoredRow, given: Sequence[Value]) -> int:
        self.seq += 1
        values = VALUES[type(row)](row, self.seq, self.at, *given)
        self._waiting[TABLE_OF[type(row)]].append(values)
        self._count += 1
        return self.seq

    def _conversation(self, conversation: WholeConversation) -> None:
        """What is there before each row of it is known here: nothing is asked of the store."""
        before = _Written()
        for take in conversation.takes:
            seq = self._put(take.begun, (self._scenario(take.begun),))
            self._messages(take.messages, seq)
            before.begin(has_reply=_has_reply(take.messages))
            for row in take.behind_messages():
                before.add(row, given := decided(row, before, seq))
                self._put(row, given)
        for rest in (*conversation.attempts, *conversation.states):
            before.add(rest, given := decided(rest, before, 0))
            self._put(rest, given)

    def _messages(self, messages: Sequence[MessageRow], take: int) -> None:
        if isinstance(messages, PlainMessages):
            if messages:
                self._plain.append((self.seq + 1, take, messages.texts, messages.finishes))
            self.seq += len(messages)
            self._count += len(messages)
            return
        for message in messages:
            # `decided` would look for an end before each: a take that begins here has none
            self._put(message, message_decided(message, take))

    def _scenario(self, begun: TakeRow) -> int | None:
        if begun.scenario_seq is not None:
            return begun.scenario_seq
        return self._scenarios.get((begun.benchmark, begun.key.scenario_id))


def _has_reply(messages: Sequence[MessageRow]) -> bool:
    if isinstance(messages, PlainMessages):
        return len(messages) > 1
    return any(one.speaker is Speaker.TARGET for one in messages)


class _Written:
    """What was written of one conversation, the whole of which is in the rows."""

    def __init__(self) -> None:
        self._states: dict[tuple[Stage, str], str] = {}
        self._counted: dict[Track, bool | None] = {}
        self._votes: list[Verdict] = []
        """Of the take that was begun last."""
        self._has_reply = self._is_finished = False

    def begin(self, *, has_reply: bool) -> None:
        """Another take."""
        self._has_reply, self._is_finished, self._votes = has_reply, False, []

    def add(self, row: StoredRow, given: Sequence[Value]) -> None:
        """A row, with what was decided for it."""
        match row:
            case StateRow():
                self._states[row.stage, row.unit] = row.state.value
            case TakeEndRow():
                self._is_finished = bool(given[-1])
            case Verdict():
                self._counted[row.track] = None if given[-1] is None else bool(given[-1])

    def state(self, row: StateRow) -> str | None:
        return self._states.get((row.stage, row.unit))

    def is_finished(self, _take: int) -> bool:
        return self._is_finished

    def has_reply(self, _take: int) -> bool:
        return self._has_reply

    def counted(self, row: Verdict, _take: int) -> bool | None:
        return self._counted.get(row.track)

    def votes(self, row: Verdict, _take: int) -> Sequence[Vote]:
        """A take that is judged is finished, and the one that was begun last."""
        self._votes.append(row)
        return self._votes
