"""The inks that lines are drawn in, also by light Markdown; what each looks like is the theme's
business."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, takewhile
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
TOLD_APART: Final = 6
"""Cells from which on names can be told apart."""
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


@lru_cache(maxsize=256)
def told_apart(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    """Each name in at most `width` cells, cut in its middle as `shorten_middle` does. Names that
    would look alike keep the part in which they differ, or else get a number, if there is room
    for more than that."""
    found = {name: shorten_middle(name, width) for name in names}
    if width < TOLD_APART:
        return found
    for alike in _alike(found):
        before = _in_common(alike)
        behind = _in_common([name[before:][::-1] for name in alike])
        found |= {name: _around(name, before, behind, width) for name in alike}
    for alike in _alike(found):
        for number, name in enumerate(alike, 1):
            mark = f"~{number}"
            found[name] = shorten(found[name], max(width - len(mark), 0)) + mark
    return found


def pad_apart(name: str, names: Iterable[str], width: int) -> str:
    """Cut or filled up to a width in cells, told apart from the others that are shown with it."""
    return pad(told_apart((*names, name), width)[name], width)


def _alike(found: Mapping[str, str]) -> list[list[str]]:
    """Names that are shown as one."""
    by_text: dict[str, list[str]] = {}
    for name, text in found.items():
        by_text.setdefault(text, []).append(name)
    return [names for names in by_text.values() if len(names) > 1]


def _in_common(texts: Iterable[str]) -> int:
    """With how many same characters they begin."""
    together = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, together))


def _around(name: str, before: int, behind: int, width: int) -> str:
    """What stands between `before` and `behind` characters, with as much around it as fits."""
    end = len(name) - behind
    middle = _first_cells(name[before:end], max(width // 2, 1))
    rest = max(width - cell_len(middle) - 2, 0)
    tail = _first_cells(name[end:][::-1], rest // 2)[::-1]
    head = _first_cells(name[:before], rest - cell_len(tail))
    return f"{head}…{middle}…{tail}"


def _first_cells(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells)


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


# Light Markdown has no parser and no document: a line is looked at alone, so text can be drawn
# while it is still being written, and the marks stay, so a reviewer sees each character sent.
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HEADING: Final = re.compile(r"(?P<mark>#{1,6} +)(?P<text>.*)")
_ITEM: Final = re.compile(r" *(?P<mark>[-*+•]|\d{1,3}[.)]) ")
_QUOTE: Final = re.compile(r" {0,3}(?P<mark>>+)")
_RULER: Final = re.compile(r" {0,3}(?:-{3,}|\*{3,}|_{3,}) *")
_INLINE: Final = re.compile(
    r"(?P<code>`[^`]+`)|(?P<bold>\*\*(?=\S)[^*]+(?<=\S)\*\*)|(?P<italic>(?<![\w*])\*(?=\S)[^*]+(?<=\S)\*(?![\w*]))"
)


def fences(text: str, start: int = 0) -> list[int]:
    """Where the lines begin that open or close a block of code; `start` is the start of a line."""
    if "```" not in text and "~~~" not in text:
        return []
    return [fence.start() for fence in _FENCE.finditer(text, start)]


def styles(text: str, start: int, end: int, fence_starts: Sequence[int]) -> list[Styled]:
    """The inks of the line of `text` from `start` to `end`."""
    fence = bisect_right(fence_starts, start)
    if fence and fence_starts[fence - 1] == start:
        return [Styled(start, end, Ink.FAINT)]
    if fence % 2:
        return [Styled(start, end, Ink.CODE)]
    if heading := _HEADING.fullmatch(text, start, end):
        return [
            Styled(*heading.span("mark"), Ink.FAINT),
            Styled(*heading.span("text"), Ink.STRONG),
        ]
    if _RULER.fullmatch(text, start, end):
        return [Styled(start, end, Ink.FAINT)]
    return [*_opening(text, start, end), *_inline(text, start, end)]


def _opening(text: str, start: int, end: int) -> list[Styled]:
    if item := _ITEM.match(text, start, end):
        return [Styled(*item.span("mark"), Ink.ACCENT)]
    if quote := _QUOTE.match(text, start, end):
        return [Styled(start, end, Ink.MUTED), Styled(*quote.span("mark"), Ink.FAINT)]
    return []


def _inline(text: str, start: int, end: int) -> list[Styled]:
    found: list[Styled] = []
    for span in _INLINE.finditer(text, start, end):
        first, last = span.span()
        match span.lastgroup:
            case "code":
                mark, ink = 1, Ink.CODE
            case "bold":
                mark, ink = 2, Ink.STRONG
            case _:
                mark, ink = 1, Ink.THOUGHT
        found += [
            Styled(first, first + mark, Ink.FAINT),
            Styled(first + mark, last - mark, ink),
            Styled(last - mark, last, Ink.FAINT),
        ]
    return found
