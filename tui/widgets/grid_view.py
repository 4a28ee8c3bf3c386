"""A grid below a heading, with a cursor that moves over its cells."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType

from tui.widgets.cursor_view import CursorView
from tui.widgets.ink import Ink

HEAD_ROWS: Final = 1


class GridView(CursorView):
    """Its items are rows; a subclass says how many columns there are and which of them fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "aside(1)", "next cell", show=False),
        Binding("left,h", "aside(-1)", "cell before", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._column = 0

    def column_count(self) -> int:
        raise NotImplementedError

    def bring_column_into_view(self) -> None:
        """Move the columns sideways until the cursor's is seen."""
        raise NotImplementedError

    def column_at(self, x: int) -> int | None:
        """The column of cells at this column of the screen; None where there is none."""
        raise NotImplementedError

    def item_rows(self, item: int) -> range:
        return range(item + HEAD_ROWS, item + HEAD_ROWS + 1)

    def row_back(self, index: int) -> Ink | None:
        """The cursor's cell stands in brackets, so its row needs no ground of its own."""
        del index
        return None

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the cell, or the nearest that there is."""
        before = (self._item, self._column)
        self._item = max(min(row, self.item_count() - 1), 0)
        self._column = max(min(column, self.column_count() - 1), 0)
        self.bring_column_into_view()
        self.bring_into_view(self._item)
        self.redraw()
        if (self._item, self._column) != before:
            self.post_message(self.Moved(self))

    def move_to(self, item: int) -> None:
        self.put(item, self._column)

    def bring_into_view(self, item: int) -> None:
        """With the heading above the first row."""
        if item == 0:
            self.jump(0)
        else:
            super().bring_into_view(item)

    def action_aside(self, step: int) -> None:
        if 0 <= self._column + step < self.column_count():
            self.put(self._item or 0, self._column + step)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(self.row_count())
        self.bring_column_into_view()
        self.bring_into_view(self._item or 0)

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        row, column = self.top + event.y - HEAD_ROWS, self.column_at(event.x)
        if column is None or not 0 <= row < self.item_count():
            return
        if event.chain > 1 and (row, column) == (self._item, self._column):
            self.action_open()
        self.put(row, column)
