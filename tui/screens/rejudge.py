"""Judge conversations again: choose the judge and see the price, then compare old and new
verdicts."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from engine.benchmark import Stage, State
from engine.display import display_text, one_line, plural
from engine.errors import CrosswindError, StoreError
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.jury import Jury, counting_votes, what_counts
from engine.link import Command, Request, Response, WorkRow, order_for
from engine.pipeline.order import PriceRange
from engine.store.browsing import Browser
from engine.store.tables import Verdict
from engine.watch import BenchmarkInfo
from tui.bindings import key
from tui.format import verdict
from tui.screens.base import (
    Shell,
    ShellCommand,
    WatchingScreen,
    fault_passage,
    judging_again,
)
from tui.screens.dialogs import WIDTH, DialogFooter, Overlay
from tui.services.ticker import begin, begin_instead
from tui.state.related import RowCursor, Subject
from tui.state.run_status import Snapshot
from tui.state.transcript import one_verdict
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, pad
from tui.text.wrap import Cells, Heading
from tui.widgets.lines import ChoiceList, Lines, OneLine, Titles
from tui.widgets.table import WideTable
from tui.widgets.transcript import SideBySide

AGAIN_AFTER: Final = 0.5
"""Seconds between two queries while verdicts arrive."""
_WIDTH: Final = (20, 48)
"""Least and most cells of an id."""
_UNSORTED: Final = "-"
_LEAVING: Final = "q goes back "


class _VerdictChange(NamedTuple):
    """The newest usable verdicts before and since, and what counts, by any judge."""

    old: Verdict | None
    new: Verdict | None
    counted: bool | None
    """The outcome that counted before."""
    counts: bool | None
    """The outcome that counts now."""
    votes: frozenset[int]
    """The seqs of the verdicts that count now."""

    @property
    def changed(self) -> bool:
        return self.new is not None and (self.old is None or self.old.passed is not self.new.passed)

    @property
    def counts_otherwise(self) -> bool:
        """Whether the outcome that counts has changed."""
        return self.new is not None and self.counts is not self.counted


class JudgedAgainScreen(WatchingScreen, inherit_bindings=False):
    """Old and new verdicts side by side. Leaving the screen does not stop the judging."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("s", "sort", "sort", "show changed verdicts first, or the order they had"),
    ]

    def __init__(self, shell: Shell, subjects: Sequence[Subject], evaluator: str | None) -> None:
        """Verdicts in the store at this time are old, later ones new. Raises `StoreError`."""
        super().__init__(shell)
        self._title = OneLine(id="title")
        self._headings = Titles(id="headings")
        self._table = WideTable(self._cells, fixed=2, id="rows")
        self._sides = SideBySide(id="detail")
        self._evaluator = evaluator
        self._after = shell.watch.reader.last_seq()
        takes = Browser(shell.watch.reader).takes_that_count(subjects)
        self._subjects = {takes[subject]: subject for subject in subjects if subject in takes}
        """The subjects, by the take that is judged."""
        places = {subject.benchmark for subject in self._subjects.values()}
        self._names = {
            take: one_line(
                f"{subject.benchmark} {subject.key}" if len(places) > 1 else str(subject.key)
            )
            for take, subject in self._subjects.items()
        }
        """The ids; with their benchmarks if there are several, as ids may repeat."""
        self._pairs: dict[int, _VerdictChange] = {}
        """The pairs of takes judged since."""
        self._failed: dict[WorkRow, str] = {}
        """Why takes could not be judged."""
        self._looked_through = self._after
        self._stale = False
        self._looking = False
        # the first look is due at once
        self._looked_at = float("-inf")
        self._changed_first = False
        self._fault: str | None = None
        """The reason why the store could not be read."""
        self._refusal: str | None = None
        """The engine's reason for refusing."""
        self._accepted = False
        """Whether the engine has accepted the request."""
        self._gone = False
        """Whether the engine ended before finishing the request."""

    @property
    def subject(self) -> Subject | None:
        row = self._table.cursor
        return None if row is None else self._subjects.get(row)

    @property
    def commands(self) -> Sequence[ShellCommand]:
        return [
            *super().commands[:1],
            *judging_again(list(self._subjects.values()), self._evaluator),
        ]

    def parts(self) -> Sequence[Widget]:
        return [self._title, self._headings, self._table, self._sides]

    def on_mount(self) -> None:
        self._table.focus()
        self._show_rows()

    def on_resize(self) -> None:
        self._draw_lines()

    def hint(self, action: str) -> str | None:
        return "" if action == "sort" and len(self._subjects) < 2 else None

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven):
                self._stale = True
            elif isinstance(fact, StateChanged) and fact.stage is Stage.EVALUATE:
                row = WorkRow(fact.benchmark, fact.unit)
                if fact.state is State.FAILED:
                    self._failed[row] = fact.reason or "no reason was kept"
                elif self._failed.pop(row, None) is None:
                    continue  # it had not failed, so nothing that is shown changes
                self._table.renew_all()

    def answered(self, answer: Response) -> None:
        """Handle the engine's answer to the request."""
        self._accepted = answer.accepted
        if answer.accepted:
            self.shell.tell(answer.text)
            return
        self._refusal = answer.text or "the engine refused"
        self._table.renew_all()
        self._draw_sides()

    def draw(self, now: Snapshot) -> None:
        over = self._accepted and now.board is not None and now.board.state.is_over
        if over != self._gone:
            self._gone = over
            self._table.renew_all()
        due = now.seconds - self._looked_at >= AGAIN_AFTER
        if self._stale and due and self.is_running and not self._looking:
            self._stale, self._looking, self._looked_at = False, True, now.seconds
            begin(self, self._look, "look")
        self._draw_lines()

    def action_sort(self) -> None:
        self._changed_first = not self._changed_first
        self._show_rows()

    def on_cursor_view_moved(self) -> None:
        self._draw_sides()

    def on_wide_table_shifted(self) -> None:
        self._draw_lines()

    def on_cursor_view_opened(self) -> None:
        subject = self.subject
        if subject is not None:
            place = self._table.item or 0
            among = RowCursor(Browser(self.watched.reader), self._table.rows, place)
            self.shell.navigator.open_conversation(*subject, among=among)

    async def _look(self) -> None:
        try:
            pairs = await asyncio.to_thread(self._newly_judged)
        except StoreError as error:
            # tried again at the next look, as what was judged meanwhile is still unread
            self._fault, self._stale = str(error), True
            self._draw_lines()
            return
        finally:
            self._looking = False
        self._fault = None
        self._pairs.update(pairs)
        self._table.renew(pairs)
        if self._table.cursor in pairs:
            self._draw_sides()
        self._draw_lines()

    def _newly_judged(self) -> dict[int, _VerdictChange]:
        reader = self.watched.reader
        judged = Browser(reader).judged_again(self._subjects.keys(), self._looked_through)
        self._looked_through = max([self._looked_through, *judged.values()])
        return {
            take: _pair(verdicts, self._after, self.watched.jury)
            for take, verdicts in reader.verdicts_of(judged).items()
        }

    def _show_rows(self) -> None:
        takes = list(self._subjects)
        if self._changed_first:
            takes.sort(key=self._rank)
        self._table.show(array("q", takes), self._columns(), _NOTHING)
        self._draw_sides()
        self._draw_lines()

    def _rank(self, take: int) -> int:
        # changed, then unchanged, then those not judged yet
        pair = self._pairs.get(take)
        return 2 if pair is None else 0 if pair.changed else 1

    def _columns(self) -> list[Heading]:
        longest = max(map(cell_len, self._names.values()), default=0)
        return [
            Heading("", "before → now", 23),
            Heading("", "conversation", max(min(longest, _WIDTH[1]), _WIDTH[0]), in_middle=True),
            Heading("", "what counts", 18),
            Heading("", "because", 0),
        ]

    @property
    def _judges(self) -> Sequence[str]:
        """The judges who were asked, as far as they are known."""
        if self._evaluator is not None:
            return (self._evaluator,)
        return () if self.watched.jury is None else self.watched.jury.judges

    def _cells(self, rows: Sequence[int]) -> Mapping[int, Cells]:
        return {take: self._row(take) for take in rows}

    def _row(self, take: int) -> Cells:
        name, pair = Piece(self._names[take]), self._pairs.get(take)
        if pair is None or pair.new is None:
            why = self._failed.get(WorkRow.of(*self._subjects[take]))
            if why is not None:
                state = Piece("! failed", Ink.BAD)
                return [state, name, Piece(""), Piece(one_line(why), Ink.MUTED)]
            waits = self._refusal is None and not self._gone
            state = Piece("▸ waiting" if waits else "· not judged", Ink.MUTED)
            return [state, name, Piece(""), Piece("")]
        old = "—" if pair.old is None else verdict(pair.old.passed)
        ink = VERDICT_INKS[pair.new.passed] if pair.changed else Ink.MUTED
        why = pair.new.justification if pair.new.unscored is None else pair.new.unscored
        return [
            Piece(f"{old} → {verdict(pair.new.passed)}", ink),
            name,
            _what_counts(pair),
            Piece(one_line(why), Ink.MUTED),
        ]

    def _draw_lines(self) -> None:
        judges = self._judges
        who = one_line(judges[0] if len(judges) == 1 else "those whose verdicts count")
        self.show_heading("Judged again", [Piece(f"by {who}", Ink.MUTED)])
        self._title.show(self._progress_words(), self._outcome_words())
        self._headings.show(self._table.heading_line(_UNSORTED, backwards=False))

    def _progress_words(self) -> Line:
        if self._fault is not None:
            return [Piece(" " + one_line(self._fault), Ink.BAD)]
        if self._refusal is not None:
            whole = f" not judged again: {one_line(self._refusal)}"
            fits = cell_len(whole) + len(_LEAVING) < self.app.size.width
            # if it does not fit, the pane below has it in full
            return [Piece(whole if fits else " not judged again", Ink.BAD)]
        done, total = len(self._pairs), len(self._subjects)
        ink = Ink.GOOD if done == total else Ink.ACCENT
        words = [Piece(f" {done:,} of {plural(total, 'conversation')}", ink)]
        if self._gone and done < total:
            words.append(Piece("  the engine has ended: what is missing was not judged", Ink.WARN))
        return words

    def _outcome_words(self) -> Line:
        changed = sum(pair.changed for pair in self._pairs.values())
        same = len(self._pairs) - changed
        if self._refusal is not None:
            return [Piece(_LEAVING, Ink.MUTED)]
        if not self._pairs:
            return [Piece("verdicts come as the engine gets to them ", Ink.MUTED)]
        counts = sum(pair.counts_otherwise for pair in self._pairs.values())
        changes = f"what counts: {counts:,} changed " if counts else "nothing that counts changed "
        return [
            Piece(f"{same:,} the same  {changed:,} changed  ", Ink.MUTED),
            Piece(changes, Ink.WARN if counts else Ink.GOOD),
        ]

    def _draw_sides(self) -> None:
        row = self._table.cursor
        if row is None:
            self._sides.show([], [])
            return
        pair = self._pairs.get(row)
        try:
            pair = pair or _pair(self.watched.reader.verdicts(row), self._after, self.watched.jury)
        except StoreError as error:
            self._sides.show([fault_passage(error)], [])
            return
        self._sides.show(_side_blocks(pair, "before"), _side_blocks(pair, "now", self._refusal))


