"""Sections as lines of a terminal: draws cells by their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from engine.analysis.figures import MarkedDifference
from engine.analysis.number_words import p_value_words, points, points_interval
from engine.analysis.sections import (
    Amount,
    Forest,
    Grid,
    Name,
    Section,
    Sentence,
    ShareCell,
    Table,
    cell_text,
    whose,
)
from engine.cli.console import table
from engine.statistics.agreement import Coefficient

NARROW: Final = 80
_SHORTEST_NAME: Final = 8


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The space that a table is drawn in."""

    width: int = NARROW
    """Columns."""
    whole_names: bool = False
    """Whether names are never shortened, even if the table gets wider: the reader of a pipe looks
    them up."""


NARROW_LAYOUT: Final = TableLayout()


def section_lines(sections: Iterable[Section], page: TableLayout) -> Iterator[str]:
    """Each section below its title, after an empty line."""
    for section in sections:
        title = section.title.lower()
        for block in section.blocks:
            match block:
                case Sentence():
                    yield from _sentence(section, block, page)
                case Table():
                    yield from ("", _title(title, block.title), _table(block, page))
                    yield from wrap(block.note, page.width)
                case Grid():
                    yield from ("", _title(title, block.title))
                    yield _grid(block, page)
                case Forest():
                    for group in block.groups:
                        yield from ("", _title(title, group.title))
                        yield _differences(group.differences, page)


def _sentence(section: Section, sentence: Sentence, page: TableLayout) -> Iterator[str]:
    if sentence is section.blocks[0]:
        yield from ("", section.title.lower())
    yield from wrap(sentence.text, page.width)


def _title(section: str, block: str | Name) -> str:
    return f"{section}, {cell_text(block)}" if block else section


def _table(block: Table, page: TableLayout) -> str:
    texts = [
        [cell_text(row.name), *(cell_text(cell, whole=block.whole) for cell in row.cells)]
        for row in block.rows
    ]
    right = {
        number
        for number, column in enumerate(zip(*(row.cells for row in block.rows), strict=True), 1)
        if not block.whole
        and any(isinstance(cell, ShareCell | Coefficient | Amount) for cell in column)
    }
    return table_that_fits([column.brief for column in block.columns], texts, right, page)


def _grid(grid: Grid, page: TableLayout) -> str:
    """A line for each estimate, as there may be many columns with long names."""
    rows: list[list[str]] = []
    before = None
    for row in grid.rows:
        further = [cell_text(cell) for cell in row.cells[: len(grid.head) - 1]]
        for (name, _), estimate in zip(grid.columns, grid.estimates(row), strict=True):
            first = "" if row.name == before else cell_text(row.name)
            rows.append([first, *further, name.text, cell_text(estimate)])
            before = row.name
    head = [*(column.brief for column in (*grid.head, grid.across)), "passes"]
    return table_that_fits(head, rows, set(), page)


_MARKS: Final = (("may be chance", "significant"), ("·", "✓"))
"""Of a difference that is not significant and of one that is; the short ones beside owners."""


def _differences(differences: Sequence[MarkedDifference], page: TableLayout) -> str:
    has_owners = any(map(whose, differences))
    rows = [
        [
            f"{one.left} {'>' if one.difference else '='} {one.right}",
            *([whose(one)] if has_owners else []),
            f"{points(one.difference)} {points_interval(one.low, one.high)}",
            str(one.base_scenarios),
            p_value_words(one.p_adjusted),
            _MARKS[has_owners][one.sure],
        ]
        for one in differences
    ]
    owner = ["of"] if has_owners else []
    head = ["more often > than", *owner, "by", "scenarios", "adjusted", ""]
    return table_that_fits(head, rows, {2 + has_owners}, page)


def table_that_fits(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int], page: TableLayout
) -> str:
    """The table. If it is too wide, the names in the first column are shortened, as far as they
    stay distinct."""
    drawn = table(head, rows, right=frozenset(right))
    over = max(map(len, drawn.splitlines())) - page.width
    if over <= 0 or not rows or page.whole_names:
        return drawn
    names = [row[0] for row in rows]
    room = max(_SHORTEST_NAME, max(map(len, names)) - over)
    shorter = [[name, *row[1:]] for name, row in zip(shortened(names, room), rows, strict=True)]
    return table(head, shorter, right=frozenset(right))


def shortened(names: Sequence[str], room: int) -> list[str]:
    """The names cut to `room` characters, or to as many as keep different names different. Both
    ends stay, as similar names differ there."""
    apart = len(set(names))
    while True:
        shorter = [_without_middle(name, room) for name in names]
        if len(set(shorter)) == apart:
            return shorter
        room += 1


def _without_middle(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    tail = (room - 1) // 2
    return f"{name[: room - 1 - tail]}…{name[-tail:]}"
