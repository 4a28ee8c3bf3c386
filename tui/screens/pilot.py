"""What a few conversations of each metric say against paying for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.display import drawn
from tui.screens.dialogs import WIDTH, Overlay
from tui.text.ink import Ink, Line, Piece, fitted
from tui.text.wrap import wrap
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import Lines

if TYPE_CHECKING:
    from engine.cli.piloting import PilotPage

_FRAME = 6
"""Cells of a card beside its text."""


class PilotScreen(Overlay[None], inherit_bindings=False):
    """Lies over whatever was shown when the pilot ended."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

    def __init__(self, page: PilotPage) -> None:
        super().__init__()
        self._page = page
        self._list = Lines((), id="pilot")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self._list

    def on_mount(self) -> None:
        self._draw()
        self._list.focus()

    def on_resize(self) -> None:
        self._draw()

    def action_close(self) -> None:
        self.dismiss()

    def _draw(self) -> None:
        width = max(min(WIDTH, self.app.size.width) - _FRAME, 8)
        head, *table = map(drawn, self._page.table)
        lines: list[Line] = [[Piece(head, Ink.ACCENT)]]
        lines += [fitted([Piece(row)], width) for row in table]
        for sentence in map(drawn, self._page.sentences):
            ink = Ink.WARN if sentence.startswith("!") else Ink.TEXT
            rows = wrap(sentence, width)
            lines += [[], *([Piece(sentence[row.start : row.end], ink)] for row in rows)]
        self._list.show([*lines, [], [Piece("q closes this", Ink.MUTED)]])
