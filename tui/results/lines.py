"""Words that fill lines, and tables: what the sections of the results share."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from engine.display import one_line
from tui.widgets.ink import Ink, Line, Piece, fitted, pad
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


class Cell(NamedTuple):
    """Of a table: a text in an ink, or pieces that are as wide as their column."""

    text: str
    ink: Ink = Ink.TEXT
    drawn: Line = ()


def columns(rows: Sequence[Sequence[Cell]]) -> list[int]:
    """How wide each column has to be for its widest text."""
    return [max(cell_len(cell.text) for cell in column) for column in zip(*rows, strict=True)]


def table_line(
    cells: Sequence[Cell], widths: Sequence[int], right: Collection[int] = (), gap: int = 2
) -> Line:
    line: list[Piece] = [Piece(" ")]
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if cell.drawn:
            line += cell.drawn
        else:
            line.append(Piece(pad(cell.text, width, right=number in right), cell.ink))
        line.append(Piece(" " * gap))
    return line
