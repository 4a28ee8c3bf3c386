"""Asks which rows are wanted, and has the answer shown while one types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from engine.store.browsing import Filter
from tui.screens.dialogs import TypingScreen
from tui.state.filters import HELP, FilterFault, parse
from tui.text.ink import Ink, Piece
from tui.widgets.lines import OneLine


class FilterScreen(TypingScreen[str], inherit_bindings=False):
    """Ends with the line that was typed, or nothing where it is to be as before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close"),
        Binding("up", "earlier", "an earlier line", show=False),
        Binding("down", "later", "a later line", show=False),
    ]

    def __init__(
        self, typed: str, earlier: Sequence[str], answer: Callable[[Filter], None]
    ) -> None:
        """`earlier` lines can be had again, the last one first. `answer` is called with what each
        line that can be understood means."""
        super().__init__("which rows: outcome:fail target:… or words of the justification")
        self._begun_with = typed
        self._lines = [typed, *(line for line in earlier if line != typed)]
        self._place = 0
        self._answer = answer
        self._note = OneLine(id="note")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self.line
            yield self._note

    def on_mount(self) -> None:
        self.line.value = self._begun_with
        self._say()

    def on_input_changed(self, message: Input.Changed) -> None:
        try:
            self._answer(parse(message.value))
        except FilterFault as fault:
            self._say(str(fault), Ink.BAD)
        else:
            self._say()

    def submit(self, typed: str) -> None:
        """A line that cannot be understood stays to be mended."""
        try:
            parse(typed)
        except FilterFault as fault:
            self._say(str(fault), Ink.BAD)
        else:
            self.dismiss(" ".join(typed.split()))

    def action_earlier(self) -> None:
        self._show(self._place + 1)

    def action_later(self) -> None:
        self._show(self._place - 1)

    def _show(self, place: int) -> None:
        if 0 <= place < len(self._lines):
            self._place = place
            self.line.value = self._lines[place]
            self.line.cursor_position = len(self.line.value)

    def _say(self, text: str = HELP, ink: Ink = Ink.MUTED) -> None:
        self._note.show([Piece(text, ink)])
