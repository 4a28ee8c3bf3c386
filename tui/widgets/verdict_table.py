"""The table of verdicts: any number of rows, of which only those on the screen exist.

A row keeps its place for good; new ones come at the end. The cursor is on a conversation, not on a
row number, and never moves by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from textual import events
from textual.cache import LRUCache
from textual.message import Message

from engine.benchmark import ConversationKey
from engine.display import one_line, plural
from engine.store.records import VerdictRow
from tui.format import TRACK_SIGNS, verdict
from tui.text.ink import Ink, Line, Piece, fitted, pad
from tui.widgets.cursor import CursorView

PAGE: Final = 64
PAGES_KEPT: Final = 16


class Rows(Protocol):
    """Where the table gets its rows from."""

    def __len__(self) -> int: ...

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        """Rows from `start` on, at most `count`; None where a row has no verdict any more."""
        ...

    def key(self, index: int) -> ConversationKey: ...


class VerdictTable(CursorView):
    """The cursor is nowhere until a person comes to the table; then on a conversation."""

    class Opened(Message):
        """A person wants to read this conversation."""

        def __init__(self, key: ConversationKey) -> None:
            super().__init__()
            self.key = key

    def __init__(self, rows: Rows, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._rows = rows
        self._count = 0
        self._pages: LRUCache[int, Sequence[VerdictRow | None]] = LRUCache(PAGES_KEPT)

    @property
    def cursor(self) -> ConversationKey | None:
        return None if self._item is None else self._rows.key(self._item)

    @property
    def rows_below(self) -> int:
        """How many rows lie below what is seen."""
        return max(self._count - self.top - self.page_height, 0)

    def row_count(self) -> int:
        return max(self._count, 1)

    def item_count(self) -> int:
        return self._count

    def show(self, changed: Sequence[int]) -> None:
        """Rows may have been added at the end, and those at `changed` are not what they were."""
        for index in changed:
            self._pages.discard(index // PAGE)
            self.redraw(index, index + 1)
        before, self._count = self._count, len(self._rows)
        if self._count == before:
            return
        at_end = self.top + self.page_height >= before
        self._pages.discard(before // PAGE)
        self.measure(self._count)
        self.redraw(min(before, self._count), max(self._count, 1))
        if at_end and self._may_follow():
            self.jump(self._count - self.page_height)

    def replace(self, rows: Rows) -> None:
        """Show the rows of something else."""
        self._rows, self._count, self._item = rows, 0, None
        self._pages.clear()
        self.redraw()
        self.show(())

    def row(self, index: int) -> Line:
        if not self._count:
            return fitted(_NOTHING, self.line_width)
        page, offset = divmod(index, PAGE)
        rows = self._pages.get(page)
        if rows is None:
            rows = self._rows.page(page * PAGE, PAGE)
            self._pages[page] = rows
        row = rows[offset] if offset < len(rows) else None
        return _line(row, self.line_width) if row else _without(self._rows.key(index))

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(self._count)
        if self._may_follow():
            self.jump(self._count - self.page_height)

    def on_focus(self) -> None:
        if self._item is None and self._count:
            self._item = min(self.top + self.page_height, self._count) - 1
        super().on_focus()

    def action_open(self) -> None:
        if self._item is not None:
            self.post_message(self.Opened(self._rows.key(self._item)))

    def move_by(self, step: int) -> None:
        self.move_to(self._count - 1 if self._item is None else self._item + step)

    def _may_follow(self) -> bool:
        """New rows may push old ones up, but not the one under the cursor out of sight."""
        return self._item is None or self._item >= self._count - self.page_height


_NOTHING: Final = (Piece("   none yet: they come as conversations end", Ink.FAINT),)
_INKS: Final = {True: Ink.GOOD, False: Ink.BAD, None: Ink.WARN}


def _without(key: ConversationKey) -> Line:
    return [Piece(" " + pad("· waiting", 11), Ink.MUTED), Piece(one_line(str(key)), Ink.MUTED)]


def _line(row: VerdictRow, width: int) -> Line:
    """As many columns as there is room for."""
    name = one_line(str(row.key))
    line = [Piece(" " + pad(verdict(row.passed), 11), _INKS[row.passed])]
    if width < 60:
        return fitted([*line, Piece(f"{TRACK_SIGNS[row.track]} ", Ink.MUTED), Piece(name)], width)
    line += [
        Piece(pad(f"{TRACK_SIGNS[row.track]} {one_line(row.metric_id)}", 7), Ink.MUTED),
        Piece(pad(name, min(max(width - 64, 27), 36)) + " "),
    ]
    if width >= 72:
        line.append(Piece(pad(plural(row.turns, "turn"), 9), Ink.MUTED))
    why = row.justification if row.unscored is None else f"unscored: {row.unscored}"
    return fitted([*line, Piece(one_line(why), Ink.MUTED)], width)
