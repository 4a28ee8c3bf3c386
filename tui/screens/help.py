"""What every key does, taken from the bindings themselves, so that it cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from textwrap import wrap
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.bindings import KeyAction, actions_by_pane
from tui.screens.dialogs import TextCard
from tui.text.ink import Ink, Line, Piece, pad

_KEYS_WIDTH: Final = 20
_WIDTH: Final = 76
"""Cells of the card, as the stylesheet says."""
_LEGEND: Final = (
    (
        "+ 91 % (67-98) 29/32",
        Ink.STRONG,
        "of 32 conversations that were scored 29 passed, 91 %; were many more played, the rate "
        "would lie between 67 and 98 % (a 95 % interval: so it is in about 19 of 20)",
    ),
    ("✓ pass", Ink.GOOD, "the target did what the metric asks for"),
    ("✗ fail", Ink.BAD, "it did not"),
    ("· unscored", Ink.WARN, "no verdict that can be used; the reason is beside it"),
    ("~", Ink.WARN, "stale: what it was made from has changed since; `is:stale` filters"),
    ("◇ ◆", Ink.STRONG, "a turn with a landmark; filled where the judge quotes from it"),
    ("· •", Ink.STRONG, "a turn without one; filled where the judge quotes from it"),
    ("+ −", Ink.STRONG, "positive and negative metrics; both count what passed"),
)


class HelpScreen(TextCard, inherit_bindings=False):
    """Lists what can be done on the screen it was called from."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,question_mark", "close", "close")
    ]

    def __init__(self, about: Screen[object]) -> None:
        super().__init__(partial(_lines, actions_by_pane(about)), id="keys", width=_WIDTH)


def _lines(places: Sequence[tuple[str, Sequence[KeyAction]]], width: int) -> list[Line]:
    lines: list[Line] = [[Piece("q closes this, : finds commands by name", Ink.MUTED)], []]
    lines.append([Piece("Signs", Ink.ACCENT)])
    for sign, ink, meaning in _LEGEND:
        lines += _rows(sign, ink, meaning, width)
    for title, found in places:
        lines += [[], [Piece(title, Ink.ACCENT)]]
        for deed in found:
            lines += _rows("  ".join(deed.keys), Ink.STRONG, deed.meaning, width)
    return lines


def _rows(name: str, ink: Ink, meaning: str, width: int) -> list[Line]:
    """What it means beside its name, wrapped in its own column; below it, where that is long."""
    room = max(width - _KEYS_WIDTH - 2, 10)
    first, *more = wrap(meaning, room) or [""]
    begin = Piece("  " + pad(name, _KEYS_WIDTH), ink)
    rows: list[Line] = [[begin, Piece(first)]]
    if cell_len(name) >= _KEYS_WIDTH:
        rows = [[Piece(f"  {name}", ink)], [Piece(" " * (_KEYS_WIDTH + 2)), Piece(first)]]
    return rows + [[Piece(" " * (_KEYS_WIDTH + 2)), Piece(text)] for text in more]
