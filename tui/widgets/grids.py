"""Two grids: a heat map of rates by metric and target, with a number and a bar in each cell so that
colour is redundant; and outcomes by target and variant, with one cell per sample, and how many of
each target and each variant passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType

from engine.display import percent
from tui.format import UNKNOWN, bar
from tui.text.ink import (
    Ink,
    Line,
    Piece,
    fitted_line,
    pad,
    pad_apart,
    told_apart,
)
from tui.widgets.base import CursorView

HEAD_ROWS: Final = 1


@dataclass(frozen=True, slots=True)
class GridColumns:
    """The columns of a grid, in groups of equal width that stand behind the names of the rows.
    Widths are in cells of the screen."""

    groups: int
    left: int
    """Where the first group begins."""
    group_width: int
    column_width: int
    per_group: int = 1
    """The columns of a group."""

    @property
    def count(self) -> int:
        return self.groups * self.per_group

    def at(self, x: int, first: int) -> int | None:
        """The column at `x` on the screen, if group `first` is the first visible one; None if there
        is none."""
        group, within = divmod(x - self.left, self.group_width)
        column, group = within // self.column_width, group + first
        inside = x >= self.left and group < self.groups and column < self.per_group
        return group * self.per_group + column if inside else None

    def first_visible(self, column: int, before: int, width: int) -> int:
        """The group to begin with in a view of this width, so that this column is visible; `before`
        is the one it began with."""
        group, fit = column // self.per_group, self.fitting(width)
        # no further than needed, and without free room behind the last group
        first = max(group - fit + 1, min(before, group))
        return max(min(first, self.groups - fit), 0)

    def fitting(self, width: int) -> int:
        """How many groups a view of this width shows."""
        return max((width - self.left) // self.group_width, 1)


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell by its row, its group of columns, and its position in the group."""

    row: int
    group: int
    cell: int = 0


