"""What notices have said, in full: they are gone after a while, and have two lines each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType

from engine.display import drawn
from tui.screens.dialogs import TextCard
from tui.text.ink import Ink, Line, Piece
from tui.text.wrap import wrap


class ShownNotice(NamedTuple):
    """What was told once."""

    text: str
    bad: bool


class MessagesScreen(TextCard, inherit_bindings=False):
    """The newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,exclamation_mark", "close", "close")
    ]

    def __init__(self, messages: Sequence[ShownNotice]) -> None:
        super().__init__(partial(_lines, messages), id="keys")


def _lines(messages: Sequence[ShownNotice], width: int) -> list[Line]:
    lines: list[Line] = [[Piece("What was told last", Ink.ACCENT)]]
    for message in messages:
        lines.append([])
        for part in drawn(message.text).splitlines():
            rows = wrap(part, width)
            ink = Ink.BAD if message.bad else Ink.TEXT
            lines += [[Piece(part[row.start : row.end], ink)] for row in rows]
    return lines
