"""The verdicts as they arrive: each row keeps its position, and new rows are added at the end.

The cursor is on a conversation, not on a row number, and never moves by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from rich.cells import cell_len
from textual import events
from textual.message import Message

from engine.benchmark import ConversationKey
from engine.display import one_line, plural
from engine.jury import NotCounted
from engine.store.tables import VerdictRow
from tui.format import TRACK_SIGNS, conversation_id, verdict
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, pad
from tui.text.wrap import Cells, Heading, laid_out
from tui.widgets.table import PAGE, PagedTable

ROOM_FOR_QUOTE: Final = 46
"""In this many cells or more, the quote is shown, and the outcome as a sign only."""
ROOM_FOR_WHY: Final = 60
"""In this many cells or more, the track is shown too, and the outcome as a word. An id, which
begins with its metric's, says enough without."""
ROOM_FOR_TURNS: Final = 90


class VerdictSource(Protocol):
    """The source of the table's rows: a `VerdictFeed`, or a test's own rows."""

    def __len__(self) -> int: ...

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        """At most `count` rows from `start` on; None for a row that no longer has a verdict."""
        ...

    def key(self, index: int) -> ConversationKey: ...

    def why_not(self, key: ConversationKey) -> NotCounted | None:
        """Why a conversation does not count; None if it does."""
        ...


class VerdictTable(PagedTable):
    """A table whose cursor appears when it first has the focus; it is on a conversation."""

    class Opened(Message):
        """A user wants to read this conversation."""

        def __init__(self, key: ConversationKey) -> None:
            super().__init__()
            self.key = key

    def __init__(self, source: VerdictSource, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(self._cells, self._row_line, self._opened, id=id)
        self._source = source
        self._empty = (_NOTHING,)
        self._targets: Sequence[str] = ()
        """The targets of the verdicts, told apart where ids are cut."""

    @property
    def cursor(self) -> ConversationKey | None:
        """The conversation under the cursor; None if there is none."""
        return None if self._item is None else self._source.key(self._item)

    @property
    def rows_below(self) -> int:
        """The number of rows below the visible ones."""
        return max(len(self._rows) - self.top - self.page_height, 0)

    @property
    def _longest_id(self) -> int:
        """The length of the longest id in cells, estimated from the first id and the targets."""
        first = self._source.key(0)
        own = cell_len(one_line(first.target_id))
        most = max([0, *(cell_len(target) - own for target in self._targets)])
        return cell_len(one_line(str(replace(first, sample=1)))) + most

    def tell_apart(self, targets: Sequence[str]) -> None:
        """Set the targets of the verdicts, to be told apart in ids."""
        if targets != self._targets:
            self._targets = targets
            self.redraw()

    def show(self, changed: Sequence[int]) -> None:
        """Show rows added at the end, and fetch those at `changed` again."""
        # rows are their own positions
        self.renew_at(row for row in changed if row < len(self._rows))
        before, count = len(self._rows), len(self._source)
        if count == before:
            return
        # decided by the old rows: a user who saw the old end wants to see the new end
        at_end = self.top + self.page_height >= before
        # a range, as rows are their own numbers: it needs no memory for each
        self._rows = range(count)
        # the page on which the new rows begin was cached without them
        self._pages.discard(before // PAGE)
        self.measure(count)
        self.redraw(min(before, count), max(count, 1))
        if at_end and self._may_follow():
            self.jump(count - self.page_height)

    def replace(self, source: VerdictSource) -> None:
        """Show another source from its first row, without a cursor."""
        self._source, self._rows, self._item = source, (), None
        self.renew_all()
        self.show(())

    def _row_line(self, row: int, cells: Cells) -> Line:
        if not cells:
            waiting = Piece(" " + pad("· waiting", 11), Ink.MUTED)
            return [waiting, Piece(one_line(str(self._source.key(row))), Ink.MUTED)]
        width = self.line_width - 1
        headings = _headings(self.line_width, self._longest_id)
        chosen = [cells[_ORDER.index(heading.name)] for heading in headings]
        place = next(at for at, heading in enumerate(headings) if heading.name == "conversation")
        room = headings[place].width or width - sum(
            heading.width + heading.gap for heading in headings
        )
        name = conversation_id(self._source.key(row), self._targets, room)
        chosen[place] = chosen[place]._replace(text=name)
        return [Piece(" "), *(piece for _, piece in laid_out(headings, chosen, width))]

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(len(self._rows))
        if self._may_follow():
            self.jump(len(self._rows) - self.page_height)

    def on_focus(self) -> None:
        if self._item is None and self._rows:
            self._item = min(self.top + self.page_height, len(self._rows)) - 1
        super().on_focus()

    def _opened(self, item: int) -> Opened:
        return self.Opened(self._source.key(item))

    def move_by(self, step: int) -> None:
        self.move_to(len(self._rows) - 1 if self._item is None else self._item + step)

    def _may_follow(self) -> bool:
        """Whether new rows may scroll the view: the cursor's row must stay visible."""
        return self._item is None or self._item >= len(self._rows) - self.page_height

    def _cells(self, rows: Sequence[int]) -> dict[int, Cells]:
        shown = self._source.page(rows[0], len(rows))
        return {
            place: _cells(row, self._source.why_not(row.key))
            for place, row in zip(rows, shown, strict=False)
            if row
        }


_NOTHING: Final = (Piece("   none yet: they come as conversations end", Ink.FAINT),)
_ORDER: Final = ("sign", "outcome", "track", "conversation", "turns", "because")


_LEAST_QUOTE: Final = 20
"""Cells reserved for the quote and for what precedes the conversation."""


def _headings(width: int, longest_id: int) -> list[Heading]:
    """The columns that fit into `width` cells."""
    if width < ROOM_FOR_WHY:
        if width < ROOM_FOR_QUOTE:
            whole = Heading("conversation", "", 0, gap=0, in_middle=True)
            return [Heading("outcome", "", 10), Heading("track", "", 1), whole]
        name = Heading("conversation", "", min(longest_id, width - _LEAST_QUOTE), in_middle=True)
        return [Heading("sign", "", 1), name, Heading("because", "", 0, gap=0)]
    least = [Heading("outcome", "", 10), Heading("track", "", 1)]
    room = min(max(width - 52, 27), 36, longest_id)
    name = Heading("conversation", "", room, in_middle=True)
    turns = [Heading("turns", "", 9, gap=0)] if width >= ROOM_FOR_TURNS else []
    return [*least, name, *turns, Heading("because", "", 0, gap=0)]


def _cells(row: VerdictRow, why_not: NotCounted | None) -> Cells:
    """The cells of a row for all columns, in the order of `_ORDER`."""
    why = row.justification if row.quote is None else f"“{row.quote}”"
    why = why if row.unscored is None else f"unscored: {row.unscored}"
    why = why if why_not is None else f"does not count, {why_not}: {why}"
    ink = VERDICT_INKS[row.passed] if why_not is None else Ink.FAINT
    outcome = Piece(verdict(row.passed), ink)
    return (
        outcome._replace(text=outcome.text[:1]),
        outcome,
        Piece(TRACK_SIGNS[row.track], Ink.MUTED),
        Piece(one_line(str(row.key))),
        Piece(plural(row.turns, "turn"), Ink.MUTED),
        Piece(one_line(why), Ink.MUTED),
    )
