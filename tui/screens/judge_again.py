"""Asks who is to judge conversations again, or whether to play them again, and says the price."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.display import one_line
from engine.errors import CrosswindError
from engine.link import Command, Request, Row
from engine.pipeline.order import PriceRange
from engine.watch import BenchmarkInfo, Watch
from tui.background import begin_instead
from tui.errands import order_for
from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN
from tui.shell import Shell
from tui.widgets.ink import Ink, Line, Piece, pad
from tui.widgets.lines import Choices, Lines
from tui.widgets.one_line import OneLine

FREE: Final = "free: only scripted models are called"


class Candidate(NamedTuple):
    """Somebody who can be asked to judge."""

    name: str | None
    """None for those whose verdicts count anyway."""
    words: str
    note: str


class JudgeAgainScreen(Overlay[Request], inherit_bindings=False):
    """Ends with what is to be asked of the engine, or nothing."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

    def __init__(self, watch: Watch, shell: Shell, command: Command, rows: tuple[Row, ...]) -> None:
        """`command` is `EVALUATE` or `SIMULATE`."""
        super().__init__()
        self._shell = shell
        self._command = command
        self._rows = rows
        infos = {info.name: info for info in watch.benchmarks}
        self._candidates = _candidates(infos.get(rows[0].benchmark), command)
        self._list = Choices(list(map(_line, self._candidates)), id="found")
        self._note = OneLine(id="note")
        self._prices: dict[str | None, Line] = {}
        """What is said of each; what it costs, or why it cannot be done."""
        self._chosen: Candidate | None = None
        """Who was chosen while the price was not known yet."""
        self._quotes: dict[str | None, PriceRange | None] = {}
        """Of those that can be asked."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([[Piece(self._question, Ink.ACCENT)]], id="question")
            yield self._list
            yield self._note

    def on_mount(self) -> None:
        self._list.focus()
        self._show_price()

    def on_cursor_view_moved(self) -> None:
        self._chosen = None
        self._show_price()

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        self._chosen = self._candidates[message.index]
        if self._chosen.name in self._quotes:
            self.dismiss(self._request(self._chosen))

    def action_close(self) -> None:
        self.dismiss()

    @property
    def _question(self) -> str:
        number = len(self._rows)
        which = one_line(self._rows[0].unit) if number == 1 else f"{number:,} conversations"
        if self._command is Command.SIMULATE:
            return f"Play {which} again?"
        return f"Who is to judge {which} again?"

    def _request(self, candidate: Candidate) -> Request:
        quote = self._quotes.get(candidate.name)
        return Request(self._command, rows=self._rows, evaluator=candidate.name, quote=quote)

    def _show_price(self) -> None:
        candidate = self._candidates[self._list.cursor]
        known = self._prices.get(candidate.name)
        if known is not None:
            self._note.show(known)
            return
        self._note.show([Piece("working out calls and price", Ink.MUTED)])
        begin_instead(self, partial(self._price, candidate), "price")

    async def _price(self, candidate: Candidate) -> None:
        order = order_for(self._request(candidate))
        if order is None:
            return
        try:
            priced = await asyncio.to_thread(self._shell.cost, order)
        except CrosswindError as error:
            self._prices[candidate.name] = [Piece(one_line(str(error)), Ink.BAD)]
            self._show_price()
            return
        words = FREE if priced is None else one_line(priced.total[0])
        price = [Piece(words, Ink.GOOD if priced is None else Ink.WARN), Piece("  Enter goes on")]
        self._quotes[candidate.name] = None if priced is None else priced.order.quote
        self._prices[candidate.name] = price
        for note in () if priced is None else priced.notes:
            self._shell.tell(note)
        if priced is None and candidate == self._chosen:
            self.dismiss(self._request(candidate))  # there is nothing to say yes to
        else:
            self._show_price()


def _candidates(info: BenchmarkInfo | None, command: Command) -> Sequence[Candidate]:
    if command is Command.SIMULATE:
        return [Candidate(None, "play and judge", "a new playing beside those that are there")]
    judges = ", ".join(map(one_line, info.judges)) if info is not None else ""
    found = [Candidate(None, judges or "the configured judges", "counts from now on")]
    for each in () if info is None else info.evaluators:
        words = f"{one_line(each.name)}  {one_line(each.label)}"
        note = "a script" if each.scripted else "beside what counts"
        found.append(Candidate(each.name, words, note))
    return found


def _line(candidate: Candidate) -> Line:
    return [
        Piece(" " + pad(candidate.words, 42) + " ", Ink.STRONG),
        Piece(candidate.note, Ink.MUTED),
    ]