def _what_counts(pair: _VerdictChange) -> Piece:
    """`✓ pass, as before`, `✗ fail, was ✓`."""
    was = f", was {verdict(pair.counted)[:1]}" if pair.counts_otherwise else ", as before"
    return Piece(verdict(pair.counts) + was, Ink.WARN if pair.counts_otherwise else Ink.MUTED)


_NOTHING: Final = (
    Piece("  None of them was played to its end: there is nothing to judge yet.", Ink.MUTED),
)


def _pair(verdicts: Sequence[Verdict], after: int, jury: Jury | None) -> _VerdictChange:
    """The pair by the same judge and pass, if there is one: like is compared with like."""
    counted = what_counts([verdict for verdict in verdicts if verdict.seq <= after], jury)
    votes = frozenset(verdict.seq for verdict in counting_votes(verdicts, jury))
    new = next((verdict for verdict in reversed(verdicts) if verdict.seq > after), None)
    before = [verdict for verdict in verdicts if verdict.seq <= after]
    if new is not None:
        same = [
            verdict
            for verdict in before
            if (verdict.judge, verdict.number) == (new.judge, new.number)
        ]
        before = same or before
    usable = [verdict for verdict in before if verdict.passed is not None] or before
    old = usable[-1] if usable else None
    return _VerdictChange(old, new, counted, what_counts(verdicts, jury), votes)


