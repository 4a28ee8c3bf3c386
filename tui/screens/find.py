"""Asks what to find in a transcript, and goes there while one types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from engine.display import plural
from tui.screens.dialogs import TypingScreen
from tui.services.ticker import begin_instead
from tui.state.transcript import PatternFault
from tui.text.ink import Ink, Piece
from tui.widgets.lines import OneLine

_HELP = "Words, or a regular expression behind a slash. Enter stays there, n and N go on."


class FindScreen(TypingScreen[str], inherit_bindings=False):
    """Ends with what is searched for, or nothing where nothing is any more."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, typed: str, find: Callable[[str], Awaitable[int]]) -> None:
        """`find` says how often something occurs, having gone to the first of the places."""
        super().__init__("words, or /a regular expression/")
        self._begun_with = typed
        self._find = find
        self._note = OneLine(id="note")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self.line
            yield self._note

    def on_mount(self) -> None:
        self.line.value = self._begun_with
        self._say(_HELP)

    def on_input_changed(self, message: Input.Changed) -> None:
        begin_instead(self, partial(self._answer, message.value), "find")

    def submit(self, typed: str) -> None:
        self.dismiss(typed.strip() or None)

    async def _answer(self, typed: str) -> None:
        try:
            found = await self._find(typed)
        except PatternFault as fault:
            self._say(str(fault), Ink.BAD)
            return
        if not typed.strip():
            self._say(_HELP)
        elif found:
            self._say(plural(found, "place"), Ink.GOOD)
        else:
            self._say("It does not occur here.", Ink.WARN)

    def _say(self, text: str, ink: Ink = Ink.MUTED) -> None:
        self._note.show([Piece(text, ink)])
