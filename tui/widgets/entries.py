"""A list of things, with a cursor that stays with a thing and marks that stay with it too."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.ink import Ink, Line, Piece, spread
from tui.widgets.line_view import LineView


@dataclass(frozen=True, slots=True)
class Entry:
    """One row."""

    key: Hashable
    left: Line
    right: Line = ()
    """At the right end; left out where there is no room."""
    can_mark: bool = False


class Entries(LineView):
    """Enter or a second click opens what the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    class Opened(Message):
        """A person wants to see more of this."""

        def __init__(self, key: Hashable) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on something else."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._entries: Sequence[Entry] = ()
        self._places: dict[Hashable, int] = {}
        self._cursor: Hashable | None = None
        self.marked: set[Hashable] = set()

    @property
    def cursor(self) -> Hashable | None:
        """The key of what it is on; None where there is nothing."""
        return self._cursor

    def show(self, entries: Sequence[Entry]) -> None:
        """These now. The cursor stays with what it is on, or where that was."""
        if entries == self._entries:
            return
        place = self._places.get(self._cursor, 0) if self._cursor is not None else 0
        before = self._entries
        self._entries = entries
        self._places = {entry.key: index for index, entry in enumerate(entries)}
        self.marked &= set(self._places)
        if self._cursor not in self._places:
            place = max(min(place, len(entries) - 1), 0)
            self._cursor = entries[place].key if entries else None
            self.post_message(self.Moved())
        self.measure(len(entries))
        if len(before) == len(entries):
            for index, (old, new) in enumerate(zip(before, entries, strict=True)):
                if old != new:
                    self.redraw(index, index + 1)
        else:
            self.redraw()

    def row_count(self) -> int:
        return len(self._entries)

    def row(self, index: int) -> Line:
        entry = self._entries[index]
        mark = _MARK if entry.key in self.marked else _NO_MARK
        return spread([mark, *entry.left], entry.right, self.line_width)

    def row_back(self, index: int) -> Ink | None:
        if self._entries[index].key != self._cursor:
            return None
        return Ink.CURSOR if self.has_focus else Ink.CURSOR_IDLE

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(len(self._entries))

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        index = self.top + event.y
        if 0 <= index < len(self._entries):
            if event.chain > 1 and self._entries[index].key == self._cursor:
                self.action_open()
            self._put(index)

    def toggle_mark(self) -> None:
        """Mark what the cursor is on, or no longer, and go on to the next."""
        index = self._index
        if index is None:
            return
        entry = self._entries[index]
        if entry.can_mark:
            self.marked ^= {entry.key}
            self.redraw(index, index + 1)
        self._put(index + 1)

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self._cursor))

    def action_go_down(self) -> None:
        self._move(1)

    def action_go_up(self) -> None:
        self._move(-1)

    def action_go_page_down(self) -> None:
        self._move(max(self.page_height - 1, 1))

    def action_go_page_up(self) -> None:
        self._move(-max(self.page_height - 1, 1))

    def action_go_home(self) -> None:
        self._put(0)

    def action_go_end(self) -> None:
        self._put(len(self._entries) - 1)

    @property
    def _index(self) -> int | None:
        return None if self._cursor is None else self._places.get(self._cursor)

    def _move(self, step: int) -> None:
        self._put((self._index or 0) + step)

    def _put(self, index: int) -> None:
        if not self._entries:
            return
        index = max(min(index, len(self._entries) - 1), 0)
        before = self._index
        self._cursor = self._entries[index].key
        for changed in {before, index} - {None}:
            if changed is not None:
                self.redraw(changed, changed + 1)
        if index < self.top:
            self.jump(index)
        elif index >= self.top + self.page_height:
            self.jump(index - self.page_height + 1)
        if index != before:
            self.post_message(self.Moved())


_MARK: Final = Piece("●", Ink.ACCENT)
_NO_MARK: Final = Piece(" ")
