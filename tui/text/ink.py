"""The inks that lines are drawn in, and light Markdown. The theme decides how each ink looks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain, pairwise, takewhile
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size


class Ink(StrEnum):
    """The role of a text. The theme assigns each role its look."""

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
    """The mark, evidence or search hit, that was jumped to last."""
    FOUND = "found"
    """A search hit."""
    CURSOR = "cursor"
    CURSOR_IDLE = "cursor-idle"
    """The cursor in a pane without the focus."""

    @property
    def component(self) -> str:
        """The name of the CSS component class that styles this ink."""
        return f"ink--{self.value}"


VERDICT_INKS: Final[Mapping[bool | None, Ink]] = {True: Ink.GOOD, False: Ink.BAD, None: Ink.WARN}
"""The ink of each verdict: passed, failed, and None for unscored."""


class Piece(NamedTuple):
    """A part of a line, in one ink."""

    text: str
    ink: Ink = Ink.TEXT


Line = Sequence[Piece]

MEANINGFUL: Final = 10
"""A line cut to fewer cells than this says too little."""
TOLD_APART: Final = 6
"""The fewest cells in which similar names can be told apart."""
_BLANK: Final = Piece(" ")


class Styled(NamedTuple):
    """Characters `start` to `end` of a text, in one ink."""

    start: int
    end: int
    ink: Ink


def length(line: Iterable[Piece]) -> int:
    """The width of a line in cells."""
    return sum(cell_len(piece.text) for piece in line)


def pad(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """Cut or fill a text to a width in cells. A cut text ends in an ellipsis, or with `middle` has
    it in the middle, for names that differ at their ends."""
    room = width - cell_len(text)
    if room >= 0:
        return " " * room + text if right else text + " " * room
    return shorten_middle(text, width) if middle else shorten(text, width)


def shorten(text: str, width: int) -> str:
    """Cut a text to at most `width` cells. A cut text ends in an ellipsis."""
    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1) + "…"


def shorten_start(text: str, width: int) -> str:
    """Cut a text to at most `width` cells at its start."""
    if cell_len(text) <= width:
        return text
    # reversed, so that cells are counted from the end
    return "" if width < 1 else "…" + set_cell_size(text[::-1], width - 1)[::-1]


def shorten_middle(text: str, width: int) -> str:
    """Cut a text to at most `width` cells in its middle, so that both ends stay."""
    if cell_len(text) <= width or width < 3:
        return shorten(text, width)
    end = (width - 1) // 2
    # reversed, so that cells are counted from the end
    tail = set_cell_size(text[::-1], end)[::-1]
    return shorten(text, width - end) + tail


@lru_cache(maxsize=256)
def told_apart(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    """Map each name to at most `width` cells, cut in the middle like `shorten_middle`. Names that
    would look alike keep the part in which they differ. If they still look alike, they get a
    number. Below `TOLD_APART` cells, names are only cut."""
    shown = {name: shorten_middle(name, width) for name in names}
    if width < TOLD_APART:
        return shown
    for alike in _names_shown_alike(shown):
        before = _in_common(alike)
        behind = _in_common([name[before:][::-1] for name in alike])
        shown |= {name: _clip_around(name, before, behind, width) for name in alike}
    # numbered through: what is cut once more for its number may look like another that is
    for number, name in enumerate(chain.from_iterable(_names_shown_alike(shown)), 1):
        mark = f"~{number}"
        shown[name] = shorten(shown[name], max(width - len(mark), 0)) + mark
    return shown


def pad_apart(name: str, names: Iterable[str], width: int) -> str:
    """Cut or fill a name to a width in cells, told apart from the other `names` shown with it."""
    return pad(told_apart((*names, name), width)[name], width)


def _names_shown_alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Groups of names that are shown as the same text."""
    by_text: dict[str, list[str]] = {}
    for name, text in shown.items():
        by_text.setdefault(text, []).append(name)
    return [names for names in by_text.values() if len(names) > 1]


def _in_common(texts: Iterable[str]) -> int:
    """The length in characters of the common prefix."""
    together = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda characters: len(set(characters)) == 1, together))


def _clip_around(name: str, before: int, behind: int, width: int) -> str:
    """Cut a name to what is between its first `before` and last `behind` characters, with as much
    around that as fits."""
    end = len(name) - behind
    middle = _first_cells(name[before:end], max(width // 2, 1))
    rest = max(width - cell_len(middle) - 2, 0)
    tail = _first_cells(name[end:][::-1], rest // 2)[::-1]
    head = _first_cells(name[:before], rest - cell_len(tail))
    return f"{head}…{middle}…{tail}"


def _first_cells(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells)


def fitted_line(line: Line, width: int) -> list[Piece]:
    """The line, cut to `width` cells if it is longer."""
    pieces: list[Piece] = []
    for piece in line:
        cells = cell_len(piece.text)
        if cells > width:
            pieces.append(Piece(shorten(piece.text, width), piece.ink))
            return pieces
        pieces.append(piece)
        width -= cells
    return pieces


def spread_line(left: Line, right: Line, width: int, fill: Piece = _BLANK) -> list[Piece]:
    """Put `left` and `right` at the two ends of a line. If both do not fit, `left` is cut; if too
    little of `left` would remain, `right` is left out."""
    room = width - length(right) - 1
    if room < min(MEANINGFUL, length(left)):
        right, room = (), width
    start = fitted_line(left, room)
    between = width - length(start) - length(right)
    return [*start, Piece(fill.text * between, fill.ink), *right]


def painted(text: str, start: int, end: int, styles: Sequence[Styled], ink: Ink) -> list[Piece]:
    """Characters `start` to `end` in `ink`, except where a style applies. Later styles win."""
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


# Light Markdown has no parser and no document. Each line is styled alone, so that text can be drawn
# while it is being written. Markup characters stay, so that a reviewer sees what was sent.
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HEADING: Final = re.compile(r"(?P<mark>#{1,6} +)(?P<text>.*)")
_ITEM: Final = re.compile(r" *(?P<mark>[-*+•]|\d{1,3}[.)]) ")
_QUOTE: Final = re.compile(r" {0,3}(?P<mark>>+)")
_RULER: Final = re.compile(r" {0,3}(?:-{3,}|\*{3,}|_{3,}) *")
_INLINE: Final = re.compile(
    r"(?P<code>`[^`]+`)|(?P<bold>\*\*(?=\S)[^*]+(?<=\S)\*\*)|(?P<italic>(?<![\w*])\*(?=\S)[^*]+(?<=\S)\*(?![\w*]))"
)


def code_fences(text: str, start: int = 0) -> list[int]:
    """The starts of the lines that open or close a code block; `start` is a line's start."""
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
    spans: list[Styled] = []
    for span in _INLINE.finditer(text, start, end):
        first, last = span.span()
        match span.lastgroup:
            case "code":
                mark, ink = 1, Ink.CODE
            case "bold":
                mark, ink = 2, Ink.STRONG
            case _:
                mark, ink = 1, Ink.THOUGHT
        spans += [
            Styled(first, first + mark, Ink.FAINT),
            Styled(first + mark, last - mark, ink),
            Styled(last - mark, last, Ink.FAINT),
        ]
    return spans
