"""The failures, grouped by kind with a remedy for each; failed work is retried from here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from functools import partial
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType

from engine.benchmark import ConversationKey, Stage, State
from engine.display import display_text, one_line, plural
from engine.errors import StoreError
from engine.facts import Fact, StateChanged
from engine.link import Board, Command, Request, WorkRow
from engine.pipeline.remedies import KnownFailure, failure_kind, standing_failures
from engine.store.tables import AttemptRow, StateRow
from engine.watch import targets_of
from tui.bindings import key
from tui.format import STAGE_NAMES
from tui.screens.base import Shell, ShellCommand, WatchingScreen, heading
from tui.services.ticker import begin_instead
from tui.state.related import Subject
from tui.state.run_status import Instant
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Line, Piece, pad, told_apart
from tui.widgets.key_line import KeyLine
from tui.widgets.lines import Entries, Entry, OneLine
from tui.widgets.transcript import TranscriptView

FOLDED_FROM: Final = 12
"""With this many rows or more, groups are folded at first."""
MOST: Final = 4
"""The most targets that a group names, those with the most rows first; and the most reasons."""
_NAME_CELLS: Final = 40
_PLACE_CELLS: Final = 14
"""The most cells of a row's id and of its benchmark."""
_PLAYED: Final = frozenset({Stage.SIMULATE, Stage.EVALUATE})
ANSWERED: Final = "answer"
UnitKey = tuple[str, Stage, str]


class FailureEntries(Entries):
    """The groups with the rows of those that are unfolded."""

    def __init__(self) -> None:
        super().__init__(id="problems")
        self.unfolded: Collection[KnownFailure] = ()

    def hint(self, action: str) -> str | None:
        if action != "open":
            return super().hint(action)
        match self.cursor:
            case KnownFailure() as group:
                return "fold" if group in self.unfolded else "unfold"
            case tuple():
                return None
            case _:  # a parked target, or none at all
                return ""


