"""What screens with a line to type on have in common: they lose nothing of what is typed."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.widgets import Input

from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN

Result = TypeVar("Result")


class TypingScreen(Overlay[Result], inherit_bindings=False):
    """Has one line, `line`. Keys that come before it has the focus are for it as well."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    AUTO_FOCUS = "Input"

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.line = Input(placeholder=placeholder, id="typed")
        self.line.cursor_blink = False

    def submit(self, typed: str) -> None:
        """Enter was pressed."""
        raise NotImplementedError

    def on_key(self, event: events.Key) -> None:
        if self.focused is not None:
            return
        if event.key == "enter":
            self.submit(self.line.value)
        elif event.is_printable and event.character is not None:
            self.line.value += event.character
            self.line.cursor_position = len(self.line.value)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self.submit(message.value)
