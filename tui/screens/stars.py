"""The conversations that have a star, to go back to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.display import one_line
from tui.among import Subject
from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN
from tui.widgets.ink import Ink, Line, Piece
from tui.widgets.lines import Choices, Lines


class StarsScreen(Overlay[Subject], inherit_bindings=False):
    """Ends with what was chosen, or nothing."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,apostrophe", "close", "close")
    ]

    def __init__(self, stars: Sequence[Subject]) -> None:
        super().__init__()
        self._stars = stars

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([[Piece("Conversations with a star", Ink.ACCENT)]], id="question")
            yield Choices(list(map(_starred_line, self._stars)), id="found")

    def on_mount(self) -> None:
        self.query_one(Choices).focus()

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        self.dismiss(self._stars[message.index])

    def action_close(self) -> None:
        self.dismiss()


def _starred_line(subject: Subject) -> Line:
    return [
        Piece(" ★ ", Ink.WARN),
        Piece(one_line(str(subject.key)), Ink.STRONG),
        Piece(f"  {one_line(subject.benchmark)}", Ink.MUTED),
    ]
