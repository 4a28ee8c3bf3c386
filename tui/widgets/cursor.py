"""Views with a cursor. Keys and clicks move it; Enter or a second click opens its item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.bindings import Hinting
from tui.text.ink import Ink, Line
from tui.widgets.base import LineView


class CursorView(LineView, Hinting):
    """A view of items below one another, each on one row or several consecutive rows.

    An item may be a row of a table or a row of a grid; by default, each row is one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    class Moved(Message):
        """The cursor has moved to another item."""

        def __init__(self, view: CursorView) -> None:
            super().__init__()
            self.view = view

    def __init__(
        self,
        row_count: Callable[[], int],
        row: Callable[[int], Line],
        opened: Callable[[int], Message],
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`opened` makes the message that tells that an item, by its number, was opened."""
        super().__init__(row_count, row, id=id)
        self._opened_message = opened
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
        """Tell that the item under the cursor was opened, on Enter or a second click."""
        if self._item is not None:
            self.post_message(self._opened_message(self._item))

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
        opened: Callable[[int], Message],
        columns: Callable[[], GridColumns],
        *,
        foot_rows: int = 0,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`columns` lays them out for the current width; `foot_rows` are below the items."""
        around = HEAD_ROWS + foot_rows
        super().__init__(lambda: item_count() + around, row, opened, id=id)
        self._around = around
        """The rows that are not items."""
        self._layout = columns
        self._column = 0
        self._first_group = 0
        """The first visible group of columns."""

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

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(self.row_count())
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
