"""What notices have said, in full: they are gone after a while, and have two lines each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.display import drawn
from tui.screens.dialogs import WIDTH, Overlay
from tui.text.ink import Ink, Line, Piece
from tui.text.wrap import wrap
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import Lines


class ShownNotice(NamedTuple):
    """What was told once."""

    text: str
    bad: bool


class MessagesScreen(Overlay[None], inherit_bindings=False):
    """The newest first."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,exclamation_mark", "close", "close")
    ]

    def __init__(self, messages: Sequence[ShownNotice]) -> None:
        super().__init__()
        self._messages = messages
        self._list = Lines((), id="keys")

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
        width = max(min(WIDTH, self.app.size.width) - 6, 8)
        lines: list[Line] = [[Piece("What was told last", Ink.ACCENT)]]
        for message in self._messages:
            lines.append([])
            for part in drawn(message.text).splitlines():
                rows = wrap(part, width)
                ink = Ink.BAD if message.bad else Ink.TEXT
                lines += [[Piece(part[row.start : row.end], ink)] for row in rows]
        self._list.show(lines)
