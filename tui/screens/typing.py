"""What screens with a line to type on have in common: they lose nothing of what is typed."""

from __future__ import annotations

from typing import Any, TypeVar

from textual import events
from textual.widgets import Input

from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN

Result = TypeVar("Result")


class _TypedLine(Input):
    """Takes Enter and Esc itself and at once. On their way up to the app, what was typed behind
    them would still land on this line, though it is meant for the screen beneath."""

    def __init__(self, asking: TypingScreen[Any], placeholder: str) -> None:
        super().__init__(placeholder=placeholder, id="typed")
        self.cursor_blink = False
        self._asking = asking

    async def _on_key(self, event: events.Key) -> None:
        asking = self._asking
        if asking.answered:
            self.app.post_message(events.Key(event.key, event.character))
        elif event.key == "enter":
            asking.submit(self.value)
        elif event.key == "escape":
            asking.action_close()
        else:
            return
        event.stop()
        event.prevent_default()


class TypingScreen(Overlay[Result], inherit_bindings=False):
    """Has one line, `line`. Keys that come before it has the focus are for it as well."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    AUTO_FOCUS = "Input"

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.line = _TypedLine(self, placeholder)

    def submit(self, typed: str) -> None:
        """Enter was pressed."""
        raise NotImplementedError

    def action_close(self) -> None:
        """Esc was pressed."""
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        if self.focused is not None:
            return
        if event.key == "enter":
            self.submit(self.line.value)
        elif event.is_printable and event.character is not None:
            self.line.value += event.character
            self.line.cursor_position = len(self.line.value)