class ProblemsScreen(WatchingScreen, inherit_bindings=False):
    """The failures, read off the event loop, and again when a fact says that they changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("a", "again", "try again", "try again what is under the cursor, or all that is marked"),
        key("A", "again_all", "all again", "try again everything that failed"),
        key("m", "mark", "mark", "mark this row, or take the mark away"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._header = OneLine(id="header")
        self._list = FailureEntries()
        self._detail = TranscriptView(follow=False, id="detail")
        self._failed: dict[UnitKey, StateRow] = {}
        self._groups: dict[KnownFailure, Sequence[StateRow]] = {}
        self._open: set[KnownFailure] | None = None
        """Unfolded groups; None until there were any rows."""
        self._parked: dict[str, str] = {}
        self._targets: Collection[str] = ()
        """The ids of the configured targets, as far as they are known."""
        self._stale = True
        self._reading = False
        self._loaded = False
        self._attempts: Sequence[AttemptRow] | None = None
        """The calls of the row under the cursor; None while they are read."""
        self._attempts_of: int | None = None
        """The failure that the attempts belong to."""
        self._fault: str | None = None
        """The reason why the store could not be read."""

    @property
    def subject(self) -> Subject | None:
        unit = self._unit_at_cursor
        if unit is None or unit.stage not in _PLAYED:
            return None
        return Subject(unit.benchmark, ConversationKey.parse(unit.unit))

    @property
    def commands(self) -> Sequence[ShellCommand]:
        cursor = self._list.cursor
        words: tuple[str, ...] = ("run",)
        if isinstance(cursor, str) and not self._list.marked:
            words = ("run", "--target", cursor)
        else:
            chosen = self._chosen()
            benchmarks = {unit.benchmark for unit in chosen}
            if len(benchmarks) == 1:
                words = ("run", *benchmarks, *(unit.unit for unit in chosen))
        again = ShellCommand("a", words)
        return [*super().commands[:1], again] if self._failed or self._parked else []

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._list
        yield self._detail
        yield KeyLine()

    def on_mount(self) -> None:
        self._list.focus()

    def hint(self, action: str) -> str | None:
        match action:
            case "again":
                parked = isinstance(self._list.cursor, str) and not self._list.marked
                return "call again" if parked else None if self._chosen() else ""
            case "again_all":
                return None if self._failed else ""
            case "mark":
                return None if self._unit_at_cursor is not None else ""
            case _:
                return None

    def receive(self, facts: Sequence[Fact]) -> None:
        self._stale |= any(
            isinstance(fact, StateChanged) and State.FAILED in (fact.state, fact.was)
            for fact in facts
        )

    def draw(self, board: Board | None, moment: Instant) -> None:
        del moment
        targets = targets_of(self.watched.benchmarks)
        if targets != self._targets:  # the configuration is read after the first frame
            self._targets, self._stale = targets, True
        if self._stale and not self._reading and self.is_running:
            self._reading, self._stale = True, False
            self.run_worker(self._read(), group="read")
        parked = dict(board.parked) if board is not None else {}
        if parked != self._parked:
            self._parked = parked
            self._show()
        self._draw_header()

    def action_again(self) -> None:
        rows = self._chosen()
        if isinstance(self._list.cursor, str) and not self._list.marked:
            self.shell.engine.ask(Request(Command.UNPARK, target=self._list.cursor))
        elif rows:
            self._list.marked.clear()
            self._list.redraw()
            self._show()
            self.shell.engine.ask(Request(Command.RETRY, rows=tuple(map(_row, rows))))

    def action_again_all(self) -> None:
        if self._failed:
            rows = tuple(_row(unit) for unit in self._failed.values())
            self.shell.engine.ask(Request(Command.RETRY, rows=rows))

    def action_mark(self) -> None:
        self._list.toggle_mark()

    def on_entries_opened(self, message: Entries.Opened) -> None:
        if isinstance(message.key, KnownFailure):
            opened = self._open or set()
            self._open = opened ^ {message.key}
            self._show()
            return
        unit = self._failed.get(message.key) if isinstance(message.key, tuple) else None
        if unit is not None:
            self._open_unit(unit)

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()

    async def _read_attempts(self, unit: StateRow) -> None:
        try:
            attempts = await asyncio.to_thread(self.watched.reader.attempts_before, unit)
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return
        self._attempts = attempts
        self._draw_detail()

    @property
    def _unit_at_cursor(self) -> StateRow | None:
        cursor = self._list.cursor
        return self._failed.get(cursor) if isinstance(cursor, tuple) else None

    async def _read(self) -> None:
        try:
            names = [info.name for info in self.watched.benchmarks]
            groups = await asyncio.to_thread(
                standing_failures,
                self.watched.reader,
                names,
                self._targets,
                dict(self.watched.corrections),
            )
            self._fault = None
            self._groups = {group.kind: group.units for group in groups}
        except StoreError as error:
            self._fault = str(error)
        finally:
            self._reading = False
        self._failed = {_key(unit): unit for units in self._groups.values() for unit in units}
        # those of rows that are folded away stay
        self._list.marked &= set(self._failed)
        self._loaded = True
        if self._open is None and self._failed:
            self._open = set(self._groups) if len(self._failed) < FOLDED_FROM else set()
        self._show()

    def _show(self) -> None:
        entries = [_parked_entry(target, why) for target, why in self._parked.items()]
        digits = max((len(f"{len(units):,}") for units in self._groups.values()), default=0)
        places = tuple(sorted({one_line(unit.benchmark) for unit in self._failed.values()}))
        for ailment, units in self._groups.items():
            opened = self._open is not None and ailment in self._open
            marked = sum(_key(unit) in self._list.marked for unit in units)
            hidden = 0 if opened else marked
            entries.append(_group_entry(ailment, units, hidden, opened=opened, digits=digits))
            if opened:
                entries += _unit_entries(units, places)
        self._list.unfolded = self._open or ()
        self._list.show(entries)
        # an empty list has nothing to go to beside it, unless a fault is to be read
        self._detail.can_focus = bool(entries) or self._fault is not None
        if self._detail.has_focus and not self._detail.can_focus:
            self._list.focus()
        self._draw_detail()
        self._draw_header()

    def _draw_header(self) -> None:
        # that nothing has failed stands below
        total = len(self._failed)
        failed = f"{total:,} failed" if total else ""
        passing = sum(len(units) for kind, units in self._groups.items() if kind.can_pass)
        may_pass = "" if passing == total else f"  {passing or 'none'} may pass as things are"
        words = failed if self._loaded else "reading the store"
        ink = Ink.BAD if self._loaded else Ink.MUTED
        parked = f"  {plural(len(self._parked), 'target')} parked" if self._parked else ""
        marked = f"  {len(self._list.marked)} marked" if self._list.marked else ""
        parts = [
            Piece(words, ink),
            Piece(may_pass if self._loaded else "", Ink.MUTED),
            Piece(parked, Ink.WARN),
            Piece(marked, Ink.ACCENT),
        ]
        self._header.show(*heading(self, "Problems", parts))

    def _draw_detail(self) -> None:
        unit = self._unit_at_cursor
        if unit is not None and unit.seq != self._attempts_of:
            self._attempts, self._attempts_of = None, unit.seq
            begin_instead(self, partial(self._read_attempts, unit), "attempts")
        self._detail.show(self._detail_blocks())

    def _detail_blocks(self) -> list[Block]:
        if self._fault is not None:
            return [Passage("fault", "store", display_text(self._fault), Ink.BAD, Ink.BAD)]
        cursor = self._list.cursor
        if isinstance(cursor, KnownFailure):
            return _group_blocks(cursor, self._groups.get(cursor, []))
        if isinstance(cursor, str):
            why = display_text(self._parked.get(cursor, ""))
            return [
                Rule("what", f"{one_line(cursor)} is parked: it is called no more"),
                Passage("why", "because", why, ink=Ink.TEXT),
                Passage("do", "do", "Mend what it names, then press a: it is called again."),
            ]
        unit = self._unit_at_cursor
        if unit is not None:
            return _unit_blocks(unit, self._attempts)
        if not self._loaded:
            return [Passage("wait", "", "Reading the store.", ink=Ink.MUTED)]
        words = "Nothing has failed. Failures appear here, with cause and remedy."
        return [Passage("none", "✓", words, Ink.GOOD)]

    def _chosen(self) -> Sequence[StateRow]:
        """The marked rows, else those under the cursor; a group stands for all of its rows."""
        if self._list.marked:
            return [unit for key, unit in self._failed.items() if key in self._list.marked]
        cursor = self._list.cursor
        if isinstance(cursor, KnownFailure):
            return self._groups.get(cursor, [])
        unit = self._unit_at_cursor
        return [] if unit is None else [unit]

    def _open_unit(self, unit: StateRow) -> None:
        if unit.stage in _PLAYED:
            self.shell.navigator.open_conversation(unit.benchmark, ConversationKey.parse(unit.unit))
        elif unit.stage is Stage.GEN_SCENARIOS:
            self.shell.navigator.open_scenario(unit.benchmark, unit.unit)
        else:
            self.shell.tell("Its reason, whole, stands below the list.")


def _key(unit: StateRow) -> UnitKey:
    return (unit.benchmark, unit.stage, unit.unit)


def _row(unit: StateRow) -> WorkRow:
    return WorkRow(unit.benchmark, unit.unit)


def _parked_entry(target: str, why: str) -> Entry:
    name: Hashable = target
    left: Line = [
        Piece("‖ ", Ink.WARN),
        Piece(one_line(target), Ink.STRONG),
        Piece("  parked: ", Ink.WARN),
        Piece(one_line(why), Ink.MUTED),
    ]
    return Entry(name, left)


def _group_entry(
    ailment: KnownFailure, units: Sequence[StateRow], hidden: int, *, opened: bool, digits: int
) -> Entry:
    """The entry of a group, of which so many marked rows are `hidden`; its number takes at least so
    many `digits`."""
    left = [
        Piece("▾ " if opened else "▸ ", Ink.ACCENT),
        Piece(f"{len(units):>{digits},} ", Ink.BAD),
        Piece(ailment.name_in_words, Ink.STRONG),
        Piece(f"  {hidden} marked" if hidden else "", Ink.ACCENT),
    ]
    whose = Counter(one_line(unit.target or unit.benchmark) for unit in units).most_common(MOST)
    right = "  ".join(f"{name} {number:,}" for name, number in whose)
    return Entry(ailment, left, [Piece(right + " ", Ink.MUTED)])


def _unit_entries(units: Sequence[StateRow], places: tuple[str, ...]) -> list[Entry]:
    """The rows' entries, with their benchmark if the screen has several `places`, as ids may
    repeat."""
    names = [one_line(unit.unit) for unit in units]
    width = min(max(map(cell_len, names), default=0), _NAME_CELLS)
    shown, where = told_apart(tuple(names), width), told_apart(places, _PLACE_CELLS)
    entries = []
    above = ""
    for unit, name in zip(units, names, strict=True):
        place = where[one_line(unit.benchmark)]
        reason = one_line(unit.reason or "")
        left = [
            Piece("   ✗ ", Ink.BAD),
            Piece(pad(STAGE_NAMES[unit.stage], 10), Ink.MUTED),
            Piece(pad(shown[name], width), Ink.TEXT),
            Piece(f"  {pad(place, _PLACE_CELLS)}" if len(places) > 1 else "", Ink.MUTED),
            Piece("  as above", Ink.FAINT)
            if reason == above != ""
            else Piece(f"  {reason}", Ink.MUTED),
        ]
        above = reason
        entries.append(Entry(_key(unit), left, can_mark=True))
    return entries


def _group_blocks(ailment: KnownFailure, units: Sequence[StateRow]) -> list[Block]:
    """The remedy of a group, and its messages, the most frequent first."""
    reasons = Counter(display_text(unit.reason or "") or "no reason was kept" for unit in units)
    reason_blocks: list[Block] = [
        Passage(("why", place), "" if place else "because", f"{number:,}× {reason}", close=True)
        for place, (reason, number) in enumerate(reasons.most_common(MOST))
    ]
    rest = len(reasons) - len(reason_blocks)
    if rest:
        reason_blocks.append(Passage("rest", "", f"and {rest:,} more", ink=Ink.MUTED, close=True))
    return [Rule("what", ailment.name_in_words), _advice(ailment), *reason_blocks]


def _unit_blocks(unit: StateRow, attempts: Sequence[AttemptRow] | None) -> list[Block]:
    at = unit.when.astimezone().strftime("%H:%M:%S")
    stage = STAGE_NAMES[unit.stage]
    return [
        Rule("what", f"{one_line(unit.unit)}  {stage} of {one_line(unit.benchmark)}", at),
        Passage("why", "because", display_text(unit.reason or "") or "no reason was kept"),
        _advice(failure_kind(unit.reason or "")),
        *_calls(attempts),
    ]


def _calls(attempts: Sequence[AttemptRow] | None) -> list[Block]:
    """The last calls, the newest first; None while they are read."""
    if attempts is None:
        return []
    if not attempts:
        return [Passage("calls", "calls", "None was made shortly before.", ink=Ink.MUTED)]
    return [
        Passage(
            ("call", place),
            "" if place else "calls",
            _call(attempt),
            ink=Ink.TEXT if attempt.outcome == ANSWERED else Ink.WARN,
            close=True,
        )
        for place, attempt in enumerate(reversed(attempts))
    ]


def _call(attempt: AttemptRow) -> str:
    """`12:04:07  target openai:gpt  rate_limited 429  after 0.4 s  429: rate limit; request …`."""
    at = attempt.when.astimezone().strftime("%H:%M:%S")
    status = "" if attempt.status is None else f" {attempt.status}"
    took = f"after {attempt.duration_ms / 1000:.1f} s"
    who = f"{attempt.role.value} {one_line(attempt.model)}"
    if attempt.is_other and attempt.served:
        who += f", answered by {one_line(attempt.served)}"
    detail = f"  {display_text(attempt.detail)}" if attempt.detail else ""
    return f"{at}  {who}  {one_line(attempt.outcome)}{status}  {took}{detail}"


def _advice(ailment: KnownFailure) -> Passage:
    return Passage("do", "do", ailment.advice, Ink.ACCENT)
