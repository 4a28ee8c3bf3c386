"""What a few conversations of each metric say against paying for all of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from engine.display import drawn
from tui.screens.dialogs import TextCard
from tui.text.ink import Ink, Line, Piece, fitted
from tui.text.wrap import wrap

if TYPE_CHECKING:
    from engine.cli.piloting import PilotPage


class PilotScreen(TextCard, inherit_bindings=False):
    """Lies over whatever was shown when the pilot ended."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

    def __init__(self, page: PilotPage) -> None:
        super().__init__(partial(_lines, page), id="pilot")


def _lines(page: PilotPage, width: int) -> list[Line]:
    head, *table = map(drawn, page.table)
    lines: list[Line] = [[Piece(head, Ink.ACCENT)]]
    lines += [fitted([Piece(row)], width) for row in table]
    for sentence in (drawn(one).strip() for one in page.sentences):
        ink = Ink.WARN if sentence.startswith("!") else Ink.TEXT
        rows = wrap(sentence, width)
        lines += [[], *([Piece(sentence[row.start : row.end], ink)] for row in rows)]
    return [*lines, [], [Piece("q closes this", Ink.MUTED)]]
