"""Columns: which of them fit into a line, and how a row and their titles stand in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tui.text.ink import Ink, Piece, pad


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a table, and the title above it."""

    name: str
    """What a click on it sorts by."""
    title: str
    width: int
    """In cells; the last column takes what is left."""
    gap: int = 1
    """Blank cells behind it."""
    in_middle: bool = False
    """Whether what is too long is cut in its middle, as ids are, whose ends tell them apart."""


Cells = Sequence[Piece]
"""One piece for each column; of a row that is gone, none."""


def laid_out(
    headings: Sequence[Heading], cells: Cells, width: int, hidden: range = range(0)
) -> Iterator[tuple[Heading, Piece]]:
    """The cells of a row that fit into `width`, but for the `hidden` columns, each cut or filled
    up to its column."""
    last = len(headings) - 1
    for index, (heading, piece) in enumerate(zip(headings, cells, strict=True)):
        if index in hidden or width < 1:
            continue
        wide = width if index == last else min(heading.width, width)
        text = pad(piece.text, wide, middle=heading.in_middle)
        yield heading, Piece(text + " " * heading.gap, piece.ink)
        width -= wide + heading.gap


def titles(headings: Sequence[Heading], sorted_by: str, *, backwards: bool) -> Cells:
    """One for each column, with an arrow where rows are sorted by it."""
    arrow = " ▾" if backwards else " ▴"
    return [
        Piece(
            each.title + (arrow if each.name == sorted_by else ""),
            Ink.ACCENT if each.name == sorted_by else Ink.MUTED,
        )
        for each in headings
    ]
