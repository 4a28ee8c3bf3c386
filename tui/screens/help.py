"""What every key does, taken from the bindings themselves, so that it cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from tui.bindings import KeyAction, actions_by_pane
from tui.screens.dialogs import Overlay
from tui.text.ink import Ink, Line, Piece, pad
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import Lines

_KEYS_WIDTH: Final = 20
_LEGEND: Final = (
    ("✓ pass", Ink.GOOD, "the target did what the metric asks for"),
    ("✗ fail", Ink.BAD, "it did not"),
    ("· unscored", Ink.WARN, "no verdict that can be used; the reason is beside it"),
    ("◇ ◆", Ink.STRONG, "a turn with a landmark; filled where the judge quotes from it"),
    ("· •", Ink.STRONG, "a turn without one; filled where the judge quotes from it"),
    ("+ −", Ink.STRONG, "positive and negative metrics; both count what passed"),
)


class HelpScreen(Overlay[None], inherit_bindings=False):
    """Lists what can be done on the screen it was called from."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,question_mark", "close", "close")
    ]

    def __init__(self, about: Screen[object]) -> None:
        super().__init__()
        self.lines = _lines(actions_by_pane(about))

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self.lines, id="keys")

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def action_close(self) -> None:
        self.dismiss()


def _lines(places: Sequence[tuple[str, Sequence[KeyAction]]]) -> list[Line]:
    lines: list[Line] = [[Piece("q closes this.", Ink.MUTED)], []]
    for title, found in places:
        lines += [[Piece(title, Ink.ACCENT)], *map(_line, found), []]
    lines.append([Piece("Signs", Ink.ACCENT)])
    lines += [
        [Piece("  " + pad(sign, _KEYS_WIDTH), ink), Piece(text)] for sign, ink, text in _LEGEND
    ]
    return lines


def _line(deed: KeyAction) -> Line:
    keys = "  ".join(deed.keys)
    gap = " " * max(_KEYS_WIDTH - cell_len(keys), 2)
    return [Piece(f"  {keys}{gap}", Ink.STRONG), Piece(deed.meaning)]