def _side_blocks(pair: _VerdictChange, name: str, refusal: str | None = None) -> list[Block]:
    shown = pair.old if name == "before" else pair.new
    if shown is None and refusal is not None:
        title = Rule("side", name, "not judged", ink=Ink.STRONG)
        return [title, Passage("none", "because", display_text(refusal), Ink.MUTED, Ink.BAD)]
    if shown is None:
        none = "none yet" if name == "now" else "none"
        title = Rule("side", name, ink=Ink.STRONG)
        return [title, Passage("none", "", none, ink=Ink.MUTED)]
    note = "counts" if shown.seq in pair.votes else "does not count"
    title = Rule("side", name, note, ink=Ink.STRONG)
    return [
        title,
        *(_aligned_block(block, place) for place, block in enumerate(one_verdict(shown, None))),
    ]


def _aligned_block(block: Block, place: int) -> Block:
    """A block with the same key on both sides, so that matching parts stand side by side."""
    if isinstance(block, Rule):
        return Passage("verdict", "verdict", block.title, Ink.MUTED, block.ink, close=True)
    return replace(block, key=(block.label, place))


FREE: Final = "free: no model in it costs money"


class JudgeCandidate(NamedTuple):
    """A judge who can be asked."""

    name: str | None
    """The judge's name; None for the judges whose verdicts count."""
    words: str
    note: str


