"""Tables of any number of rows, of which only the visible ones are loaded.

Rows are numbers; their contents are fetched a page at a time. The cursor and the marks belong to
rows and move with them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Protocol

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.message import Message

from engine.benchmark import ConversationKey
from engine.display import one_line, plural
from engine.jury import NotCounted
from engine.store.tables import VerdictRow
from tui.format import TRACK_SIGNS, conversation_id, verdict
from tui.text.ink import VERDICT_INKS, Ink, Line, Piece, fitted_line, pad
from tui.text.wrap import Cells, Heading, laid_out, titles
from tui.widgets.base import CursorView

PAGE: Final = 128
PAGES_KEPT: Final = 16

Fetch = Callable[[Sequence[int]], Mapping[int, Cells]]
"""Fetches the cells of rows; rows that are gone may be missing."""


class PagedTable(CursorView):
    """Rows in columns."""

    def __init__(
        self,
        fetch: Fetch,
        cells_in_columns: Callable[[int, Cells], Line],
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`cells_in_columns` lays out the cells of a row; a row without cells is gone."""
        super().__init__(lambda: len(self._rows) or len(self._empty), self._row, id=id)
        self._fetch = fetch
        self._cells_in_columns = cells_in_columns
        self._headings: Sequence[Heading] = ()
        self._rows: Sequence[int] = ()
        self._pages: LRUCache[int, Mapping[int, Cells]] = LRUCache(PAGES_KEPT)
        self._changed: set[int] = set()
        """Rows of cached pages that must be fetched again one by one."""
        self._empty: Sequence[Line] = ((),)
        """The lines shown if there are no rows."""

    def item_count(self) -> int:
        return len(self._rows)

    def _row(self, index: int) -> Line:
        if not self._rows:
            return fitted_line(self._empty[index], self.line_width)
        row = self._rows[index]
        return self._cells_in_columns(row, self._cells_of(row, index // PAGE))

    def _cells_of(self, row: int, page: int) -> Cells:
        cells = self._pages.get(page)
        if cells is None:
            rows = self._rows[page * PAGE : (page + 1) * PAGE]
            cells = self._pages[page] = self._fetch(rows)
            self._changed.difference_update(rows)
        # a changed row is fetched alone: fetching a page takes a hundred times as long
        elif row in self._changed:
            others = {cell: shown for cell, shown in cells.items() if cell != row}
            cells = self._pages[page] = {**others, **self._fetch([row])}
            self._changed.discard(row)
        return cells.get(row, ())

    def renew_at(self, places: Iterable[int]) -> None:
        """Fetch the contents of the rows at these positions again; other rows keep theirs."""
        for place in places:
            self._changed.add(self._rows[place])
            self.redraw(place, place + 1)

    def renew_all(self) -> None:
        """Fetch each row again when it is next visible."""
        self._pages.clear()
        self.redraw()


class WideTable(PagedTable):
    """A table whose first columns stay while the others scroll sideways. Rows can be marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "shift(1)", "columns to the right", show=False),
        Binding("left,h", "shift(-1)", "columns to the left", show=False),
    ]

    class Shifted(Message):
        """Other columns have become visible."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        fixed: int,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`fixed` is the number of columns that do not scroll."""
        super().__init__(fetch, self._row_line, id=id)
        self._fixed = fixed
        self._places: dict[int, int] = {}
        self._shift = 0
        self.rows: array[int] = array("q")
        self.marked: set[int] = set()

    @property
    def cursor(self) -> int | None:
        """The row under the cursor; None if there is none."""
        return None if self._item is None else self._rows[self._item]

    def place_of(self, row: int) -> int | None:
        """The position of a row, from 0; None if it is not in the table."""
        return self._places.get(row)

    def renew(self, rows: Iterable[int]) -> None:
        """Fetch the contents of those of these rows again that the table has."""
        self.renew_at(self._places[row] for row in rows if row in self._places)

    def show(self, rows: array[int], headings: Sequence[Heading], empty: Line) -> None:
        """Replace the rows; without any, show `empty`. The cursor stays on its row, which stays in
        place on the screen. If that row is gone, the cursor goes to the first."""
        cursor, above = self.cursor, None if self._item is None else self._item - self.top
        self._rows = self.rows = rows
        self._headings, self._empty = headings, (empty,)
        self._places = {row: place for place, row in enumerate(rows)}
        self._pages.clear()
        self._item = None if cursor is None else self._places.get(cursor)
        if self._item is None and rows:
            self._item, above = 0, 0
        self.measure(len(rows))
        self.redraw()
        if self._item is not None and above is not None:
            self.jump(self._item - above)
        if self.cursor != cursor:
            self.post_message(self.Moved(self))

    def go_to(self, row: int) -> None:
        """Put the cursor on a row; does nothing if the table does not have it."""
        place = self._places.get(row)
        if place is not None:
            self.move_to(place)

    def _row_line(self, row: int, cells: Cells) -> Line:
        mark = _MARK if row in self.marked else _NO_MARK
        if not cells:
            return [mark, Piece("gone from the store", Ink.FAINT)]
        return [mark, *(piece for _, piece in self._laid_out(cells))]

    def heading_line(self, sorted_by: str, *, backwards: bool) -> list[tuple[str, Piece]]:
        """The column titles, laid out like the rows, each with its column's name."""
        cells = titles(self._headings, sorted_by, backwards=backwards)
        laid = ((heading.name, piece) for heading, piece in self._laid_out(cells))
        return [("", _NO_MARK), *laid]

    def _laid_out(self, cells: Cells) -> Iterable[tuple[Heading, Piece]]:
        hidden = range(self._fixed, self._fixed + self._shift)
        return laid_out(self._headings, cells, self.line_width - 1, hidden)

    def lay_out(self) -> None:
        super().lay_out()
        if self._item is not None:
            self.bring_into_view(self._item)

    def toggle_mark(self) -> None:
        """Mark or unmark the row under the cursor, and move to the next."""
        if self._item is not None:
            self.marked ^= {self._rows[self._item]}
            self.redraw_item(self._item)
            self.move_by(1)

    def mark_all(self) -> None:
        """Mark every row; if all are marked already, unmark all."""
        rows = set(self._rows)
        self.marked = set() if rows <= self.marked else self.marked | rows
        self.redraw()

    def action_shift(self, step: int) -> None:
        """Scroll the columns by `step`; the last column stays in reach."""
        most = max(len(self._headings) - self._fixed - 1, 0)
        shift = max(min(self._shift + step, most), 0)
        if shift != self._shift:
            self._shift = shift
            self.redraw()
            self.post_message(self.Shifted())


_MARK: Final = Piece("●", Ink.ACCENT)
_NO_MARK: Final = Piece(" ")


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

    def __init__(self, source: VerdictSource, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(self._cells, self._row_line, id=id)
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

    def lay_out(self) -> None:
        super().lay_out()
        if self._may_follow():
            self.jump(len(self._rows) - self.page_height)

    def on_focus(self) -> None:
        if self._item is None and self._rows:
            self._item = min(self.top + self.page_height, len(self._rows)) - 1
        super().on_focus()

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
