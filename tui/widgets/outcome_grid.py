"""A grid of outcomes: a row for each target, a group of cells for each variant, a cell a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.ink import Ink, Line, Piece, fitted, pad
from tui.widgets.line_view import LineView
from tui.wording import UNKNOWN

CELL: Final = 3
BETWEEN: Final = 2
NAME_WIDTH: Final = (8, 26)
HEAD_ROWS: Final = 1


@dataclass(frozen=True, slots=True)
class Spot:
    """A cell: its row, its group, and its place in the group."""

    row: int
    group: int
    cell: int


class OutcomeGrid(LineView):
    """Enter or a second click opens the cell under the cursor, which stands in brackets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open"),
        Binding("right,l", "aside(1)", "next sample or variant", show=False),
        Binding("left,h", "aside(-1)", "sample or variant before", show=False),
    ]

    class Opened(Message):
        """A person wants to see more of this cell."""

        def __init__(self, spot: Spot) -> None:
            super().__init__()
            self.spot = spot

    class Moved(Message):
        """The cursor is on another cell."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._names: Sequence[str] = ()
        self._groups: Sequence[str] = ()
        self._cells = 1
        self._glyphs: Mapping[Spot, Piece] = {}
        self._first_group = 0
        self.cursor = Spot(0, 0, 0)

    def show(
        self,
        names: Sequence[str],
        groups: Sequence[str],
        cells: int,
        glyphs: Mapping[Spot, Piece],
    ) -> None:
        """Rows and groups by their names; so many cells in each; a glyph of one cell for each."""
        if (names, groups, cells, glyphs) == (
            self._names,
            self._groups,
            self._cells,
            self._glyphs,
        ):
            return
        self._names, self._groups, self._cells, self._glyphs = names, groups, cells, glyphs
        self.measure(self.row_count())
        self.put(self.cursor)
        self.redraw()

    def put(self, spot: Spot) -> None:
        """Put the cursor on the cell, or the nearest that there is."""
        before = self.cursor
        self.cursor = Spot(
            max(min(spot.row, len(self._names) - 1), 0),
            max(min(spot.group, len(self._groups) - 1), 0),
            max(min(spot.cell, self._cells - 1), 0),
        )
        self._bring_into_view()
        self.redraw()
        if self.cursor != before:
            self.post_message(self.Moved())

    def row_count(self) -> int:
        return len(self._names) + HEAD_ROWS

    def row(self, index: int) -> Line:
        groups = range(self._first_group, len(self._groups))
        if index < HEAD_ROWS:
            heads = [
                Piece(pad(self._groups[group], self._group_width - 1) + " ", self._head_ink(group))
                for group in groups
            ]
            return fitted([Piece(" " * (self._name_width + 1)), *heads], self.line_width)
        row = index - HEAD_ROWS
        ink = Ink.STRONG if row == self.cursor.row else Ink.TEXT
        line = [Piece(" " + pad(self._names[row], self._name_width - 1) + " ", ink)]
        for group in groups:
            for cell in range(self._cells):
                line += self._cell(Spot(row, group, cell))
            line.append(Piece(" " * BETWEEN))
        return fitted(line, self.line_width)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(self.row_count())
        self._bring_into_view()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        row = self.top + event.y - HEAD_ROWS
        group, within = divmod(event.x - self._name_width - 1, self._group_width)
        spot = Spot(row, group + self._first_group, within // CELL)
        if not (0 <= row < len(self._names) and group >= 0 and spot.cell < self._cells):
            return
        if spot == self.cursor and event.chain > 1:
            self.action_open()
        self.put(spot)

    def action_open(self) -> None:
        self.post_message(self.Opened(self.cursor))

    def action_aside(self, step: int) -> None:
        place = self.cursor.group * self._cells + self.cursor.cell + step
        if 0 <= place < len(self._groups) * self._cells:
            group, cell = divmod(place, self._cells)
            self.put(Spot(self.cursor.row, group, cell))

    def action_go_down(self) -> None:
        self._move(1)

    def action_go_up(self) -> None:
        self._move(-1)

    def action_go_page_down(self) -> None:
        self._move(max(self.page_height - 1, 1))

    def action_go_page_up(self) -> None:
        self._move(-max(self.page_height - 1, 1))

    def action_go_home(self) -> None:
        self._move(-len(self._names))

    def action_go_end(self) -> None:
        self._move(len(self._names))

    def _move(self, step: int) -> None:
        self.put(Spot(self.cursor.row + step, self.cursor.group, self.cursor.cell))

    def _cell(self, spot: Spot) -> Line:
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
        return self._cells * CELL + BETWEEN

    def _bring_into_view(self) -> None:
        fit = max((self.line_width - self._name_width - 1) // self._group_width, 1)
        first = max(self.cursor.group - fit + 1, min(self._first_group, self.cursor.group))
        self._first_group = max(min(first, len(self._groups) - fit), 0)
        row = self.cursor.row + HEAD_ROWS
        if row < self.top + HEAD_ROWS:
            self.jump(row - HEAD_ROWS)
        elif row >= self.top + self.page_height:
            self.jump(row - self.page_height + 1)


_NONE: Final = Piece(UNKNOWN, Ink.FAINT)
