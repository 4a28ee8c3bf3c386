"""Views with a cursor. Keys and clicks move it; Enter or a second click opens its item."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.text.ink import Ink
from tui.widgets.base import LineView


class CursorView(LineView):
    """A view of items below one another, each on one row or several consecutive rows.

    A subclass defines the number of items, the rows of each, and what opening one does. An item may
    be a row of a table or a row of a grid."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    class Moved(Message):
        """The cursor has moved to another item."""

        def __init__(self, view: CursorView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._item: int | None = None

    def hint(self, action: str) -> str | None:
        """The hint of a key; see `Hinting`."""
        return "" if action == "open" and self._item is None else None

    @property
    def item(self) -> int | None:
        """The number of the item under the cursor, from 0; None if there is none."""
        return self._item

    def item_count(self) -> int:
        """The number of items; by default, of rows."""
        return self.row_count()

    def item_rows(self, item: int) -> range:
        """The rows that an item takes."""
        return range(item, item + 1)

    def item_at(self, row: int, column: int) -> int | None:
        """The item at this row of the view and column of the screen; None if there is none."""
        del column
        return row if 0 <= row < self.item_count() else None

    def action_open(self) -> None:
        """Open the item under the cursor, on Enter or a second click."""
        raise NotImplementedError

    def row_back(self, index: int) -> Ink | None:
        if self._item is None or index not in self.item_rows(self._item):
            return None
        return Ink.CURSOR if self.has_focus else Ink.CURSOR_IDLE

    def move_to(self, item: int) -> None:
        """Put the cursor on an item; a number out of range is clamped to the first or last item."""
        if not self.item_count():
            return
        before, after = self._item, max(min(item, self.item_count() - 1), 0)
        # only the two rows: over a slow line, moving the cursor then sends two rows, not a screen
        self.redraw_item(before)
        self._item = after
        self.redraw_item(after)
        self.bring_into_view(after)
        if after != before:
            self.post_message(self.Moved(self))

    def move_by(self, step: int) -> None:
        self.move_to((self._item or 0) + step)

    def bring_into_view(self, item: int) -> None:
        """Scroll by as little as shows the whole item; to the first one with what stands above it,
        if both fit."""
        rows = self.item_rows(item)
        if item == 0 and rows.stop <= self.page_height:
            self.jump(0)
        elif rows.start < self.top:
            self.jump(rows.start)
        elif rows.stop > self.top + self.page_height:
            self.jump(rows.stop - self.page_height)

    def redraw_item(self, item: int | None) -> None:
        """Redraw the rows of an item; nothing if it is None."""
        if item is not None:
            rows = self.item_rows(item)
            self.redraw(rows.start, rows.stop)

    def on_focus(self) -> None:
        # the cursor is paler in a view without the focus
        self.redraw_item(self._item)

    def on_blur(self) -> None:
        self.redraw_item(self._item)

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(self.top + event.y, event.x)
        if item is None:
            return
        # the first click put the cursor there, so the second opens the item
        if event.chain > 1 and item == self._item:
            self.action_open()
        self.move_to(item)

    def action_go_home(self) -> None:
        self.move_to(0)

    def action_go_end(self) -> None:
        self.move_to(self.item_count() - 1)


HEAD_ROWS: Final = 1


class GridView(CursorView):
    """A grid whose items are rows; a subclass defines the columns and which of them fit."""

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
        """Scroll the columns until the cursor's is visible."""
        raise NotImplementedError

    def column_at(self, x: int) -> int | None:
        """The column of cells at column `x` of the screen; None if there is none."""
        raise NotImplementedError

    def row_count(self) -> int:
        return self.item_count() + HEAD_ROWS

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
        self._column = max(min(column, self.column_count() - 1), 0)
        self.bring_column_into_view()
        self.bring_into_view(self._item)
        self.redraw()
        if (self._item, self._column) != before:
            self.post_message(self.Moved(self))

    def move_to(self, item: int) -> None:
        self.put(item, self._column)

    def action_aside(self, step: int) -> None:
        if 0 <= self._column + step < self.column_count():
            self.put(self._item or 0, self._column + step)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(self.row_count())
        self.bring_column_into_view()
        self.bring_into_view(self._item or 0)

    def on_click(self, event: events.Click) -> None:
        row, column = self.top + event.y - HEAD_ROWS, self.column_at(event.x)
        if column is None or not 0 <= row < self.item_count():
            return
        if event.chain > 1 and (row, column) == (self._item, self._column):
            self.action_open()
        self.put(row, column)
