"""A strip of the five stages with the progress of each: a word, a bar and a count, or on a low
screen a count alone."""

from __future__ import annotations

from collections.abc import Sequence

from tui.state.board import StageState, StageView
from tui.text.ink import Ink, Line, Piece, fitted_line, length, pad
from tui.widgets.base import LineView

ROOMY = 21
"""A stage with this many cells or more has a bar."""
WORDY = 32
"""In this many cells or more, it says what it counts."""


class StageStrip(LineView):
    """The stages in two rows that share the width equally; or in one row, each as wide as its
    text."""

    can_focus = False
    DEFAULT_CSS = """
    StageStrip { height: 2; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: 2, self._row, id=id)
        self._stages: Sequence[StageView] = ()

    def show(self, stages: Sequence[StageView]) -> None:
        if stages != self._stages:
            self._stages = stages
            self.redraw()

    def _row(self, index: int) -> Line:
        if not self._stages:
            return []
        if self.size.height == 1:
            return fitted_line(_in_one_row(self._stages), self.line_width)
        cell, spare = divmod(self.line_width - 1, len(self._stages))
        line = [Piece(" ")]
        for number, stage in enumerate(self._stages):
            width = cell + (number < spare)
            drawn = (_upper if index == 0 else _lower)(stage, width - 2)
            line += [*drawn, Piece(" " * (width - length(drawn)))]
        return line


def _in_one_row(stages: Sequence[StageView]) -> list[Piece]:
    line = []
    for place, stage in enumerate(stages):
        begun = stage.state is not StageState.WAITING
        line += [
            Piece("  " if place else " "),
            stage.sign,
            Piece(stage.name, Ink.STRONG if begun else Ink.MUTED),
        ]
        # a finished stage without failures needs no count
        if begun and (stage.failed or stage.state is not StageState.DONE):
            line.append(Piece(f" {stage.count}", Ink.BAD if stage.failed else Ink.MUTED))
    return line


def _upper(stage: StageView, width: int) -> list[Piece]:
    mark = Ink.BAD if stage.failed else stage.state.ink
    name = Ink.MUTED if stage.state is StageState.WAITING else Ink.STRONG
    pieces = [stage.sign, Piece(stage.name, name)]
    if width >= ROOMY - 2:
        room = width - length(pieces)
        pieces.append(
            Piece(pad(stage.words(room - 1), room, right=True), mark if stage.failed else Ink.MUTED)
        )
    return pieces


def _lower(stage: StageView, width: int) -> list[Piece]:
    if width < ROOMY - 2:
        text = f"{stage.count} {stage.word}" if stage.count else stage.word
        text = text if len(text) <= width - 2 else stage.count or stage.word
        return [Piece(pad("  " + text, width), Ink.BAD if stage.failed else Ink.MUTED)]
    named = stage.noun and width >= WORDY
    count = f"{stage.count} {stage.noun}" if named else stage.count
    room = max(width - 2 - 1 - len(count), 1)
    if not stage.total:
        return [Piece("  "), Piece("─" * (width - 2), Ink.RULE)]
    filled = stage.done * room // stage.total
    ink = Ink.GOOD if stage.state is StageState.DONE else Ink.ACCENT
    return [
        Piece("  "),
        Piece("━" * filled, ink),
        Piece("─" * (room - filled), Ink.RULE),
        Piece(" " + count, Ink.MUTED),
    ]
