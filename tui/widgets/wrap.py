"""Breaks text into rows of a width, and goes on from the last row when the text has grown.

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
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.cells import cell_len, split_graphemes

LIST_ROOM: Final = 24
"""Rows narrower than this have no room for the indentation of lists."""

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
    f"[{_BLANKS}]*(?P<unit>[{_EAST_ASIAN}][{_JOINED}]*|[^{_BLANKS}{_EAST_ASIAN}]+)"
)
_ITEM: Final = re.compile(r" {0,8}(?:[-*+•]|\d{1,3}[.)]) {1,3}(?=\S)")


class Row(NamedTuple):
    """One row of a wrapped text."""

    start: int
    end: int
    indent: int = 0
    """Blanks to draw before it."""


def wrap(text: str, width: int, start: int = 0) -> list[Row]:
    """The rows from `start` on, which is 0 or the start of a row of an earlier wrapping."""
    width = max(width, 1)
    rows: list[Row] = []
    paragraph = text.rfind("\n", 0, start) + 1
    while True:
        end = text.find("\n", paragraph)
        if end < 0:
            rows.extend(_paragraph(text, paragraph, len(text), width, max(start, paragraph)))
            return rows
        rows.extend(_paragraph(text, paragraph, end, width, max(start, paragraph)))
        paragraph = end + 1


def _paragraph(text: str, opening: int, end: int, width: int, start: int) -> Iterator[Row]:
    if width >= LIST_ROOM and (item := _ITEM.match(text, opening, end)):
        hang = item.end() - opening
    else:
        hang = 0
    narrow = _ONE_CELL.fullmatch(text, start, end) is not None
    while True:
        indent = 0 if start == opening else hang
        row_end, following = (
            _narrow_row(text, start, end, width - indent, opening)
            if narrow
            else _any_row(text, start, end, width - indent, opening)
        )
        yield Row(start, row_end, indent)
        if following >= end:
            return
        start = following


def _skip_blanks(text: str, start: int, end: int) -> int:
    while start < end and text[start] in _BLANKS:
        start += 1
    return start


def _drop_blanks(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in _BLANKS:
        end -= 1
    return end


def _narrow_row(text: str, start: int, end: int, width: int, opening: int) -> tuple[int, int]:
    """Where the row ends and the next one begins, in text of which each character is one cell."""
    last = _drop_blanks(text, start, end)
    if last - start <= width:
        return last, end
    first = _skip_blanks(text, start, end) if start == opening else start
    cut = text.rfind(" ", first, start + width + 1)
    if cut > first:
        return _drop_blanks(text, start, cut), _skip_blanks(text, cut, end)
    cut = start + width
    return cut, (_skip_blanks(text, cut, end) if cut < first else cut)


def _any_row(text: str, start: int, end: int, width: int, opening: int) -> tuple[int, int]:
    """The same for any text."""
    row_end, used = start, 0
    while unit := _UNIT.match(text, row_end, end):
        used += cell_len(unit[0])
        if used > width:
            if row_end > start:
                return row_end, unit.start("unit")
            return _cut(text, start, unit.end(), width, end)
        row_end = unit.end()
    return row_end, end


def _cut(text: str, start: int, unit_end: int, width: int, end: int) -> tuple[int, int]:
    """As many whole characters of a word that is wider than its row as fit, but one at least."""
    spans, _ = split_graphemes(text[start:unit_end])
    used = 0
    for first, _last, cells in spans:
        used += cells
        if used > width and first > 0:
            cut = start + first
            return cut, _skip_blanks(text, cut, end)
    return unit_end, _skip_blanks(text, unit_end, end)
