"""The list of failures, grouped by kind with a remedy for each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from rich.cells import cell_len

from engine.benchmark import ConversationKey, Stage
from engine.display import display_text, one_line, plural
from engine.errors import StoreError
from engine.link import Command, Request, WorkRow
from engine.pipeline.remedies import FailureGroup, KnownFailure, failure_kind
from engine.store.tables import AttemptRow, StateRow, UnusableRow
from tui.format import STAGE_NAMES
from tui.screens.base import Shell, ShellCommand, fault_passage
from tui.state.related import Subject
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Line, Piece, pad, told_apart
from tui.widgets.lines import Entries, Entry

FOLDED_FROM: Final = 12
"""With this many rows or more, groups are folded at first."""
MOST: Final = 4
"""The most targets that a group names, those with the most rows first; and the most reasons."""
_NAME_CELLS: Final = 40
_PLACE_CELLS: Final = 14
"""The most cells of a row's id and of its benchmark."""
_PLAYED: Final = (Stage.SIMULATE, Stage.EVALUATE)
ANSWERED: Final = "answer"
UnitKey = tuple[str, Stage, str]


class FailureList(Entries):
    """The groups with the rows of those that are unfolded, and above them what is parked."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(id="failures")
        self._shell = shell
        self.failed: dict[UnitKey, StateRow] = {}
        self._groups: dict[KnownFailure, Sequence[StateRow]] = {}
        self._dismissed = 0
        self._open: set[KnownFailure] | None = None
        """Unfolded groups; None until there were any rows."""
        self.parked: dict[str, str] = {}
        self._loaded = False
        self._attempts: Sequence[AttemptRow] | None = None
        self._unusable: Sequence[UnusableRow] = ()
        """The calls of the row under the cursor; None while they are read."""
        self._attempts_of: int | None = None
        """The failure that the attempts belong to."""
        self._fault: str | None = None
        """The reason why the store could not be read."""

    def hint(self, action: str) -> str | None:
        if action != "open":
            return super().hint(action)
        match self.cursor:
            case KnownFailure() as group:
                return "fold" if group in (self._open or ()) else "unfold"
            case tuple():
                return None
            case _:  # a parked target, or none at all
                return ""

    @property
    def subject(self) -> Subject | None:
        unit = self.unit
        if unit is None or unit.stage not in _PLAYED:
            return None
        return Subject(unit.benchmark, ConversationKey.parse(unit.unit))

    @property
    def unit(self) -> StateRow | None:
        """The row under the cursor; None where a group or a target is."""
        cursor = self.cursor
        return self.failed.get(cursor) if isinstance(cursor, tuple) else None

    @property
    def parked_at_cursor(self) -> str | None:
        """The parked target under the cursor, unless rows are marked."""
        cursor = self.cursor
        return cursor if isinstance(cursor, str) and not self.marked else None

    def find(self, benchmark: str, conversation: str) -> StateRow | None:
        """Return the failure of a conversation or of its judging; None if it did not fail."""
        keys = [(benchmark, stage, conversation) for stage in _PLAYED]
        return next((self.failed[key] for key in keys if key in self.failed), None)

    def chosen(self) -> Sequence[StateRow]:
        """The marked rows, else those under the cursor; a group stands for all of its rows."""
        if self.marked:
            return [unit for key, unit in self.failed.items() if key in self.marked]
        cursor = self.cursor
        if isinstance(cursor, KnownFailure):
            return self._groups.get(cursor, [])
        return [] if self.unit is None else [self.unit]

    def command(self) -> ShellCommand | None:
        """The command that retries what the key would."""
        if self.parked_at_cursor is not None:
            return ShellCommand("a", ("run", "--target", self.parked_at_cursor))
        if not self.failed and not self.parked:
            return None
        return retrying(tuple(map(_row, self.chosen()))) or ShellCommand("a", ("run",))

    def again(self) -> None:
        """Try again what is chosen, or call a parked target again."""
        rows, engine = self.chosen(), self._shell.engine
        if self.parked_at_cursor is not None:
            engine.ask(Request(Command.UNPARK, target=self.parked_at_cursor))
        elif rows:
            self.marked.clear()
            self.redraw()
            self.fill()
            engine.ask(Request(Command.RETRY, rows=tuple(map(_row, rows))))

    def again_all(self) -> None:
        if self.failed:
            rows = tuple(_row(unit) for unit in self.failed.values())
            self._shell.engine.ask(Request(Command.RETRY, rows=rows))

    def dismiss(self) -> None:
        """Hide what is chosen until it fails anew; with nothing chosen, show all again."""
        preferences, chosen = self._shell.preferences, self.chosen()
        seqs = [unit.seq for unit in chosen]
        preferences.keep_views(preferences.views.with_dismissed(seqs))
        self.marked.clear()

    def toggle(self, group: KnownFailure) -> None:
        """Fold or unfold a group."""
        self._open = (self._open or set()) ^ {group}
        self.fill()

    def take(self, groups: Sequence[FailureGroup], fits: Callable[[StateRow], bool]) -> None:
        """Take in what failed; rows that do not fit the filter are left out."""
        dismissed = self._shell.preferences.views.dismissed
        fitting = {group.kind: [unit for unit in group.units if fits(unit)] for group in groups}
        self._dismissed = sum(unit.seq in dismissed for units in fitting.values() for unit in units)
        shown = {
            kind: [unit for unit in units if unit.seq not in dismissed]
            for kind, units in fitting.items()
        }
        self._groups = {kind: units for kind, units in shown.items() if units}
        self._fault, self._loaded = None, True
        self.failed = {_key(unit): unit for units in self._groups.values() for unit in units}
        # those of rows that are folded away stay
        self.marked &= set(self.failed)
        if self._open is None and self.failed:
            self._open = set(self._groups) if len(self.failed) < FOLDED_FROM else set()
        self.fill()

    def fail(self, error: StoreError) -> None:
        self._fault, self._loaded = str(error), True

    def fill(self) -> None:
        """Show the entries."""
        entries = [_parked_entry(target, why) for target, why in self.parked.items()]
        digits = max((len(f"{len(units):,}") for units in self._groups.values()), default=0)
        places = tuple(sorted({one_line(unit.benchmark) for unit in self.failed.values()}))
        for ailment, units in self._groups.items():
            opened = self._open is not None and ailment in self._open
            marked = sum(_key(unit) in self.marked for unit in units)
            hidden = 0 if opened else marked
            entries.append(_group_entry(ailment, units, hidden, opened=opened, digits=digits))
            if opened:
                entries += _unit_entries(units, places)
        self.show(entries)

    def header(self) -> Line:
        """How many failed, may pass, are parked, dismissed and marked."""
        # that nothing has failed stands below
        total = len(self.failed)
        failed = f"{total:,} failed" if total else ""
        passing = sum(len(units) for kind, units in self._groups.items() if kind.can_pass)
        may_pass = "" if passing == total else f"  {passing or 'none'} may pass as things are"
        words = failed if self._loaded else "reading the store"
        dismissed = f"  {self._dismissed:,} dismissed" if self._dismissed else ""
        return [
            Piece(words, Ink.BAD if self._loaded else Ink.MUTED),
            Piece((may_pass if self._loaded else "") + dismissed, Ink.MUTED),
            Piece(
                f"  {plural(len(self.parked), 'target')} parked" if self.parked else "", Ink.WARN
            ),
            Piece(f"  {len(self.marked)} marked" if self.marked else "", Ink.ACCENT),
        ]

    def blocks(self) -> list[Block]:
        """What is known of the entry under the cursor, and what to do."""
        if self._fault is not None:
            return [fault_passage(self._fault)]
        cursor = self.cursor
        if isinstance(cursor, KnownFailure):
            return _group_blocks(cursor, self._groups.get(cursor, []))
        if isinstance(cursor, str):
            why = display_text(self.parked.get(cursor, ""))
            return [
                Rule("what", f"{one_line(cursor)} is parked: it is called no more"),
                Passage("why", "because", why, ink=Ink.TEXT),
                Passage("do", "do", "Mend what it names, then press a: it is called again."),
            ]
        if self.unit is not None:
            return failure_blocks(self.unit, self._attempts, self._unusable)
        if not self._loaded:
            return [Passage("wait", "", "Reading the store.", ink=Ink.MUTED)]
        words = "Nothing has failed. Failures appear here, with cause and remedy."
        return [Passage("none", "✓", words, Ink.GOOD)]

    async def read_attempts(self, then: Callable[[], None]) -> None:
        """Read the calls of the row under the cursor, if they are not known."""
        unit = self.unit
        if unit is None or unit.seq == self._attempts_of:
            return
        self._attempts, self._unusable, self._attempts_of = None, (), unit.seq
        reader = self._shell.watch.reader
        try:
            self._unusable = await asyncio.to_thread(reader.unusable_answers, unit)
            self._attempts = await asyncio.to_thread(reader.attempts_before, unit)
        except StoreError as error:
            self._shell.tell(str(error), bad=True)
            return
        then()


def retrying(rows: Sequence[WorkRow]) -> ShellCommand | None:
    """The command that retries these rows; None unless all belong to one benchmark."""
    benchmarks = {row.benchmark for row in rows}
    if len(benchmarks) != 1:
        return None
    return ShellCommand("a", ("run", *benchmarks, *(row.unit for row in rows)))


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


def failure_blocks(
    unit: StateRow,
    attempts: Sequence[AttemptRow] | None,
    unusable: Sequence[UnusableRow] = (),
) -> list[Block]:
    """Why a row failed, what to do, and its last calls; None while they are read."""
    at = unit.when.astimezone().strftime("%H:%M:%S")
    stage = STAGE_NAMES[unit.stage]
    return [
        Rule("what", f"{one_line(unit.unit)}  {stage} of {one_line(unit.benchmark)}", at),
        Passage("why", "because", display_text(unit.reason or "") or "no reason was kept"),
        _advice(failure_kind(unit.reason or "")),
        *(
            Passage(("answer", one.seq), f"{one.role} said", display_text(one.answer))
            for one in unusable
        ),
        *attempt_blocks(attempts),
    ]


def attempt_blocks(attempts: Sequence[AttemptRow] | None) -> list[Block]:
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
