"""Asks which of a few things is meant: by a letter, or with the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar, Final, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.display import one_line
from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN
from tui.widgets.ink import Ink, Line, Piece, pad
from tui.widgets.lines import Choices, Lines

WIDTH: Final = 72
"""Cells of a card, as the stylesheet says."""


class Offer(NamedTuple):
    key: str
    """One letter."""
    name: str
    meaning: str


class ChoiceScreen(Overlay[Offer], inherit_bindings=False):
    """Ends with what was chosen, or nothing."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

    def __init__(self, question: str | Sequence[str], offers: Sequence[Offer]) -> None:
        """`question` is one sentence, or a few lines of which the first counts most."""
        super().__init__()
        self._question = [question] if isinstance(question, str) else question
        self._offers = offers

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._lines(), id="question")
            yield Choices(list(map(_line, self._offers)), id="choices")

    def _lines(self) -> list[Line]:
        width = min(WIDTH, self.app.size.width) - 6
        inks = [Ink.ACCENT, *[Ink.MUTED] * len(self._question)]
        return [
            [Piece(row, ink)]
            for line, ink in zip(self._question, inks, strict=False)
            for row in wrap(one_line(line), max(width, 1))
        ]

    def on_mount(self) -> None:
        self.query_one(Choices).focus()

    def on_key(self, event: events.Key) -> None:
        chosen = next((offer for offer in self._offers if offer.key == event.character), None)
        if chosen is not None:
            event.stop()
            self.dismiss(chosen)

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        self.dismiss(self._offers[message.index])

    def action_close(self) -> None:
        self.dismiss()


def _line(offer: Offer) -> Line:
    return [
        Piece(f" {offer.key}  ", Ink.ACCENT),
        Piece(pad(offer.name, 22), Ink.STRONG),
        Piece(offer.meaning, Ink.MUTED),
    ]
