"""The verdicts as they come: a row keeps its place for good, and new ones come at the end.

The cursor is on a conversation, not on a row number, and never moves by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from rich.cells import cell_len
from textual import events
from textual.message import Message

from engine.benchmark import ConversationKey
from engine.display import one_line, plural
from engine.store.records import VerdictRow
from tui.format import TRACK_SIGNS, conversation_id, verdict
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, pad
from tui.text.wrap import Cells, Heading, laid_out
from tui.widgets.table import PAGE, PagedTable

ROOM_FOR_QUOTE: Final = 46
"""Cells from which on the quote stands beside the conversation, the outcome being but its sign."""
ROOM_FOR_WHY: Final = 60
"""Cells from which on the track stands there, too, and the outcome as a word. An id begins with
its metric's."""
ROOM_FOR_TURNS: Final = 90


class VerdictSource(Protocol):
    """Where the table gets its rows from: a `VerdictFeed`, or as many as a test makes up."""

    def __len__(self) -> int: ...

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        """Rows from `start` on, at most `count`; None where a row has no verdict any more."""
        ...

    def key(self, index: int) -> ConversationKey: ...


class VerdictTable(PagedTable):
    """The cursor is nowhere until a person comes to the table; then on a conversation."""

    class Opened(Message):
        """A person wants to read this conversation."""

        def __init__(self, key: ConversationKey) -> None:
            super().__init__()
            self.key = key

    def __init__(self, source: VerdictSource, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(self._cells, id=id)
        self._source = source
        self._empty = _NOTHING
        self._targets: Sequence[str] = ()
        """Those that the verdicts are on, told apart where ids are cut."""

    @property
    def cursor(self) -> ConversationKey | None:
        """The conversation that it is on."""
        return None if self._item is None else self._source.key(self._item)

    @property
    def rows_below(self) -> int:
        """How many rows lie below what is seen."""
        return max(len(self._rows) - self.top - self.page_height, 0)

    def place_of(self, row: int) -> int | None:
        return row if row < len(self._rows) else None

    @property
    def _longest_id(self) -> int:
        """In cells, as far as can be told from the first one and the targets."""
        first = cell_len(one_line(str(self._source.key(0))))
        own = cell_len(one_line(self._source.key(0).target_id))
        return first + max([0, *(cell_len(target) - own for target in self._targets)]) + _SAMPLE

    def tell_apart(self, targets: Sequence[str]) -> None:
        """Tell these targets apart, which the verdicts are on."""
        if targets != self._targets:
            self._targets = targets
            self.redraw()

    def show(self, changed: Sequence[int]) -> None:
        """Rows may have been added at the end, and those at `changed` are not what they were."""
        self.renew(changed)
        before, count = len(self._rows), len(self._source)
        if count == before:
            return
        # by what was there before: whoever saw its end wants to see the new end
        at_end = self.top + self.page_height >= before
        # a range, as rows are their own numbers: it holds none of them
        self._rows = range(count)
        # the page that the new rows begin on was kept without them
        self._pages.discard(before // PAGE)
        self.measure(count)
        self.redraw(min(before, count), max(count, 1))
        if at_end and self._may_follow():
            self.jump(count - self.page_height)

    def replace(self, source: VerdictSource) -> None:
        """Show the rows of another source, from its first on, with the cursor nowhere."""
        self._source, self._rows, self._item = source, (), None
        self.renew_all()
        self.show(())

    def row_line(self, row: int, cells: Cells) -> Line:
        if not cells:
            waiting = Piece(" " + pad("· waiting", 11), Ink.MUTED)
            return [waiting, Piece(one_line(str(self._source.key(row))), Ink.MUTED)]
        width = self.line_width - 1
        headings = _headings(self.line_width, self._longest_id)
        chosen = [cells[_ORDER.index(heading.name)] for heading in headings]
        place = next(at for at, one in enumerate(headings) if one.name == "conversation")
        room = headings[place].width or width - sum(one.width + one.gap for one in headings)
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

    def action_open(self) -> None:
        if self._item is not None:
            self.post_message(self.Opened(self._source.key(self._item)))

    def move_by(self, step: int) -> None:
        self.move_to(len(self._rows) - 1 if self._item is None else self._item + step)

    def _may_follow(self) -> bool:
        """New rows may push old ones up, but not the one under the cursor out of sight."""
        return self._item is None or self._item >= len(self._rows) - self.page_height

    def _cells(self, rows: Sequence[int]) -> dict[int, Cells]:
        found = self._source.page(rows[0], len(rows))
        return {place: _cells(row) for place, row in zip(rows, found, strict=False) if row}


_NOTHING: Final = (Piece("   none yet: they come as conversations end", Ink.FAINT),)
_ORDER: Final = ("sign", "outcome", "track", "conversation", "turns", "because")


_SAMPLE: Final = len("__s1")
_LEAST_QUOTE: Final = 20
"""Cells that are kept for it and for what stands before the conversation."""


def _headings(width: int, longest_id: int) -> list[Heading]:
    """The columns that there is room for in so many cells."""
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


def _cells(row: VerdictRow) -> Cells:
    """In the order of all columns, whether there is room for them or not."""
    why = row.justification if row.quote is None else f"“{row.quote}”"
    why = why if row.unscored is None else f"unscored: {row.unscored}"
    said = Piece(verdict(row.passed), VERDICT_INKS[row.passed])
    return (
        said._replace(text=said.text[:1]),
        said,
        Piece(TRACK_SIGNS[row.track], Ink.MUTED),
        Piece(one_line(str(row.key))),
        Piece(plural(row.turns, "turn"), Ink.MUTED),
        Piece(one_line(why), Ink.MUTED),
    )
