"""Lines drawn by a function for the current width, some of which can be opened."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from textual import events
from textual.message import Message

from tui.text.ink import Line
from tui.widgets.cursor import CursorView


class SheetRow(NamedTuple):
    """A line of a sheet, and what it opens."""

    line: Line
    key: Hashable | None = None
    """What the row opens; consecutive rows may share it. None if it opens nothing."""


Drawing = Callable[[int], Sequence[SheetRow]]
"""Draws the rows for a width in cells."""


class Sheet(CursorView):
    """A view whose cursor skips rows that open nothing, and keeps its key when the sheet is
    redrawn."""

    class Opened(Message):
        """A user has opened the rows with this key."""

        def __init__(self, key: Hashable) -> None:
            super().__init__()
            self.key = key

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        fit: bool = False,
    ) -> None:
        """With `fit`, the sheet is as high as its rows."""
        super().__init__(lambda: len(self._rows), self._row, self._opened, id=id)
        self._fit = fit
        self._drawing: Drawing = _no_rows
        self._rows: Sequence[SheetRow] = ()
        self._keys: Sequence[Hashable] = ()
        self._spans: Sequence[range] = ()
        """The rows of each key, in the order of `_keys`."""

    @property
    def cursor(self) -> Hashable | None:
        """The key under the cursor; None if no row can be opened."""
        return None if self._item is None else self._keys[self._item]

    def show(self, drawing: Drawing, *, from_top: bool = False) -> None:
        """Show what `drawing` draws, now and after each change of width."""
        self._drawing = drawing
        if from_top:
            self._item = None
            self.jump(0)
        self._lay()

    def item_count(self) -> int:
        return len(self._keys)

    def item_rows(self, item: int) -> range:
        return self._spans[item]

    def item_at(self, row: int, column: int) -> int | None:
        del column
        key = self._rows[row].key if 0 <= row < len(self._rows) else None
        return None if key is None else self._keys.index(key)

    def _row(self, index: int) -> Line:
        return self._rows[index].line

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._lay()

    def _opened(self, item: int) -> Opened:
        return self.Opened(self._keys[item])

    def move_by(self, step: int) -> None:
        """Move by `step` keys; beyond the first or last key, scroll instead."""
        item = -1 if self._item is None else self._item + step
        if 0 <= item < len(self._keys):
            self.move_to(item)
        else:
            self.jump(self.top + step)

    def action_go_page_down(self) -> None:
        self._turn_page(1)

    def action_go_page_up(self) -> None:
        self._turn_page(-1)

    def action_go_home(self) -> None:
        super().action_go_home()
        self.jump(0)

    def action_go_end(self) -> None:
        super().action_go_end()
        self.jump(self.row_count())

    def _lay(self) -> None:
        # a hidden section has no width yet; it is drawn when it is shown
        if not self.display:
            return
        rows = self._drawing(self.line_width)
        if rows == self._rows:
            return
        cursor, self._rows = self.cursor, rows
        spans = _spans(rows)
        self._keys, self._spans = list(spans), list(spans.values())
        self._item = self._keys.index(cursor) if cursor in spans else 0 if spans else None
        if self.cursor != cursor:
            self.post_message(self.Moved(self))
        self.measure(len(rows))
        if self._fit:
            self.styles.height = max(len(rows), 1)
        self.redraw()

    def _turn_page(self, direction: int) -> None:
        """Scroll by a page, and move the cursor to the first key that is wholly visible."""
        self.jump(self.top + direction * self.page_step)
        seen = [
            item
            for item, rows in enumerate(self._spans)
            if self.top <= rows.start and rows.stop <= self.top + self.page_height
        ]
        if seen and self._item not in seen:
            self.move_to(seen[0])


def _spans(rows: Sequence[SheetRow]) -> dict[Hashable, range]:
    spans: dict[Hashable, range] = {}
    for index, row in enumerate(rows):
        if row.key is not None:
            first = spans[row.key].start if row.key in spans else index
            spans[row.key] = range(first, index + 1)
    return spans


def _no_rows(width: int) -> Sequence[SheetRow]:
    del width
    return ()
