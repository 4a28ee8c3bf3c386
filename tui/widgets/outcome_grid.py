"""A grid of outcomes: a row for each target, a group of cells for each variant, a cell a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.cells import cell_len
from textual.message import Message

from tui.format import UNKNOWN
from tui.text.ink import Ink, Line, Piece, fitted, pad, pad_apart, shorten, told_apart
from tui.widgets.cursor import HEAD_ROWS, GridView

CELL: Final = 3
BETWEEN: Final = 2
NAME_WIDTH: Final = (8, 26)
ROOM_FOR_WHO: Final = 20
"""Cells of a group from which on it says who it is about."""


class Group(NamedTuple):
    """Cells that belong together, and who they are about where there is room to say it."""

    name: str
    who: str = ""

    @property
    def whole(self) -> str:
        return f"{self.name} {self.who}".rstrip()


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell: its row, its group, and its place in the group."""

    row: int
    group: int
    cell: int


class OutcomeGrid(GridView):
    """A cell's column is its group's number times the cells of a group, and its place in there."""

    class Opened(Message):
        """A person wants to see more of this cell."""

        def __init__(self, spot: GridCell) -> None:
            super().__init__()
            self.spot = spot

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._names: Sequence[str] = ()
        self._groups: Sequence[Group] = ()
        self._cells = 1
        self._glyphs: Mapping[GridCell, Piece] = {}
        self._first_group = 0

    @property
    def cursor(self) -> GridCell:
        return GridCell(self._item or 0, *divmod(self._column, self._cells))

    def show(
        self,
        names: Sequence[str],
        groups: Sequence[Group],
        cells: int,
        glyphs: Mapping[GridCell, Piece],
    ) -> None:
        """Rows and groups by their names; so many cells in each; a glyph of one cell for each."""
        if (names, groups, cells, glyphs) == (
            self._names,
            self._groups,
            self._cells,
            self._glyphs,
        ):
            return
        cursor = self.cursor
        self._names, self._groups, self._cells, self._glyphs = names, groups, cells, glyphs
        self.measure(self.row_count())
        self.put_on(cursor)

    def put_on(self, spot: GridCell) -> None:
        """Put the cursor on the cell, or the nearest that there is."""
        group = max(min(spot.group, len(self._groups) - 1), 0)
        cell = max(min(spot.cell, self._cells - 1), 0)
        self.put(spot.row, group * self._cells + cell)

    def row_count(self) -> int:
        return self.item_count() + HEAD_ROWS

    def item_count(self) -> int:
        return len(self._names)

    def column_count(self) -> int:
        return len(self._groups) * self._cells

    def column_at(self, x: int) -> int | None:
        group, within = divmod(x - self._name_width - 1, self._group_width)
        cell, group = within // CELL, group + self._first_group
        inside = x > self._name_width and group < len(self._groups) and cell < self._cells
        return group * self._cells + cell if inside else None

    def row(self, index: int) -> Line:
        groups = range(self._first_group, len(self._groups))
        if index < HEAD_ROWS:
            heads = [
                Piece(pad(self._head(group), self._group_width - 1) + " ", self._head_ink(group))
                for group in groups
            ]
            return fitted([Piece(" " * (self._name_width + 1)), *heads], self.line_width)
        row = index - HEAD_ROWS
        ink = Ink.STRONG if row == self.cursor.row else Ink.TEXT
        line = [
            Piece(" " + pad_apart(self._names[row], self._names, self._name_width - 1) + " ", ink)
        ]
        for group in groups:
            for cell in range(self._cells):
                line += self._cell(GridCell(row, group, cell))
            line.append(Piece(" " * (self._group_width - self._cells * CELL)))
        return fitted(line, self.line_width)

    def action_open(self) -> None:
        self.post_message(self.Opened(self.cursor))

    def _cell(self, spot: GridCell) -> Line:
        glyph = self._glyphs.get(spot, _NONE)
        if spot != self.cursor:
            return [Piece(" "), glyph, Piece(" ")]
        bracket = Ink.ACCENT if self.has_focus else Ink.MUTED
        return [Piece("[", bracket), glyph, Piece("]", bracket)]

    def _head_ink(self, group: int) -> Ink:
        return Ink.ACCENT if group == self.cursor.group else Ink.MUTED

    @property
    def _name_width(self) -> int:
        low, high = NAME_WIDTH
        longest = max(map(len, self._names), default=low) + 1
        return min(max(longest, low), high, max(self.line_width // 2, low))

    @property
    def _group_width(self) -> int:
        least = self._cells * CELL + BETWEEN
        longest = max((cell_len(each.whole) for each in self._groups), default=0) + BETWEEN
        share = (self.line_width - self._name_width - 1) // max(len(self._groups), 1)
        return max(least, min(longest, share)) if share >= min(ROOM_FOR_WHO, longest) else least

    def _head(self, group: int) -> str:
        each = self._groups[group]
        if self._group_width < min(ROOM_FOR_WHO, cell_len(each.whole) + BETWEEN):
            return each.name
        room = max(self._group_width - cell_len(each.name) - BETWEEN, 0)
        known = dict.fromkeys(one.who for one in self._groups)
        cut = [shorten(who, room) for who in known]
        who = shorten(each.who, room)
        # variants often begin alike
        who = who if cut.count(who) == 1 else told_apart(tuple(known), room)[each.who]
        return f"{each.name} {who}".rstrip()

    def bring_column_into_view(self) -> None:
        group = self._column // self._cells
        fit = max((self.line_width - self._name_width - 1) // self._group_width, 1)
        first = max(group - fit + 1, min(self._first_group, group))
        self._first_group = max(min(first, len(self._groups) - fit), 0)


_NONE: Final = Piece(UNKNOWN, Ink.FAINT)
