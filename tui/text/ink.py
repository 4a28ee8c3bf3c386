"""The inks that lines are drawn in; what each looks like is the theme's business."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size


class Ink(StrEnum):
    """What a text is, by which a theme says how it looks."""

    TEXT = "text"
    STRONG = "strong"
    MUTED = "muted"
    FAINT = "faint"
    RULE = "rule"
    ACCENT = "accent"
    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    USER = "user"
    TARGET = "target"
    LANDMARK = "landmark"
    THOUGHT = "thought"
    CODE = "code"
    EVIDENCE = "evidence"
    EVIDENCE_NOW = "evidence-now"
    """The evidence, or what was searched for, that was jumped to last."""
    FOUND = "found"
    """What was searched for."""
    CURSOR = "cursor"
    CURSOR_IDLE = "cursor-idle"
    """The cursor of a pane that has not the focus."""

    @property
    def component(self) -> str:
        """The component class that has its look."""
        return f"ink--{self.value}"


VERDICT_INKS: Final[Mapping[bool | None, Ink]] = {True: Ink.GOOD, False: Ink.BAD, None: Ink.WARN}
"""Of a verdict; None is unscored."""


class Piece(NamedTuple):
    """Some text of a line, in one ink."""

    text: str
    ink: Ink = Ink.TEXT


Line = Sequence[Piece]

MEANINGFUL: Final = 10
"""A line cut shorter than this says too little."""
_BLANK: Final = Piece(" ")


class Styled(NamedTuple):
    """Characters `start` to `end` of a text, in one ink."""

    start: int
    end: int
    ink: Ink


def length(line: Iterable[Piece]) -> int:
    """How many cells a line takes."""
    return sum(cell_len(piece.text) for piece in line)


def pad(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """Cut or filled up to a width in cells; cut text ends in an ellipsis, or has it in the
    `middle`, as names that are told apart by their ends."""
    room = width - cell_len(text)
    if room >= 0:
        return " " * room + text if right else text + " " * room
    return shorten_middle(text, width) if middle else shorten(text, width)


def shorten(text: str, width: int) -> str:
    """At most `width` cells; cut text ends in an ellipsis."""
    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1) + "…"


def shorten_middle(text: str, width: int) -> str:
    """At most `width` cells; of text that is cut both ends stay."""
    if cell_len(text) <= width or width < 3:
        return shorten(text, width)
    end = (width - 1) // 2
    # from behind, so that cells are counted where they stand
    tail = set_cell_size(text[::-1], end)[::-1]
    return shorten(text, width - end) + tail


def fitted(line: Line, width: int) -> list[Piece]:
    """The line, cut where it is too long."""
    pieces: list[Piece] = []
    for piece in line:
        cells = cell_len(piece.text)
        if cells > width:
            pieces.append(Piece(shorten(piece.text, width), piece.ink))
            return pieces
        pieces.append(piece)
        width -= cells
    return pieces


def spread(left: Line, right: Line, width: int, fill: Piece = _BLANK) -> list[Piece]:
    """`left` and `right` at the two ends of a line. Where both do not fit, `left` is cut; where it
    would be cut to nothing, `right` is left out."""
    room = width - length(right) - 1
    if room < min(MEANINGFUL, length(left)):
        right, room = (), width
    kept = fitted(left, room)
    between = width - length(kept) - length(right)
    return [*kept, Piece(fill.text * between, fill.ink), *right]


def painted(text: str, start: int, end: int, styles: Sequence[Styled], ink: Ink) -> list[Piece]:
    """Characters `start` to `end` in `ink`, but where a style says otherwise; later ones win."""
    edges = {start, end}
    styles = [style for style in styles if style.start < end and style.end > start]
    for style in styles:
        edges.update(edge for edge in (style.start, style.end) if start < edge < end)
    cuts = sorted(edges)
    pieces: list[Piece] = []
    for first, last in pairwise(cuts):
        here = next((s.ink for s in reversed(styles) if s.start <= first < s.end), ink)
        pieces.append(Piece(text[first:last], here))
    return pieces
