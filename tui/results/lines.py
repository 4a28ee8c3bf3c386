"""Words that fill lines, and headings: what the sections of the results share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from rich.cells import cell_len

from engine.display import one_line
from tui.widgets.ink import Ink, Piece, fitted
from tui.widgets.sheet import Row
from tui.widgets.wrap import wrap

READABLE: Final = 100
"""Cells beyond which words are hard to follow."""


def paragraph(
    text: str,
    width: int,
    mark: Piece | None = None,
    ink: Ink = Ink.TEXT,
    key: Hashable | None = None,
) -> Iterator[Row]:
    """Foreign words among them are made harmless here."""
    sign = Piece(" " if mark is None else f" {mark.text} ", Ink.TEXT if mark is None else mark.ink)
    indent = cell_len(sign.text)
    words = one_line(text)
    for number, row in enumerate(wrap(words, max(min(width - indent - 1, READABLE), 8))):
        head = sign if number == 0 else Piece(" " * indent)
        yield Row([head, Piece(words[row.start : row.end], ink)], key)


def title(words: str, width: int, note: str = "") -> Row:
    """A heading with a thin line up to what its figures are."""
    note = note if cell_len(words) + cell_len(note) + 8 <= width else ""
    room = max(width - cell_len(words) - cell_len(note) - 5, 0)
    line = [
        Piece(f" {words} ", Ink.ACCENT),
        Piece("─" * room, Ink.RULE),
        Piece(f" {note}" if note else "", Ink.MUTED),
    ]
    return Row(fitted(line, width))
