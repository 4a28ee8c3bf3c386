"""Breaks text into rows of a width, and goes on from the last row when the text has grown.
Says which columns of a table fit into a line, and how a row and their titles stand in them.

Only where rows begin is kept: a long text has too many of them for an object each.

The rule is greedy, and looks only forward from where a row begins. So appended text can change the
last row and nothing above it, and wrapping from there gives what wrapping the whole would give:

- A row takes words while they fit. Blanks between rows belong to no row. Blanks that open a
  paragraph are its indentation and stay.
- A word that does not fit begins a row of its own; one that is wider than a whole row is cut there,
  between characters as a person sees them. (Were it cut in the row before, that row would change
  when a growing word turns out to be too wide.)
- East Asian text can be broken at each of its characters.
- Rows of a list item are indented to its first word.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from rich.cells import cell_len, split_graphemes

from tui.text.ink import Ink, Piece, pad

LIST_ROOM: Final = 24
"""Rows narrower than this have no room for the indentation of lists."""
AT_ONCE: Final = 4_000
"""Characters that are measured together."""
LONGEST: Final = 1_000
"""Characters of a word that are measured together: more than any row has."""

_BLANKS: Final = " \u3000"
_ONE_CELL: Final = re.compile(
    "[ -~\xa1-\xac\xae-\u02ff\u0370-\u0373\u0391-\u03a1\u03b1-\u03c9\u0400-\u0482\u2010-\u2027"
    "\u2030-\u205e\u2500-\u25fc]*"
)
_EAST_ASIAN: Final = (
    "\u1100-\u115f\u2e80-\u2fff\u3001-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f"
    "\uff01-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
)
_JOINED: Final = "\u0300-\u036f\u200c\u200d\u3099\u309a\ufe00-\ufe0f"
_UNIT: Final = re.compile(
    f"[{_BLANKS}]*(?:[{_EAST_ASIAN}]+(?![{_JOINED}])|[{_EAST_ASIAN}][{_JOINED}]+"
    f"|[^{_BLANKS}{_EAST_ASIAN}]{{1,{LONGEST}}})"
)
"""What no row breaks in, or East Asian characters; and the blanks before it."""
_BREAKS_ANYWHERE: Final = re.compile(f"[{_EAST_ASIAN}](?![{_JOINED}])")
_TWO_CELLS: Final = re.compile(
    "[\u3001-\u3029\u3041-\u3096\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)
"""Those of them that any terminal shows in two cells."""
_ITEM: Final = re.compile(r" {0,8}(?:[-*+•]|\d{1,3}[.)]) {1,3}(?=\S)")
_cells: Final = lru_cache(maxsize=16_384)(cell_len)


class TextRow(NamedTuple):
    """Characters `start` to `end` of a text, on one row."""

    start: int
    end: int
    indent: int = 0
    """Blanks to draw before it."""


class Wrapped:
    """A text in rows of a width; all in one row where that is 0."""

    __slots__ = ("openings", "starts", "text", "width")

    def __init__(self, text: str, width: int, before: Wrapped | None = None) -> None:
        """`before` is what was made of the beginning of the text, in the same width."""
        self.text = text
        self.width = width
        # four bytes a row: a transcript may have a hundred thousand
        self.starts: array[int] = array("I", [0]) if before is None else before.starts[:]
        self.openings: array[int] = array("I", [0]) if before is None else before.openings[:]
        """Where paragraphs begin, of which each is a line of the text."""
        if width:
            self._go_on()

    def _go_on(self) -> None:
        """Find where the rows begin that are not known yet, from the last known one on."""
        text, start, opening = self.text, self.starts[-1], self.openings[-1]
        while True:
            end = text.find("\n", opening)
            stop = len(text) if end < 0 else end
            self.starts.extend(_later_starts(text, opening, start, stop, self.width))
            if end < 0:
                return
            start = opening = end + 1
            self.starts.append(start)
            self.openings.append(start)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> TextRow:
        text, start = self.text, self.starts[number]
        if not self.width:
            return TextRow(start, len(text))
        is_last = number == len(self.starts) - 1
        end = len(text) if is_last else self.starts[number + 1]
        if end > start and text[end - 1] == "\n":
            end -= 1
        opening = self.openings[bisect_right(self.openings, start) - 1]
        indent = 0 if start == opening else _hang(text, opening, self.width)
        return TextRow(start, _drop_blanks(text, start, end), indent)

    def row_of(self, place: int) -> int:
        """Which row has a character of the text."""
        return max(bisect_right(self.starts, place) - 1, 0)


def _hang(text: str, opening: int, width: int) -> int:
    """By how much rows of a paragraph are indented, but for its first."""
    item = _ITEM.match(text, opening) if width >= LIST_ROOM else None
    return 0 if item is None else item.end() - opening


def _later_starts(text: str, opening: int, start: int, end: int, width: int) -> Iterable[int]:
    """Where the rows of a paragraph begin that come behind the one at `start`."""
    # most paragraphs are one short line: nothing to measure
    if start == opening and end - start <= width and text.isascii():
        return ()
    hang = _hang(text, opening, width)
    narrow = _ONE_CELL.fullmatch(text, start, end) is not None
    rows = _narrow_starts if narrow else _any_starts
    return rows(text, opening, start, end, (width, width - hang))


def _skip_blanks(text: str, start: int, end: int) -> int:
    while start < end and text[start] in _BLANKS:
        start += 1
    return start


def _drop_blanks(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in _BLANKS:
        end -= 1
    return end


def _narrow_starts(
    text: str, opening: int, start: int, end: int, widths: tuple[int, int]
) -> Iterator[int]:
    """In text of which each character is one cell."""
    end = _drop_blanks(text, start, end)
    while end - start > (width := widths[start != opening]):
        first = _skip_blanks(text, start, end) if start == opening else start
        cut = text.rfind(" ", first, start + width + 1)
        if cut <= first:
            cut = max(start + width, first)
        while text[cut] == " ":
            cut += 1
        yield cut
        start = cut


def _any_starts(
    text: str, opening: int, start: int, end: int, widths: tuple[int, int]
) -> Iterator[int]:
    """Where rows begin in a paragraph of any characters, counted in cells as they are drawn."""
    end = _drop_blanks(text, start, end)
    while start < end:
        rows = _measured_starts(text, opening, start, end, widths)
        yield from (row for row in rows if row < end)
        start = rows[-1] if rows else end


def _measured_starts(
    text: str, opening: int, start: int, end: int, widths: tuple[int, int]
) -> list[int]:
    """The next few, and the end where there are no more."""
    stop = min(start + AT_ONCE, end)
    # blanks at the end are before no unit, and would be tried from each of them on
    units = _UNIT.findall(text, start, start + len(text[start:stop].rstrip(_BLANKS)))
    places = list(accumulate(map(len, units), initial=start))
    cells = list(accumulate(map(_cells, units), initial=0))
    rows: list[int] = []
    unit, used = 0, 0
    while True:
        room = widths[start != opening]
        after = bisect_right(cells, used + room) - 1
        if after == len(units):
            rows += [end] if stop == end else []
            break
        place, before = (start, used) if after == unit else (places[after], cells[after])
        fit = _fitting(text[place : places[after + 1]], used + room - before)
        is_open = stop < end and (place + fit >= stop - 1 if fit else after >= len(units) - 1)
        if after == unit and not fit:
            return [*rows, *_cut(text, start, places[unit + 1], room, widths[1])]
        if is_open:
            break
        unit, start = after, _skip_blanks(text, place + fit, end)
        used = before + _cells(text[place:start])
        rows.append(start)
    return rows or [_skip_blanks(text, stop, end)]


def _fitting(unit: str, room: int) -> int:
    """How much of what fits only in part goes into a row: none of a word."""
    core = unit.lstrip(_BLANKS)
    if _BREAKS_ANYWHERE.match(core) is None:
        return 0
    blanks = unit[: len(unit) - len(core)]
    room -= _cells(blanks)
    fit = min(max(room // 2, 0), len(core))
    if _TWO_CELLS.fullmatch(core, 0, fit) is None:
        fit = bisect_right(list(accumulate(map(_cells, core[: room + 1]))), room)
    return len(blanks) + fit if fit > 0 else 0


def _cut(text: str, start: int, end: int, width: int, later_width: int) -> list[int]:
    """Where rows begin in a word that is wider than its row: as many whole characters as a person
    sees fit into each, but one at least."""
    spans, _ = split_graphemes(text[start:end])
    rows: list[int] = []
    used = 0
    for first, _last, cells in spans:
        if rows and start + first < rows[-1]:
            continue
        used += cells
        if used > width and first > 0:
            rows.append(_skip_blanks(text, start + first, end))
            used, width = cells if rows[-1] == start + first else 0, later_width
    return rows or [_skip_blanks(text, end, len(text))]


def wrap(text: str, width: int) -> list[TextRow]:
    """All rows of a text that is short."""
    wrapped = Wrapped(text, max(width, 1))
    return [wrapped[number] for number in range(len(wrapped))]


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


LEAST_OF_A_COLUMN: Final = 4
"""Cells of one, that say more than that there is something."""
Cells = Sequence[Piece]
"""One piece for each column; of a row that is gone, none."""


def laid_out(
    headings: Sequence[Heading], cells: Cells, width: int, hidden: range = range(0)
) -> Iterator[tuple[Heading, Piece]]:
    """The cells of a row that fit into `width`, but for the `hidden` columns, each cut or filled
    up to its column. Where a column is reached of which hardly anything fits, the rest is left
    out."""
    last = len(headings) - 1
    for index, (heading, piece) in enumerate(zip(headings, cells, strict=True)):
        if index in hidden:
            continue
        if width < min(heading.width or LEAST_OF_A_COLUMN, LEAST_OF_A_COLUMN):
            return
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
