"""Plain lines: a list, a list to choose from, a line with a left and a right end, a strip of
section names, a list of entries with a cursor and marks, and lines of which some can be opened."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tui.text.ink import Ink, Line, Piece, fitted_line, length, spread_line
from tui.widgets.base import CursorView, LineView, OneRow


class Lines(LineView):
    """A list of lines, by default as high as their number."""

    def __init__(
        self,
        lines: Sequence[Line] = (),
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        high: bool = False,
    ) -> None:
        """With `high`, the height does not follow from the number of lines."""
        super().__init__(lambda: len(self._lines), self._row, id=id)
        self._lines = lines
        self._high = high

    def on_mount(self) -> None:
        self.lay_out()

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines."""
        if lines != self._lines:
            self._lines = lines
            self.lay_out()
            self.redraw()

    def lay_out(self) -> None:
        super().lay_out()
        if not self._high:
            self.styles.height = len(self._lines)

    def _row(self, index: int) -> Line:
        return fitted_line(self._lines[index], self.line_width)


class ChoiceList(Lines, CursorView):
    """As many lines as it is high, with a cursor. Enter or a click chooses one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "choose")]

    def __init__(self, lines: Sequence[Line], *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lines, id=id)
        self._item = 0

    @property
    def cursor(self) -> int:
        return self._item or 0

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines, and put the cursor on the first."""
        super().show(lines)
        self.move_to(0)

    def row_back(self, index: int) -> Ink | None:
        """The cursor's ink as if focused: the dialog's input line may hold the focus meanwhile."""
        return Ink.CURSOR if index == self._item else None

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(self.top + event.y, event.x)
        if item is not None:
            self.move_to(item)
            self.action_open()


class OneLine(OneRow):
    """One line with two ends. The left end is cut first, as long as it stays meaningful."""

    def __init__(self, *, id: str | None = None, fill: bool = False) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(self._line, id=id)
        self._left: Line = ()
        self._right: Line = ()
        self._fill = fill
        """Whether a thin line joins the two ends; the right end is then left out first."""

    def show(self, left: Line, right: Line = ()) -> None:
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.redraw()

    def show_if_any(self, left: Line, right: Line = ()) -> None:
        """Show a line, or take no room where its left end is empty."""
        # a class: styles set directly would override the layout of a tiny terminal
        self.set_class(not left, "-nothing")
        self.show(left, right)

    def _line(self) -> Line:
        if not self._fill:
            return spread_line(self._left, self._right, self.line_width)
        left = [*self._left, Piece(" ")]
        right = [Piece(" "), *self._right, Piece(" ")] if self._right else []
        if length(left) + length(right) >= self.line_width:
            right = []
        return spread_line(left, right, self.line_width, Piece("─", Ink.RULE))


class Blank(Widget):
    """An empty row or column between two widgets."""

    BLANK = True


class Titles(OneRow):
    """A line of titles, of columns or of sections. A click on one tells its name."""

    class Clicked(Message):
        """A user has clicked on the title with this name."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: [piece for _, piece in self._titles], id=id)
        self._titles: Sequence[tuple[str, Piece]] = ()

    def show(self, titles: Sequence[tuple[str, Piece]]) -> None:
        """Show these pieces with their names; one without a name is no title."""
        if titles != self._titles:
            self._titles = titles
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        end = 0
        for name, piece in self._titles:
            end += cell_len(piece.text)
            if event.x < end:
                if name:
                    self.post_message(self.Clicked(name))
                return


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of `Entries`."""

    key: Hashable
    left: Line
    right: Line = ()
    """Shown at the right end; left out if there is no room."""
    can_mark: bool = False


class Entries(CursorView):
    """Rows identified by keys: the cursor and the marks follow a key when rows move."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: len(self._entries), self._row, id=id)
        self._entries: Sequence[Entry] = ()
        self.marked: set[Hashable] = set()

    @property
    def cursor(self) -> Hashable | None:
        """The key of the entry under the cursor; None if there are no entries."""
        return None if self._item is None else self._entries[self._item].key

    def show(self, entries: Sequence[Entry]) -> None:
        """Replace the entries. The cursor stays on its entry, or if that is gone, in its place."""
        if entries == self._entries:
            return
        before, cursor = self._entries, self.cursor
        self._entries = entries
        places = {entry.key: index for index, entry in enumerate(entries)}
        nearest = max(min(self._item or 0, len(entries) - 1), 0) if entries else None
        self._item = nearest if cursor is None else places.get(cursor, nearest)
        if self.cursor != cursor:
            self.post_message(self.Moved(self))
        self.measure(len(entries))
        if len(before) == len(entries):
            for index, (old, new) in enumerate(zip(before, entries, strict=True)):
                # row by row: a change in one place sends one row to the terminal
                if old != new:
                    self.redraw(index, index + 1)
        else:
            self.redraw()

    def go_to(self, key: Hashable) -> bool:
        """Put the cursor on the entry with this key. Returns whether there is one."""
        place = next((at for at, entry in enumerate(self._entries) if entry.key == key), None)
        if place is not None:
            self.move_to(place)
        return place is not None

    def _row(self, index: int) -> Line:
        entry = self._entries[index]
        mark = _MARK if entry.key in self.marked else _NO_MARK
        return spread_line([mark, *entry.left], entry.right, self.line_width)

    def toggle_mark(self) -> None:
        """Mark or unmark the entry under the cursor, and move to the next."""
        if self._item is None:
            return
        entry = self._entries[self._item]
        if entry.can_mark:
            self.marked ^= {entry.key}
            self.redraw_item(self._item)
        self.move_by(1)


_MARK: Final = Piece("●", Ink.ACCENT)
_NO_MARK: Final = Piece(" ")


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

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        fit: bool = False,
    ) -> None:
        """With `fit`, the sheet is as high as its rows."""
        super().__init__(lambda: len(self._rows), self._row, id=id)
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
        self.lay_out()

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

    def lay_out(self) -> None:
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
