"""A rate for each metric and target: a number and a bar in every cell, so that colour is extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from textual.message import Message

from tui.format import bar
from tui.text.ink import Ink, Line, Piece, fitted, pad, told_apart
from tui.widgets.cursor import HEAD_ROWS, GridView

COLUMN: Final = (11, 18)
NAME_WIDTH: Final = (16, 60)
GOOD_FROM: Final = 0.75
BAD_BELOW: Final = 0.4


class HeatCell(NamedTuple):
    """By the numbers of its metric and its target, from 0."""

    row: int
    column: int


class HeatRow(NamedTuple):
    """A metric; its mark says something of it that is not in its cells."""

    name: str
    mark: str = ""


class Heat(NamedTuple):
    """A rate, and how it is said; None where there is none."""

    rate: float | None
    said: str


class HeatMap(GridView):
    """A row for each metric, a column for each target."""

    class Opened(Message):
        """A person wants to see what lies behind this cell."""

        def __init__(self, spot: HeatCell) -> None:
            super().__init__()
            self.spot = spot

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._rows: Sequence[HeatRow] = ()
        self._columns: Sequence[str] = ()
        self._cells: Mapping[HeatCell, Heat] = {}
        self._first = 0
        """The first column that is seen."""

    @property
    def cursor(self) -> HeatCell:
        return HeatCell(self._item or 0, self._column)

    def show(
        self, rows: Sequence[HeatRow], columns: Sequence[str], cells: Mapping[HeatCell, Heat]
    ) -> None:
        if (rows, columns, cells) == (self._rows, self._columns, self._cells):
            return
        self._rows, self._columns, self._cells = rows, columns, cells
        self.measure(self.row_count())
        self.put(*self.cursor)

    def row_count(self) -> int:
        return self.item_count() + HEAD_ROWS

    def item_count(self) -> int:
        return len(self._rows)

    def column_count(self) -> int:
        return len(self._columns)

    def column_at(self, x: int) -> int | None:
        cells = x - self._name_width - 2
        column = cells // self._column_width + self._first
        return column if cells >= 0 and column < len(self._columns) else None

    def row(self, index: int) -> Line:
        seen = range(self._first, min(self._first + self._fit, len(self._columns)))
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
            line += self._cell(HeatCell(number, column))
        return fitted(line, self.line_width)

    def action_open(self) -> None:
        if self._rows and self._columns:
            self.post_message(self.Opened(self.cursor))

    def _head(self, seen: range) -> Line:
        before, after = seen.start, len(self._columns) - seen.stop
        more = " ".join([f"‹ {before}"] * bool(before) + [f"{after} ›"] * bool(after))
        line = [Piece(" " + pad(more, self._name_width, right=True) + " ", Ink.FAINT)]
        names = told_apart(tuple(self._columns), self._column_width - 2)
        for column in seen:
            ink = Ink.ACCENT if column == self.cursor.column else Ink.MUTED
            name = names[self._columns[column]]
            line.append(Piece(" " + pad(name, self._column_width - 1), ink))
        return fitted(line, self.line_width)

    def _cell(self, spot: HeatCell) -> Line:
        heat = self._cells.get(spot, _NOTHING)
        here = spot == self.cursor
        edge = Ink.ACCENT if self.has_focus else Ink.MUTED
        left, right = ("[", "]") if here else (" ", " ")
        room = self._column_width - 7
        ink = _ink(heat.rate)
        filled, rest = ("", " " * room)
        if heat.rate is not None:
            filled, rest = bar(heat.rate, room)
        return [
            Piece(left, edge),
            Piece(pad(heat.said, 4, right=True) + " ", ink if heat.rate is not None else Ink.FAINT),
            Piece(filled, ink),
            Piece("·" * len(rest) if heat.rate is not None else rest, Ink.RULE),
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

    @property
    def _fit(self) -> int:
        return max((self.line_width - self._name_width - 2) // self._column_width, 1)

    def bring_column_into_view(self) -> None:
        first = max(self._column - self._fit + 1, min(self._first, self._column))
        self._first = max(min(first, len(self._columns) - self._fit), 0)


def _ink(rate: float | None) -> Ink:
    if rate is None:
        return Ink.FAINT
    if rate >= GOOD_FROM:
        return Ink.GOOD
    return Ink.BAD if rate < BAD_BELOW else Ink.WARN


_NOTHING: Final = Heat(None, "—")
