"""Asks for the name of something new."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from engine.benchmark import name_fault
from tui.screens.typing import TypingScreen
from tui.widgets.ink import Ink, Line, Piece
from tui.widgets.lines import Lines
from tui.widgets.one_line import OneLine

_QUESTION: Line = [Piece("What is the new benchmark to be called?", Ink.ACCENT)]


class NameScreen(TypingScreen[str], inherit_bindings=False):
    """Ends with a name that may be used, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, taken: Collection[str]) -> None:
        super().__init__("a short name, for a folder")
        self._taken = {name.casefold() for name in taken}
        self._note = OneLine(id="note")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([_QUESTION])
            yield self.line
            yield self._note

    def on_input_changed(self, message: Input.Changed) -> None:
        fault = self._fault(message.value) if message.value else None
        words = fault or "Enter makes it, Esc closes"
        self._note.show([Piece(words, Ink.BAD if fault else Ink.MUTED)])

    def submit(self, typed: str) -> None:
        if self._fault(typed) is None:
            self.dismiss(typed)

    def _fault(self, name: str) -> str | None:
        if name.casefold() in self._taken:
            return "there is one of that name"
        return name_fault(name)
