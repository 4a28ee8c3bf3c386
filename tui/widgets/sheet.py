"""Lines that a function draws for the width there is, some of which lead to something."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.ink import Ink, Line
from tui.widgets.line_view import LineView


class Row(NamedTuple):
    line: Line
    key: Hashable | None = None
    """What it leads to; rows of one thing stand together and share it. None where it leads
    nowhere."""


Drawing = Callable[[int], Sequence[Row]]
"""From a width in cells to rows."""


class Sheet(LineView):
    """Enter or a second click opens what the cursor is on. The cursor passes over what leads
    nowhere, and stays with a thing when the sheet is drawn anew."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    class Opened(Message):
        """A person wants to see what lies behind this."""

        def __init__(self, key: Hashable) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on something else."""

        def __init__(self, sheet: Sheet) -> None:
            super().__init__()
            self.sheet = sheet

    def __init__(
        self,
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        fit: bool = False,
    ) -> None:
        """`fit` is a sheet as high as its rows."""
        super().__init__(id=id)
        self._fit = fit
        self._drawing: Drawing = _nothing
        self._rows: Sequence[Row] = ()
        self._places: dict[Hashable, tuple[int, int]] = {}
        """Of each thing its first row, and the one behind its last."""
        self._cursor: Hashable | None = None

    @property
    def cursor(self) -> Hashable | None:
        """The key of what it is on; None where nothing leads anywhere."""
        return self._cursor

    def show(self, drawing: Drawing, *, from_top: bool = False) -> None:
        """What this draws, now and in any other width."""
        self._drawing = drawing
        if from_top:
            self._cursor = None
            self.jump(0)
        self._lay()

    def row_count(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Line:
        return self._rows[index].line

    def row_back(self, index: int) -> Ink | None:
        key = self._rows[index].key
        if key is None or key != self._cursor:
            return None
        return Ink.CURSOR if self.has_focus else Ink.CURSOR_IDLE

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._lay()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        index = self.top + event.y
        key = self._rows[index].key if 0 <= index < len(self._rows) else None
        if key is None:
            return
        if event.chain > 1 and key == self._cursor:
            self.action_open()
        self._put(key)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self._cursor))

    def action_go_down(self) -> None:
        self._step(1)

    def action_go_up(self) -> None:
        self._step(-1)

    def action_go_page_down(self) -> None:
        super().action_go_page_down()
        self._bring_cursor()

    def action_go_page_up(self) -> None:
        super().action_go_page_up()
        self._bring_cursor()

    def action_go_home(self) -> None:
        if self._places:
            self._put(next(iter(self._places)))
        super().action_go_home()

    def action_go_end(self) -> None:
        if self._places:
            self._put(next(reversed(self._places)))
        super().action_go_end()

    def _lay(self) -> None:
        if not self.display:
            return
        rows = self._drawing(self.line_width)
        if rows == self._rows:
            return
        self._rows = rows
        self._places = _places(rows)
        if self._cursor not in self._places:
            self._cursor = next(iter(self._places), None)
            self.post_message(self.Moved(self))
        self.measure(len(rows))
        if self._fit:
            self.styles.height = max(len(rows), 1)
        self.redraw()

    def _step(self, by: int) -> None:
        """To the next thing; where there is none, on to what stands beyond the last."""
        keys = list(self._places)
        place = keys.index(self._cursor) + by if self._cursor in self._places else -1
        if 0 <= place < len(keys):
            self._put(keys[place])
        else:
            self.jump(self.top + by)

    def _put(self, key: Hashable) -> None:
        before = self._cursor
        self._cursor = key
        for changed in (before, key):
            if changed in self._places:
                self.redraw(*self._places[changed])
        first, last = self._places[key]
        if key == next(iter(self._places)):
            first = 0 if last <= self.page_height else first
        if first < self.top:
            self.jump(first)
        elif last > self.top + self.page_height:
            self.jump(last - self.page_height)
        if key != before:
            self.post_message(self.Moved(self))

    def _bring_cursor(self) -> None:
        """To something that is seen, after a leap."""
        seen = [
            key
            for key, (first, last) in self._places.items()
            if self.top <= first and last <= self.top + self.page_height
        ]
        if seen and self._cursor not in seen:
            self._put(seen[0])


def _places(rows: Sequence[Row]) -> dict[Hashable, tuple[int, int]]:
    places: dict[Hashable, tuple[int, int]] = {}
    for index, row in enumerate(rows):
        if row.key is not None:
            first, _ = places.get(row.key, (index, index))
            places[row.key] = (first, index + 1)
    return places


def _nothing(width: int) -> Sequence[Row]:
    del width
    return ()
