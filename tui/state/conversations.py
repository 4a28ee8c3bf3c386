"""The state of the list of all conversations, and what its rows show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from engine.benchmark import Speaker, Stage
from engine.display import one_line, plural
from engine.facts import Fact, StateChanged, TakeEnded, TakeStarted, VerdictGiven
from engine.store.browsing import FAILED, RUNNING, WAITING, Column, Field, FilterResult, Sorting
from engine.store.conversations import (
    DROPPED,
    JUDGED,
    PLAYED,
    ConversationRow,
    ConversationsFound,
)
from engine.watch import BenchmarkInfo
from tui.format import SPEAKER_NAMES, conversation_id
from tui.state.related import Subject
from tui.state.verdicts import STAR_MARK, WIDE, KnownNames, RowMarks, VerdictsState, cell
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Line, Piece, told_apart
from tui.text.wrap import Cells, Heading

STATE_WORDS: Final = {
    RUNNING: Piece("▸ running", Ink.ACCENT),
    FAILED: Piece("! failed", Ink.BAD),
    WAITING: Piece("○ waiting", Ink.MUTED),
    PLAYED: Piece("○ to judge", Ink.MUTED),
    JUDGED: Piece("✓ judged", Ink.GOOD),
    DROPPED: Piece("- dropped", Ink.FAINT),
}
_MEANINGS: Final = {
    RUNNING: "It is being played; Enter shows it as it is spoken.",
    WAITING: "Its turn has not come yet.",
    PLAYED: "It was played to its end and waits for its judges.",
    DROPPED: "The benchmark or the configuration asks for it no more.",
}


class LastWords(NamedTuple):
    """What is said in a conversation now."""

    turn: int
    speaker: Speaker
    seconds: int
    """Since the message began."""
    words: str
    """The end of the message."""


class AllState(VerdictsState):
    """Rows are conversations, by their number."""

    def __init__(self, typed: str = "") -> None:
        super().__init__(typed)
        self.sorting = Sorting(Column.OUTCOME)
        self._found = ConversationsFound.none()
        self._stale_takes: Mapping[int, str] = {}
        self.changed: set[tuple[str, str]] = set()
        """Conversations to be drawn anew, by benchmark and id."""
        self.behind: set[tuple[str, str]] = set()
        """Those that have changed since the list was made, which may stand elsewhere now."""
        self.sorts_itself = True
        """Whether the list is made anew without a key, as the cursor rests at its top."""

    def receive(self, facts: Sequence[Fact]) -> None:
        if self.missed is not None:
            self.missed.receive(facts)
        changed = _changed_conversations(facts)
        self.changed |= changed
        self.behind |= changed

    def begin_find(self) -> None:
        """What changes from now on may not be in the list that is being made."""
        self.changed.clear()
        self.behind.clear()

    @property
    def is_behind(self) -> bool:
        return bool(self.behind) and self.missed is None and self.result is not None

    def begin_look(self, seconds: float) -> int | None:
        """None: what has changed is known from facts."""
        del seconds
        return None

    def take_changed(self) -> Collection[tuple[str, str]]:
        """Return what must be drawn anew, once; nothing while the display is frozen."""
        if self.missed is not None:
            return ()
        changed, self.changed = self.changed, set()
        return changed

    def find(
        self,
        result: FilterResult,
        total: int | None,
        longest_id: int,
        groups: Iterable[Mapping[str, str]] = (),
        *,
        has_judges: bool = False,
    ) -> None:
        assert isinstance(result, ConversationsFound)  # noqa: S101  (its browser finds no other)
        self._found = result
        self.stale = self._rows_by(self._stale_takes)
        super().find(result, total, longest_id, groups, has_judges=has_judges)

    def mark_stale(self, stale: Mapping[int, str]) -> None:
        self._stale_takes = stale
        super().mark_stale(self._rows_by(stale))

    def mark_read(self, takes: Collection[int]) -> None:
        rows = self._found.rows_of_takes
        super().mark_read({rows[take] for take in takes if take in rows})

    def _rows_by(self, takes: Mapping[int, str]) -> dict[int, str]:
        rows = self._found.rows_of_takes
        return {rows[take]: why for take, why in takes.items() if take in rows}

    @property
    def asks_for_failed(self) -> bool:
        """Whether the filter asks for what failed."""
        return any(
            _asks_for_failed(term.field, term.values) and not term.negated for term in self.wanted
        )

    @property
    def asks_for_more(self) -> bool:
        """Whether the filter asks for more than what failed."""
        return not all(_asks_for_failed(term.field, term.values) for term in self.wanted)

    def _own_widths(
        self, benchmarks: Sequence[BenchmarkInfo], width: int, judges: Sequence[str]
    ) -> dict[Column, int]:
        widths = super()._own_widths(benchmarks, width, judges)
        return {
            column: wide
            for column, wide in widths.items()
            if column not in {Column.END, Column.JUDGE, Column.METRIC}
        }

    def _shown_groups(self, width: int) -> tuple[str, ...]:
        return self.groups if width >= WIDE else ()

    def columns(
        self, benchmarks: Sequence[BenchmarkInfo], width: int, judges: Sequence[str] = ()
    ) -> list[Heading]:
        titles = {Column.OUTCOME: "state", Column.BECAUSE: "says"}
        return [
            replace(heading, title=titles.get(Column(heading.name), heading.title))
            if heading.title
            else heading
            for heading in super().columns(benchmarks, width, judges)
        ]

    def empty(self) -> Line:
        if self.fault is None and self.result is not None and not self.wanted:
            words = "No conversation yet: they come as scenarios are written."
            return [Piece("  " + words, Ink.MUTED)]
        return super().empty()

    def header(self) -> Line:
        if self.result is None:
            return [Piece("reading the store", Ink.MUTED)]
        total, shown = self.total or 0, len(self.result.takes)
        if self.wanted:
            return [Piece(f"{shown:,} shown of {plural(total, 'conversation')}", Ink.ACCENT)]
        return [Piece(plural(total, "conversation"), Ink.MUTED)]

    def count_words(self, marked: int) -> Line:
        """How many are in each state, marked, or have changed since."""
        pieces = [
            Piece(f"{piece.text[:1]} {count:,} {piece.text[2:]} ", piece.ink)
            for state, piece in STATE_WORDS.items()
            if (count := self._found.states.get(state, 0))
        ]
        if marked:
            pieces.insert(0, Piece(f"● {marked:,} marked  ", Ink.ACCENT))
        if self.is_behind and not self.sorts_itself:
            pieces.insert(0, Piece("changed, F5  ", Ink.ACCENT))
        if self.missed is not None:
            pieces.insert(0, Piece(f"{self.missed.words}  ", Ink.WARN))
        return pieces


def _asks_for_failed(field: Field, values: Sequence[str]) -> bool:
    return field is Field.IS and tuple(values) == (FAILED,)


def _changed_conversations(facts: Sequence[Fact]) -> set[tuple[str, str]]:
    changed = set()
    for fact in facts:
        match fact:
            case StateChanged(stage=Stage.SIMULATE | Stage.EVALUATE):
                changed.add((fact.benchmark, fact.unit))
            case TakeStarted() | TakeEnded() | VerdictGiven():
                changed.add((fact.benchmark, str(fact.key)))
            case _:
                continue
    return changed


def row_cells(
    row: ConversationRow,
    columns: Sequence[Heading],
    names: KnownNames,
    marks: RowMarks,
    said: LastWords | None,
    turns: int,
) -> Cells:
    """What a row shows; `said` is what is said in it now, `turns` how many a conversation has."""
    if row.state == JUDGED and row.judged is not None:
        return [cell(heading, row.row, row.judged, names, marks) for heading in columns]
    return [_cell(heading, row, names, marks, said, turns) for heading in columns]


def _cell(
    heading: Heading,
    row: ConversationRow,
    names: KnownNames,
    marks: RowMarks,
    said: LastWords | None,
    turns: int,
) -> Piece:
    width = heading.width
    match Column(heading.name):
        case Column.OUTCOME:
            word = STATE_WORDS[row.state]
            return word if width > 1 else word._replace(text=word.text[:1])
        case Column.ID:
            star = STAR_MARK if Subject(row.benchmark, row.key) in marks.stars else ""
            name = conversation_id(row.key, names.targets, width - len(star))
            return Piece(star + name, Ink.FAINT if row.state == DROPPED else Ink.TEXT)
        case Column.BENCHMARK:
            benchmark = one_line(row.benchmark)
            return Piece(told_apart((*names.benchmarks, benchmark), width)[benchmark], Ink.MUTED)
        case Column.TURNS:
            turn = row.turns if said is None else said.turn
            is_begun = row.number is not None or said is not None
            return Piece(f"{turn} of {turns}" if is_begun and turns else "", Ink.MUTED)
        case Column.BECAUSE:
            return _says(row, said)
        case _:
            return Piece("")


def _says(row: ConversationRow, said: LastWords | None) -> Piece:
    if row.state == FAILED:
        return Piece(one_line(row.reason) or "no reason was kept", Ink.WARN)
    if row.state != RUNNING:
        return Piece("")
    if row.is_judging:
        return Piece("is being judged", Ink.MUTED)
    if said is None:
        return Piece("waits for its next message", Ink.MUTED)
    ink = Ink.USER if said.speaker is Speaker.USER else Ink.TARGET
    return Piece(f"{SPEAKER_NAMES[said.speaker]} {said.seconds} s  {said.words}", ink)


def state_blocks(row: ConversationRow) -> list[Block]:
    """What is known of a conversation without a verdict."""
    word = STATE_WORDS[row.state]
    meaning = "It is being judged." if row.state == RUNNING and row.is_judging else ""
    return [
        Rule(
            "what",
            f"{one_line(str(row.key))}  of {one_line(row.benchmark)}",
            one_line(word.text)[2:],
        ),
        Passage("state", "", meaning or _MEANINGS.get(row.state, ""), ink=Ink.MUTED),
    ]
