"""Wrap text into rows of a width, continuing from the last row when the text has grown. Also lays
out the columns of a table: which of them fit into a line, and their titles.

Only the starts of rows are kept: a long text has too many rows for an object each.

Wrapping is greedy, and looks only forward from the start of a row. So appended text can change only
the last row, and wrapping from there gives the same rows as wrapping the whole text:

- A row takes words while they fit. Blanks between rows belong to no row. Blanks at the start of a
  paragraph are its indentation and stay.
- A word that does not fit begins a new row. A word wider than a whole row is cut there, between
  graphemes. (If it were cut in the row before, that row would change when a growing word turns out
  to be too wide.)
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

from tui.text.ink import Ink, Piece, pad, shorten

LIST_ROOM: Final = 24
"""Rows narrower than this many cells do not indent list items."""
AT_ONCE: Final = 4_000
"""Characters measured in one pass."""
LONGEST: Final = 1_000
"""The longest piece of a word, in characters, that is measured as a whole; longer than any row."""

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
"""Part of a word that no row breaks, or East Asian characters, with the blanks before it."""
_BREAKS_ANYWHERE: Final = re.compile(f"[{_EAST_ASIAN}](?![{_JOINED}])")
_TWO_CELLS: Final = re.compile(
    "[\u3001-\u3029\u3041-\u3096\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)
"""Characters that every terminal shows in two cells."""
_ITEM: Final = re.compile(r" {0,8}(?:[-*+•]|\d{1,3}[.)]) {1,3}(?=\S)")
_cells: Final = lru_cache(maxsize=16_384)(cell_len)


class TextRow(NamedTuple):
    """One row: characters `start` to `end` of a text."""

    start: int
    end: int
    indent: int = 0
    """Blank cells to draw before the row."""


class Wrapped:
    """A text wrapped into rows of `width` cells; a width of 0 puts all of it in one row."""

    __slots__ = ("openings", "starts", "text", "width")

    def __init__(self, text: str, width: int, before: Wrapped | None = None) -> None:
        """`before` is the wrapping of a prefix of the text, at the same width."""
        self.text = text
        self.width = width
        # four bytes a row: a transcript may have a hundred thousand
        self.starts: array[int] = array("I", [0]) if before is None else before.starts[:]
        self.openings: array[int] = array("I", [0]) if before is None else before.openings[:]
        """The starts of paragraphs; each line of the text is a paragraph."""
        if width:
            self._go_on()

    def _go_on(self) -> None:
        """Find the starts of the remaining rows, from the last known one on."""
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
        indent = 0 if start == opening else _hanging_indent(text, opening, self.width)
        return TextRow(start, _drop_blanks(text, start, end), indent)

    def row_of(self, place: int) -> int:
        """The number of the row that contains the character at `place`."""
        return max(bisect_right(self.starts, place) - 1, 0)


def _hanging_indent(text: str, opening: int, width: int) -> int:
    """The indentation, in cells, of all rows of a paragraph but the first."""
    item = _ITEM.match(text, opening) if width >= LIST_ROOM else None
    return 0 if item is None else item.end() - opening


def _later_starts(text: str, opening: int, start: int, end: int, width: int) -> Iterable[int]:
    """The starts of a paragraph's rows after the one at `start`."""
    # most paragraphs are one short line, with nothing to measure
    if start == opening and end - start <= width and text.isascii():
        return ()
    hang = _hanging_indent(text, opening, width)
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
    """Row starts in text whose characters each take one cell."""
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
    """Row starts in a paragraph of any characters, measured in cells."""
    end = _drop_blanks(text, start, end)
    while start < end:
        rows = _measured_starts(text, opening, start, end, widths)
        yield from (row for row in rows if row < end)
        start = rows[-1] if rows else end


def _measured_starts(
    text: str, opening: int, start: int, end: int, widths: tuple[int, int]
) -> list[int]:
    """The next few row starts, or `end` if there are no more."""
    stop = min(start + AT_ONCE, end)
    # blanks at the end precede no unit, and the pattern would be tried from each of them
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
        fit = _fitting_length(text[place : places[after + 1]], used + room - before)
        is_open = stop < end and (place + fit >= stop - 1 if fit else after >= len(units) - 1)
        if after == unit and not fit:
            return [*rows, *_break_word(text, start, places[unit + 1], room, widths[1])]
        if is_open:
            break
        unit, start = after, _skip_blanks(text, place + fit, end)
        used = before + _cells(text[place:start])
        rows.append(start)
    return rows or [_skip_blanks(text, stop, end)]


def _fitting_length(unit: str, room: int) -> int:
    """How many characters of a unit that fits only in part go into a row: none of a word."""
    core = unit.lstrip(_BLANKS)
    if _BREAKS_ANYWHERE.match(core) is None:
        return 0
    blanks = unit[: len(unit) - len(core)]
    room -= _cells(blanks)
    fit = min(max(room // 2, 0), len(core))
    if _TWO_CELLS.fullmatch(core, 0, fit) is None:
        fit = bisect_right(list(accumulate(map(_cells, core[: room + 1]))), room)
    return len(blanks) + fit if fit > 0 else 0


def _break_word(text: str, start: int, end: int, width: int, later_width: int) -> list[int]:
    """Row starts in a word wider than its row. Each row takes as many graphemes as fit, but at
    least one."""
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
    """All rows of a short text."""
    wrapped = Wrapped(text, max(width, 1))
    return [wrapped[number] for number in range(len(wrapped))]


def wrapped_lines(text: str, width: int) -> list[str]:
    """The texts of all rows of a short text, without their indents."""
    return [text[row.start : row.end] for row in wrap(text, width)]


def first_rows(text: str, width: int, most: int) -> list[str]:
    """The rows of a short text, at most so many; the last of these is cut where there are more."""
    rows = wrap(text, width)
    lines = [text[row.start : row.end] for row in rows[:most]]
    if len(rows) > most:
        lines[-1] = shorten(text[rows[most - 1].start :], width)
    return lines


@dataclass(frozen=True, slots=True)
class Heading:
    """A table column with its title."""

    name: str
    """The sort key that a click on the title selects."""
    title: str
    width: int
    """In cells. The last column takes the remaining width."""
    gap: int = 1
    """Blank cells after the column."""
    in_middle: bool = False
    """Whether a long text is cut in its middle, as for ids, which differ at their ends."""


LEAST_OF_A_COLUMN: Final = 4
"""The fewest cells in which a column is still useful."""
Cells = Sequence[Piece]
"""One piece per column; empty for a row that is gone."""


def laid_out(
    headings: Sequence[Heading], cells: Cells, width: int, hidden: range = range(0)
) -> Iterator[tuple[Heading, Piece]]:
    """Yield the cells of a row that fit into `width`, each cut or padded to its column. Skips the
    `hidden` columns. At the first column with hardly any room, the rest is left out."""
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
    """The titles, one per column, with an arrow on the column that rows are sorted by."""
    arrow = " ▾" if backwards else " ▴"
    return [
        Piece(
            (heading.title + (arrow if heading.name == sorted_by else "")).lstrip(),
            Ink.ACCENT if heading.name == sorted_by else Ink.MUTED,
        )
        for heading in headings
    ]