class JudgeAgainScreen(Overlay[Request]):
    """Returns the request to the engine, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,backspace", "close", "close")]

    def __init__(self, shell: Shell, command: Command, rows: tuple[WorkRow, ...]) -> None:
        """`command` is `EVALUATE` or `SIMULATE`."""
        super().__init__()
        self._shell = shell
        self._command = command
        self._rows = rows
        infos = {info.name: info for info in shell.watch.benchmarks}
        self._candidates = _candidates(infos.get(rows[0].benchmark), command)
        self._list = ChoiceList((), id="found")
        self._price_line = Lines(id="price")
        self._note = DialogFooter()
        self._prices: dict[str | None, Line] = {}
        """The text for each candidate: the price, or why it cannot be asked."""
        self._chosen: JudgeCandidate | None = None
        """The candidate chosen before the price was known."""
        self._quotes: dict[str | None, PriceRange | None] = {}
        """The quotes of candidates that can be asked."""

    def compose(self) -> ComposeResult:
        width = min(max(_width(self._candidates), WIDTH), self.app.size.width)
        self._list.show(_lines(self._candidates, width))
        with Vertical(classes="card") as card:
            card.styles.width = width
            yield Lines([[Piece(self._question, Ink.ACCENT)]], id="question")
            yield self._list
            yield self._price_line
            yield self._note

    def on_mount(self) -> None:
        self._list.focus()
        self._show_price()

    def on_cursor_view_moved(self) -> None:
        # whoever moves on does not mean what Enter chose while its price was not known
        self._chosen = None
        self._show_price()

    def on_cursor_view_opened(self) -> None:
        self._chosen = self._candidates[self._list.cursor]
        if self._chosen.name in self._quotes:
            self.dismiss(self._request(self._chosen))

    @property
    def _question(self) -> str:
        number = len(self._rows)
        which = one_line(self._rows[0].unit) if number == 1 else f"{number:,} conversations"
        if self._command is Command.SIMULATE:
            return f"Play {which} again?"
        return f"Who is to judge {which} again?"

    @property
    def _effect_words(self) -> str:
        """What happens on agreement."""
        deed = "judges" if self._command is Command.EVALUATE else "plays and judges"
        return f"{deed} {'it' if len(self._rows) == 1 else f'{len(self._rows):,}'}"

    def _request(self, candidate: JudgeCandidate) -> Request:
        quote = self._quotes.get(candidate.name)
        return Request(self._command, rows=self._rows, evaluator=candidate.name, quote=quote)

    def _show_price(self) -> None:
        candidate = self._candidates[self._list.cursor]
        known = self._prices.get(candidate.name)
        can_be_asked = candidate.name in self._quotes
        self._note.say([Piece(f"Enter {self._effect_words}")] if can_be_asked else [])
        if known is not None:
            self._price_line.show([known])
            return
        self._price_line.show([[Piece("working out calls and price", Ink.MUTED)]])
        begin_instead(self, partial(self._price, candidate), "price")

    async def _price(self, candidate: JudgeCandidate) -> None:
        order = order_for(self._request(candidate))
        if order is None:
            return
        try:
            priced = await asyncio.to_thread(self._shell.engine.backend.cost, order)
        except CrosswindError as error:
            self._prices[candidate.name] = [Piece(one_line(str(error)), Ink.BAD)]
            self._show_price()
            return
        words = FREE if priced is None else one_line(priced.total[0])
        price = [Piece(words, Ink.GOOD if priced is None else Ink.WARN)]
        self._quotes[candidate.name] = None if priced is None else priced.order.quote
        self._prices[candidate.name] = price
        for note in () if priced is None else priced.notes:
            self._shell.tell(note)
        if priced is None and candidate == self._chosen:
            self.dismiss(self._request(candidate))  # there is nothing to say yes to
        else:
            self._show_price()


def _candidates(info: BenchmarkInfo | None, command: Command) -> Sequence[JudgeCandidate]:
    if command is Command.SIMULATE:
        return [JudgeCandidate(None, "play and judge", "what was played before stays")]
    judges = ", ".join(map(one_line, info.jury.judges)) if info and info.jury else ""
    candidates = [JudgeCandidate(None, judges or "the configured judges", "counts from now on")]
    for evaluator in () if info is None else info.evaluators:
        words = f"{one_line(evaluator.name)}  {one_line(evaluator.label)}"
        counts = info is not None and info.jury is not None and evaluator.label in info.jury.judges
        notes = [
            "counts" if counts else "does not count",
            evaluator.part,
            "a script" * evaluator.scripted,
        ]
        candidates.append(JudgeCandidate(evaluator.name, words, ", ".join(filter(None, notes))))
    return candidates


def _width(candidates: Sequence[JudgeCandidate]) -> int:
    """The cells of a card on which no name is cut."""
    names = max(cell_len(candidate.words) for candidate in candidates)
    return names + max(cell_len(candidate.note) for candidate in candidates) + _BESIDE


def _lines(candidates: Sequence[JudgeCandidate], width: int) -> list[Line]:
    """The names on a card of so many cells, and beside them the notes, which are never cut."""
    notes = max(cell_len(candidate.note) for candidate in candidates)
    room = max(width - _BESIDE - notes, _LEAST_NAME)
    names = min(max(cell_len(candidate.words) for candidate in candidates), room)
    return [
        [
            Piece(f" {pad(candidate.words, names, middle=True)}  ", Ink.STRONG),
            Piece(candidate.note, Ink.MUTED),
        ]
        for candidate in candidates
    ]


_BESIDE: Final = 10
"""Cells of a card beside the names and the notes."""
_LEAST_NAME: Final = 20


def judge_again(shell: Shell, subjects: Sequence[Subject]) -> None:
    """Ask for the judge; then show old and new verdicts as they arrive."""

    def decided(request: Request | None) -> None:
        if request is None:
            return
        try:
            watching = JudgedAgainScreen(shell, subjects, request.evaluator)
        except StoreError as error:
            shell.tell(str(error), bad=True)
            return
        shell.navigator.show(watching)
        shell.engine.ask(request, watching.answered)

    _ask(shell, Command.EVALUATE, subjects, decided)


def play_again(
    shell: Shell, subjects: Sequence[Subject], then: Callable[[], None] | None = None
) -> None:
    """Ask whether to play again; `then` is called if so. Existing takes are kept."""

    def decided(request: Request | None) -> None:
        if request is not None:
            shell.engine.ask(request)
            if then is not None:
                then()

    _ask(shell, Command.SIMULATE, subjects, decided)


def _ask(
    shell: Shell,
    command: Command,
    subjects: Sequence[Subject],
    decided: Callable[[Request | None], None],
) -> None:
    if subjects:
        rows = tuple(WorkRow.of(subject.benchmark, subject.key) for subject in subjects)
        shell.navigator.show(JudgeAgainScreen(shell, command, rows), decided)