class GridView(CursorView):
    """A grid below a heading. Its items are rows; the cursor is on a cell of one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "aside(1)", "next cell", show=False),
        Binding("left,h", "aside(-1)", "cell before", show=False),
    ]

    def __init__(
        self,
        item_count: Callable[[], int],
        row: Callable[[int], Line],
        columns: Callable[[], GridColumns],
        *,
        foot_rows: int = 0,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`columns` lays them out for the current width; `foot_rows` are below the items."""
        around = HEAD_ROWS + foot_rows
        super().__init__(lambda: item_count() + around, row, id=id)
        self._around = around
        """The rows that are not items."""
        self._layout = columns
        self._column = 0
        self._first_group = 0
        """The first visible group of columns."""

    @property
    def cursor(self) -> GridCell:
        return GridCell(self._item or 0, *divmod(self._column, self._layout().per_group))

    def item_count(self) -> int:
        return self.row_count() - self._around

    def item_rows(self, item: int) -> range:
        return range(item + HEAD_ROWS, item + HEAD_ROWS + 1)

    def redraw_item(self, item: int | None) -> None:
        """Redraw everything: the heading, too, has a mark at the cursor's column."""
        self.redraw()

    def row_back(self, index: int) -> Ink | None:
        """None: brackets mark the cursor's cell, so its row needs no background."""
        del index
        return None

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the cell, or on the nearest one that exists."""
        before = (self._item, self._column)
        self._item = max(min(row, self.item_count() - 1), 0)
        self._column = max(min(column, self._layout().count - 1), 0)
        self._bring_column_into_view()
        self.bring_into_view(self._item)
        self.redraw()
        if (self._item, self._column) != before:
            self.post_message(self.Moved(self))

    def move_to(self, item: int) -> None:
        self.put(item, self._column)

    def action_aside(self, step: int) -> None:
        if 0 <= self._column + step < self._layout().count:
            self.put(self._item or 0, self._column + step)

    def lay_out(self) -> None:
        super().lay_out()
        self._bring_column_into_view()
        self.bring_into_view(self._item or 0)

    def on_click(self, event: events.Click) -> None:
        row, column = self.top + event.y - HEAD_ROWS, self._layout().at(event.x, self._first_group)
        if column is None or not 0 <= row < self.item_count():
            return
        if event.chain > 1 and (row, column) == (self._item, self._column):
            self.action_open()
        self.put(row, column)

    def _bring_column_into_view(self) -> None:
        columns = self._layout()
        self._first_group = columns.first_visible(self._column, self._first_group, self.line_width)


COLUMN: Final = (11, 18)
NAME_WIDTH: Final = (16, 60)
GOOD_FROM: Final = 0.75
BAD_BELOW: Final = 0.4


class HeatRow(NamedTuple):
    """A metric, and a mark for what its cells do not say."""

    name: str
    mark: str = ""


class HeatMap(GridView):
    """A heat map: a row for each metric, a column for each target."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: len(self._rows), self._row, self._heat_columns, id=id)
        self._rows: Sequence[HeatRow] = ()
        self._columns: Sequence[str] = ()
        self._cells: Mapping[GridCell, float | None] = {}

    def show(
        self,
        rows: Sequence[HeatRow],
        columns: Sequence[str],
        cells: Mapping[GridCell, float | None],
    ) -> None:
        if (rows, columns, cells) == (self._rows, self._columns, self._cells):
            return
        self._rows, self._columns, self._cells = rows, columns, cells
        self.measure(self.row_count())
        self.put(self.cursor.row, self._column)

    def _heat_columns(self) -> GridColumns:
        width = self._column_width
        return GridColumns(len(self._columns), self._name_width + 2, width, width)

    def _row(self, index: int) -> Line:
        last = self._first_group + self._heat_columns().fitting(self.line_width)
        seen = range(self._first_group, min(last, len(self._columns)))
        if index < HEAD_ROWS:
            return self._head(seen)
        number = index - HEAD_ROWS
        row = self._rows[number]
        ink = Ink.STRONG if number == self.cursor.row else Ink.TEXT
        mark = cell_len(row.mark) + 1 if row.mark else 0
        line = [
            Piece(" " + pad(row.name, self._name_width - mark), ink),
            Piece(" " + row.mark if row.mark else "", Ink.WARN),
            Piece(" "),
        ]
        for column in seen:
            line += self._cell(GridCell(number, column))
        return fitted_line(line, self.line_width)

    def action_open(self) -> None:
        if self._rows and self._columns:
            super().action_open()

    def _head(self, seen: range) -> Line:
        before, after = seen.start, len(self._columns) - seen.stop
        more = " ".join([f"‹ {before}"] * bool(before) + [f"{after} ›"] * bool(after))
        line = [Piece(" " + pad(more, self._name_width, right=True) + " ", Ink.FAINT)]
        names = told_apart(tuple(self._columns), self._column_width - 2)
        for column in seen:
            ink = Ink.ACCENT if column == self.cursor.group else Ink.MUTED
            name = names[self._columns[column]]
            line.append(Piece(" " + pad(name, self._column_width - 1), ink))
        return fitted_line(line, self.line_width)

    def _cell(self, spot: GridCell) -> Line:
        rate = self._cells.get(spot)
        here = spot == self.cursor
        edge = Ink.ACCENT if self.has_focus else Ink.MUTED
        left, right = ("[", "]") if here else (" ", " ")
        room = self._column_width - 7  # without both edges, the rate in four cells and a blank
        ink = _ink(rate)
        filled, rest = ("", " " * room)
        if rate is not None:
            filled, rest = bar(rate, room)
        return [
            Piece(left, edge),
            Piece(pad(percent(rate), 4, right=True) + " ", ink),
            Piece(filled, ink),
            Piece("·" * len(rest) if rate is not None else rest, Ink.RULE),
            Piece(right, edge),
        ]

    @property
    def _name_width(self) -> int:
        low, high = NAME_WIDTH
        longest = max((cell_len(r.name) + cell_len(r.mark) + 1 for r in self._rows), default=low)
        spare = self.line_width - 3 - COLUMN[0] * min(len(self._columns), 4)
        return max(min(longest, high, spare), low)

    @property
    def _column_width(self) -> int:
        low, high = COLUMN
        room = self.line_width - self._name_width - 2
        return max(low, min(high, room // max(len(self._columns), 1)))


def _ink(rate: float | None) -> Ink:
    if rate is None:
        return Ink.FAINT
    if rate >= GOOD_FROM:
        return Ink.GOOD
    return Ink.BAD if rate < BAD_BELOW else Ink.WARN


CELL: Final = 3
BETWEEN: Final = 2
TARGET_WIDTH: Final = (8, 26)
ROOM_FOR_WHO: Final = 20
"""A group of this many cells or more also shows who it is about."""


PASSED: Final = "passed"
"""The title of how many passed."""


class Group(NamedTuple):
    """A group of cells, and who they are about, shown if there is room."""

    name: str
    who: str = ""
    passed: str = ""
    """How many of its cells passed."""

    @property
    def whole(self) -> str:
        return f"{self.name} {self.who}".rstrip()


class OutcomeGrid(GridView):
    """Outcomes in groups of cells; a column's number counts the cells of all groups."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(
            lambda: len(self._names),
            self._row,
            self._group_columns,
            foot_rows=1,
            id=id,
        )
        self._names: Sequence[str] = ()
        self._passed: Sequence[str] = ()
        """How many of each row's cells passed."""
        self._groups: Sequence[Group] = ()
        self._cells = 1
        self._glyphs: Mapping[GridCell, Piece] = {}

    def show(
        self,
        names: Sequence[str],
        passed: Sequence[str],
        groups: Sequence[Group],
        cells: int,
        glyphs: Mapping[GridCell, Piece],
    ) -> None:
        """Show rows and groups by name, with how many passed of each: `cells` cells per group, a
        one-cell glyph for each."""
        before = (self._names, self._passed, self._groups, self._cells, self._glyphs)
        if (names, passed, groups, cells, glyphs) == before:
            return
        cursor = self.cursor
        self._names, self._passed, self._groups = names, passed, groups
        self._cells, self._glyphs = cells, glyphs
        self.measure(self.row_count())
        self.put_on(cursor)

    def put_on(self, spot: GridCell) -> None:
        """Put the cursor on the cell, or the nearest that there is."""
        group = max(min(spot.group, len(self._groups) - 1), 0)
        cell = max(min(spot.cell, self._cells - 1), 0)
        self.put(spot.row, group * self._cells + cell)

    def _group_columns(self) -> GridColumns:
        return GridColumns(len(self._groups), self._left, self._group_width, CELL, self._cells)

    def _row(self, index: int) -> Line:
        groups = range(self._first_group, len(self._groups))
        row = index - HEAD_ROWS
        if row < 0:
            heads = [Piece(self._padded(self._head(each)), self._head_ink(each)) for each in groups]
            title = pad(PASSED, self._left - self._name_width - 1)
            line = [Piece(" " * (self._name_width + 1) + title, Ink.MUTED), *heads]
        elif row == len(self._names):
            line = [Piece(" " + pad(PASSED, self._left - 1), Ink.MUTED)]
            passed = [self._padded(" " + self._groups[each].passed) for each in groups]
            line += [Piece(each, Ink.MUTED) for each in passed]
        else:
            line = self._outcomes(row, groups)
        return fitted_line(line, self.line_width)

    def _outcomes(self, row: int, groups: range) -> list[Piece]:
        ink = Ink.STRONG if row == self.cursor.row else Ink.TEXT
        name = pad_apart(self._names[row], self._names, self._name_width - 1)
        passed = pad(self._passed[row], self._left - self._name_width - 1)
        line = [Piece(f" {name} ", ink), Piece(passed, Ink.MUTED)]
        for group in groups:
            for cell in range(self._cells):
                line += self._cell(GridCell(row, group, cell))
            line.append(Piece(" " * (self._group_width - self._cells * CELL)))
        return line

    def _padded(self, text: str) -> str:
        """A text above or below a group."""
        return pad(text, self._group_width - 1) + " "

    @property
    def _left(self) -> int:
        """Where the first group begins."""
        return self._name_width + 1 + max(map(cell_len, (PASSED, *self._passed))) + 1

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
        low, high = TARGET_WIDTH
        longest = max(map(len, self._names), default=low) + 1
        return min(max(longest, low), high, max(self.line_width // 2, low))

    @property
    def _group_width(self) -> int:
        least = self._cells * CELL + BETWEEN
        longest = max((cell_len(group.whole) for group in self._groups), default=0) + BETWEEN
        share = (self.line_width - self._left) // max(len(self._groups), 1)
        return max(least, min(longest, share)) if share >= min(ROOM_FOR_WHO, longest) else least

    def _head(self, group: int) -> str:
        shown = self._groups[group]
        if self._group_width < min(ROOM_FOR_WHO, cell_len(shown.whole) + BETWEEN):
            return shown.name
        room = max(self._group_width - cell_len(shown.name) - BETWEEN, 0)
        who = told_apart(tuple(column.who for column in self._groups), room)[shown.who]
        return f"{shown.name} {who}".rstrip()


_NONE: Final = Piece(UNKNOWN, Ink.FAINT)
