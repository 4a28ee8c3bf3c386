"""A list of things, with a cursor that stays with a thing and marks that stay with it too."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.message import Message

from tui.text.ink import Ink, Line, Piece, spread
from tui.widgets.cursor import CursorView


@dataclass(frozen=True, slots=True)
class Entry:
    """One row."""

    key: Hashable
    left: Line
    right: Line = ()
    """At the right end; left out where there is no room."""
    can_mark: bool = False


class Entries(CursorView):
    """Rows by their keys: cursor and marks stay with what they are on."""

    class Opened(Message):
        """A person wants to see more of this."""

        def __init__(self, key: Hashable) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._entries: Sequence[Entry] = ()
        self.marked: set[Hashable] = set()

    @property
    def cursor(self) -> Hashable | None:
        """The key of what it is on; None where there is nothing."""
        return None if self._item is None else self._entries[self._item].key

    def show(self, entries: Sequence[Entry]) -> None:
        """These now. The cursor stays with what it is on, or where that was."""
        if entries == self._entries:
            return
        before, cursor = self._entries, self.cursor
        self._entries = entries
        places = {entry.key: index for index, entry in enumerate(entries)}
        self.marked &= set(places)
        nearest = max(min(self._item or 0, len(entries) - 1), 0) if entries else None
        self._item = nearest if cursor is None else places.get(cursor, nearest)
        if self.cursor != cursor:
            self.post_message(self.Moved(self))
        self.measure(len(entries))
        if len(before) == len(entries):
            for index, (old, new) in enumerate(zip(before, entries, strict=True)):
                if old != new:
                    self.redraw(index, index + 1)
        else:
            self.redraw()

    def go_to(self, key: Hashable) -> bool:
        """Put the cursor on this; whether it is there."""
        place = next((at for at, each in enumerate(self._entries) if each.key == key), None)
        if place is not None:
            self.move_to(place)
        return place is not None

    def row_count(self) -> int:
        return len(self._entries)

    def row(self, index: int) -> Line:
        entry = self._entries[index]
        mark = _MARK if entry.key in self.marked else _NO_MARK
        return spread([mark, *entry.left], entry.right, self.line_width)

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(len(self._entries))

    def toggle_mark(self) -> None:
        """Mark what the cursor is on, or no longer, and go on to the next."""
        if self._item is None:
            return
        entry = self._entries[self._item]
        if entry.can_mark:
            self.marked ^= {entry.key}
            self.redraw_item(self._item)
        self.move_by(1)

    def action_open(self) -> None:
        if self._item is not None:
            self.post_message(self.Opened(self._entries[self._item].key))


_MARK: Final = Piece("●", Ink.ACCENT)
_NO_MARK: Final = Piece(" ")
