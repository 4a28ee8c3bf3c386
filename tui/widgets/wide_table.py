"""A table of any number of rows, of which only those on the screen exist.

Rows are numbers; what they show is asked for a page at a time. The first columns stay, the others
move sideways. The cursor and the marks are on rows, wherever these come to stand.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.message import Message

from tui.widgets.ink import Ink, Line, Piece, fitted, pad
from tui.widgets.line_view import LineView

PAGE: Final = 128
PAGES_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class Heading:
    """A column."""

    name: str
    """What a click on it sorts by."""
    title: str
    width: int
    """In cells; the last column takes what is left."""


Cells = Sequence[Piece]
"""One piece for each column; of a row that is gone, none."""
Fetch = Callable[[Sequence[int]], Mapping[int, Cells]]


class WideTable(LineView):
    """Enter or a second click opens what the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open"),
        Binding("right,l", "shift(1)", "columns to the right", show=False),
        Binding("left,h", "shift(-1)", "columns to the left", show=False),
    ]

    class Opened(Message):
        """A person wants to see more of this row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Moved(Message):
        """The cursor is on something else."""

    class Shifted(Message):
        """Other columns are seen."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        fixed: int,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
    ) -> None:
        """`fixed` columns stay where they are."""
        super().__init__(id=id)
        self._fetch = fetch
        self._fixed = fixed
        self._headings: Sequence[Heading] = ()
        self._rows: array[int] = array("q")
        self._places: dict[int, int] = {}
        self._pages: LRUCache[int, Mapping[int, Cells]] = LRUCache(PAGES_KEPT)
        self._changed: set[int] = set()
        """Rows whose page is kept, and which are to be asked for again by themselves."""
        self._cursor: int | None = None
        self._shift = 0
        self._empty: Line = ()
        self.marked: set[int] = set()

    @property
    def rows(self) -> array[int]:
        return self._rows

    @property
    def cursor(self) -> int | None:
        """The row that it is on; None where there is none."""
        return self._cursor

    @property
    def place(self) -> int | None:
        """Where the cursor is, from 0."""
        return None if self._cursor is None else self._places.get(self._cursor)

    def place_of(self, row: int) -> int | None:
        return self._places.get(row)

    def show(self, rows: array[int], headings: Sequence[Heading], empty: Line) -> None:
        """These rows now, or where there are none `empty`. The cursor stays on its row, which
        stays where it is on the screen; where that row is gone, it goes to the first."""
        above = None if self.place is None else self.place - self.top
        self._rows, self._headings, self._empty = rows, headings, empty
        self._places = {row: place for place, row in enumerate(rows)}
        self._pages.clear()
        before = self._cursor
        if before not in self._places:
            self._cursor, above = (rows[0] if rows else None), 0
        self.measure(len(rows))
        self.redraw()
        if self.place is not None and above is not None:
            self.jump(self.place - above)
        if self._cursor != before:
            self.post_message(self.Moved())

    def headings_only(self, headings: Sequence[Heading]) -> None:
        """The same rows in other columns."""
        if headings != self._headings:
            self._headings = headings
            self._pages.clear()
            self.redraw()

    def renew(self, rows: Iterable[int]) -> None:
        """What these show is not what it was; their neighbours are as they were."""
        for row in rows:
            place = self._places.get(row)
            if place is not None:
                self._changed.add(row)
                self.redraw(place, place + 1)

    def renew_all(self) -> None:
        self._pages.clear()
        self.redraw()

    def go_to(self, row: int) -> None:
        """Put the cursor on a row, where there is such a one."""
        place = self._places.get(row)
        if place is not None:
            self._put(place)

    def row_count(self) -> int:
        return max(len(self._rows), 1)

    def row(self, index: int) -> Line:
        if not self._rows:
            return fitted(self._empty, self.line_width)
        row = self._rows[index]
        page = index // PAGE
        cells = self._pages.get(page)
        if cells is None:
            rows = self._rows[page * PAGE : (page + 1) * PAGE]
            cells = self._pages[page] = self._fetch(rows)
            self._changed.difference_update(rows)
        elif row in self._changed:
            others = {each: shown for each, shown in cells.items() if each != row}
            cells = self._pages[page] = {**others, **self._fetch([row])}
            self._changed.discard(row)
        mark = _MARK if row in self.marked else _NO_MARK
        return [mark, *self._line(cells.get(row, ()))]

    def heading_line(self, sorted_by: str, *, backwards: bool) -> list[tuple[str, Piece]]:
        """The titles as they stand above the rows, each with the column's name."""
        arrow = "▾" if backwards else "▴"
        pieces = [
            Piece(
                f"{each.title} {arrow}" if each.name == sorted_by else each.title,
                Ink.ACCENT if each.name == sorted_by else Ink.MUTED,
            )
            for each in self._headings
        ]
        laid = [("", _NO_MARK)]
        for heading, width, piece in self._laid(pieces):
            laid.append((heading.name, Piece(pad(piece.text, width) + " ", piece.ink)))
        return laid

    def row_back(self, index: int) -> Ink | None:
        if not self._rows or self._rows[index] != self._cursor:
            return None
        return Ink.CURSOR if self.has_focus else Ink.CURSOR_IDLE

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(len(self._rows))
        if self.place is not None:
            self._bring_into_view(self.place)

    def on_focus(self) -> None:
        self._redraw_cursor()

    def on_blur(self) -> None:
        self._redraw_cursor()

    def on_click(self, event: events.Click) -> None:
        index = self.top + event.y
        if 0 <= index < len(self._rows):
            if event.chain > 1 and self._rows[index] == self._cursor:
                self.action_open()
            self._put(index)

    def toggle_mark(self) -> None:
        """Mark the row that the cursor is on, or no longer, and go on to the next."""
        if self._cursor is not None and self.place is not None:
            self.marked ^= {self._cursor}
            self._redraw_cursor()
            self._put(self.place + 1)

    def mark_all(self) -> None:
        """Mark every row; where all are marked already, none."""
        rows = set(self._rows)
        self.marked = set() if rows <= self.marked else self.marked | rows
        self.redraw()

    def unmark(self) -> None:
        self.marked.clear()
        self.redraw()

    def action_open(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Opened(self._cursor))

    def action_shift(self, step: int) -> None:
        """Columns to the left or right; the last one is always within reach."""
        most = max(len(self._headings) - self._fixed - 1, 0)
        shift = max(min(self._shift + step, most), 0)
        if shift != self._shift:
            self._shift = shift
            self.redraw()
            self.post_message(self.Shifted())

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
        self._put(len(self._rows) - 1)

    def _line(self, cells: Cells) -> list[Piece]:
        if not cells:
            return [Piece("gone from the store", Ink.FAINT)]
        return [
            Piece(pad(piece.text, width) + " ", piece.ink) for _, width, piece in self._laid(cells)
        ]

    def _laid(self, pieces: Cells) -> Iterable[tuple[Heading, int, Piece]]:
        """What of a row is seen, in which width."""
        left = self.line_width - 1
        last = len(self._headings) - 1
        for index, (heading, piece) in enumerate(zip(self._headings, pieces, strict=True)):
            if self._fixed <= index < self._fixed + self._shift or left < 1:
                continue
            width = left if index == last else min(heading.width, left)
            yield heading, width, piece
            left -= width + 1

    def _move(self, step: int) -> None:
        self._put((self.place or 0) + step)

    def _put(self, index: int) -> None:
        if not self._rows:
            return
        index = max(min(index, len(self._rows) - 1), 0)
        before = self._cursor
        self._redraw_cursor()
        self._cursor = self._rows[index]
        self._redraw_cursor()
        self._bring_into_view(index)
        if self._cursor != before:
            self.post_message(self.Moved())

    def _bring_into_view(self, index: int) -> None:
        if index < self.top:
            self.jump(index)
        elif index >= self.top + self.page_height:
            self.jump(index - self.page_height + 1)

    def _redraw_cursor(self) -> None:
        if self.place is not None:
            self.redraw(self.place, self.place + 1)


_MARK: Final = Piece("●", Ink.ACCENT)
_NO_MARK: Final = Piece(" ")


class Headings(LineView):
    """The titles above a table. A click on one sorts by it."""

    can_focus = False
    DEFAULT_CSS = """
    Headings { height: 1; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    class Clicked(Message):
        """A person wants to sort by this column."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._titles: Sequence[tuple[str, Piece]] = ()

    def show(self, titles: Sequence[tuple[str, Piece]]) -> None:
        if titles != self._titles:
            self._titles = titles
            self.redraw()

    def row_count(self) -> int:
        return 1

    def row(self, index: int) -> Line:
        del index
        return [piece for _, piece in self._titles]

    def on_click(self, event: events.Click) -> None:
        end = 0
        for name, piece in self._titles:
            end += len(piece.text)
            if event.x < end:
                if name:
                    self.post_message(self.Clicked(name))
                return
