"""A view of a document that keeps its end visible while it grows, one to label, and one of two
documents side by side.

While following a conversation it scrolls in jumps. Most rows then appear on blank ground, which
sends an eighth of what scrolling by single rows sends to the terminal.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import ClassVar, Final, NamedTuple

from textual import events
from textual.binding import Binding, BindingType

from engine.benchmark import Speaker
from tui.text.blocks import Block, Document, MarkPosition, Rule
from tui.text.ink import Ink, Line, Piece, fitted_line, length
from tui.widgets.base import LineView

READ: Final = 0.75
"""The share of the view, 0 to 1, that shows earlier rows after a jump."""
READ_ON_THIN_LINES: Final = 0.25
"""The same share on a slow line, where jumps must be rare."""
THIN: Final = "-slow"
"""The CSS class of an app on a slow line."""
TOO_LOW: Final = 6
"""A view with fewer rows than this has no room for blank ground."""


class TranscriptView(LineView):
    """A scrolling transcript. `follow` keeps its end visible; scrolling away turns it off."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_curly_bracket", "previous_rule", "previous turn", show=False),
        Binding("right_curly_bracket", "next_rule", "next turn", show=False),
    ]

    def __init__(self, *, follow: bool, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: self._document.height, self._row, id=id)
        self.follow = follow
        self._document = Document(width=0, rail=True)
        self._mark: MarkPosition | None = None

    def _row(self, index: int) -> Line:
        return self._document.line(index, self._mark)

    @property
    def rows_below(self) -> int:
        """The number of rows below the visible ones."""
        return max(self._end - self.top - self.page_height, 0)

    @property
    def _end(self) -> int:
        """The row after the last one that shows something."""
        return self._document.height - self._document.trailing_blank

    def show(self, blocks: Sequence[Block]) -> None:
        """Show these blocks; what the user is reading stays in place."""
        place = self._document.locate(self.top)
        before = self._end
        first = self._document.set(blocks)
        if first is None:
            return
        if self._mark is not None and not self._document.has(self._mark):
            self._mark = None
        # up to the longer of both ends: a text that got shorter leaves rows behind
        self.redraw(first, max(before, self._end))
        # rows above may have been added or removed: without this the text would shift
        if first < self.top and place is not None and not self.follow:
            self._return_to(place)
        self._settle_scroll()

    def show_another(self, blocks: Sequence[Block], *, follow: bool) -> None:
        """Show another text, from its end if `follow`, else from its beginning."""
        self.follow = follow
        self._mark = None
        self._document.set(blocks)
        self.redraw()
        self._scroll_top(0)
        self._settle_scroll()

    def lay_out(self) -> None:
        if self.line_width != self._document.width:
            place = self._document.locate(self.top)
            # the row being read is found again by block and line: its number changes with the width
            self._document.resize(self.line_width)
            self.redraw()
            if place is not None and not self.follow:
                self._return_to(place)
        if self.follow:
            self._scroll_top(0)
        self._settle_scroll()

    def jump(self, top: int) -> None:
        """Scroll on the user's request; leaving the end stops following."""
        super().jump(top)
        self._update_follow()

    def on_mouse_scroll_down(self) -> None:
        # Textual scrolls after its handlers, so the position is known only after this one
        self.call_next(self._update_follow)

    def on_mouse_scroll_up(self) -> None:
        self.call_next(self._update_follow)

    def on_scroll_to(self) -> None:
        """Handle a dragged scroll bar."""
        self.call_next(self._update_follow)

    def _update_follow(self) -> None:
        self.follow = self.rows_below == 0

    @property
    def has_marks(self) -> bool:
        """Whether the document contains a judge's quote."""
        return bool(self._document.marks(Ink.EVIDENCE))

    @property
    def message_at_top(self) -> tuple[int, Speaker] | None:
        """Turn and speaker of the first message that is not wholly above the view; None without."""
        for key in self._document.keys_from(self.top):
            if isinstance(key, tuple) and isinstance(key[0], Speaker):
                return key[1], key[0]
        return None

    def jump_to_mark(self, step: int, ink: Ink = Ink.EVIDENCE) -> int | None:
        """Go to the mark of an ink `step` places on, at first to the first one not above the view.
        Returns its number, from 1; None if there is none."""
        marks = self._document.marks(ink)
        if not marks:
            return None
        rows = self._document.mark_rows
        before = self._mark
        number = bisect_left(marks, before) if before is not None else len(marks)
        if before is not None and marks[number : number + 1] == [before]:
            number = (number + step) % len(marks)
        else:
            number = bisect_right(marks, self.top, key=lambda mark: rows(mark)[1]) % len(marks)
        self._mark = marks[number]
        if before is not None:
            self.redraw(*rows(before))
        first, last = rows(self._mark)
        self.redraw(first, last)
        self.follow = False
        if first < self.top or last > self.top + self.page_height:
            # a third from the top, so that what led to it is visible too
            self._scroll_top(min(first - self.page_height // 3, self._lowest))
        return number + 1

    def jump_to_block(self, key: Hashable) -> bool:
        """Go to the beginning of a block. Returns whether there is such a block."""
        row = self._document.find((key, 0))
        if row is None:
            return False
        self.follow = False
        self._scroll_top(min(row, self._lowest))
        return True

    @property
    def _lowest(self) -> int:
        """The top row when the last row is visible; a jump goes no further."""
        return self._document.height - self.page_height

    def action_next_rule(self) -> None:
        below = [row for row in self._document.rules() if row > self.top]
        if below:
            self.jump(min(below[0], max(self._lowest, self.top)))

    def action_previous_rule(self) -> None:
        above = [row for row in self._document.rules() if row < self.top]
        self.jump(above[-1] if above else 0)

    def action_go_end(self) -> None:
        self.follow = True
        self._scroll_top(self._lowest)

    def _return_to(self, place: tuple[object, int]) -> None:
        row = self._document.find(place)
        if row is not None:
            self._scroll_top(row)

    def _settle_scroll(self) -> None:
        """Adapt the scroll position to the current document."""
        end, height, top = self._end, self.page_height, self.top
        if self.follow and end > top + height:
            self._scroll_top(end - self._rows_kept(height))
        elif self.follow and top >= end:
            self._scroll_top(end - height)
        else:
            self._scroll_top(top)

    def _rows_kept(self, height: int) -> int:
        """The number of rows of text, up to its end, in a view of this height after a jump."""
        if height < TOO_LOW:
            return height
        return int(height * (READ_ON_THIN_LINES if self.app.has_class(THIN) else READ))

    def _scroll_top(self, top: int) -> None:
        """Scroll to `top`, even if that leaves blank ground below the end."""
        highest = max(self._document.height - 1, 0)
        top = min(max(top, 0), highest)
        # when following, the blank row after the end is left out: adding it, and then the next rows
        # a moment later, would draw the whole view twice
        # so is it in a view as high as its text, which must not count its own height either: it
        # would never get lower
        fitted = self.styles.is_auto_height
        rows = self._end if self.follow or fitted else self._document.height
        self.measure(rows if fitted else max(rows, top + self.page_height))
        super().jump(top)


class BlindTranscript(TranscriptView):
    """A transcript to label. Keys scroll it; the cursor follows to a visible reply."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_curly_bracket", "previous_rule", "previous reply", show=False),
        Binding("right_curly_bracket", "next_rule", "next reply", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(follow=False, id=id)
        self._replies: Sequence[int] = ()
        self._at = 0

    @property
    def reply(self) -> int | None:
        """The turn of the reply under the cursor; None if there is none."""
        return self._replies[self._at] if self._replies else None

    def show_item(self, blocks: Sequence[Block], replies: Sequence[int]) -> None:
        """Show another transcript from its beginning, with the cursor on its first reply."""
        self._replies, self._at = replies, 0
        self.show_another(blocks, follow=False)

    def row_back(self, index: int) -> Ink | None:
        return Ink.CURSOR if index in self._rows(self._at) else None

    def _rows(self, number: int) -> range:
        """The rows of a reply, without the blank row after it."""
        if not self._replies:
            return range(0)
        tops = self._document.tops()
        start = self._document.find(((Speaker.TARGET, self._replies[number]), 0)) or 0
        end = next((top for top in tops if top > start), self._document.height)
        return range(start, max(end - 1, start + 1))

    def _move_to(self, number: int) -> None:
        if not self._replies:
            return
        before, self._at = self._at, max(0, min(number, len(self._replies) - 1))
        for rows in (self._rows(before), self._rows(self._at)):
            self.redraw(rows.start, rows.stop)

    def move_by(self, step: int) -> None:
        """Scroll; where there is no more to scroll to, move the cursor."""
        before = self.top
        self.jump(max(min(before + step, self._lowest), 0))
        if self.top == before:
            self._move_to(self._at + (1 if step > 0 else -1))
        else:
            self._come_along()

    def action_go_home(self) -> None:
        self.jump(0)
        self._move_to(0)

    def action_go_end(self) -> None:
        self.jump(max(self._lowest, 0))
        self._move_to(len(self._replies) - 1)

    def action_next_rule(self) -> None:
        self._go_to(self._at + 1)

    def action_previous_rule(self) -> None:
        self._go_to(self._at - 1)

    def on_click(self, event: events.Click) -> None:
        row = self.top + event.y
        replies = [n for n in range(len(self._replies)) if row in self._rows(n)]
        if replies:
            self._move_to(replies[0])

    def _go_to(self, number: int) -> None:
        """Put the cursor on a reply, and scroll to its beginning if it is not wholly visible."""
        self._move_to(number)
        rows = self._rows(self._at)
        if rows.start < self.top or rows.stop > self.top + self.page_height:
            self.jump(min(rows.start, max(self._lowest, 0)))

    def _come_along(self) -> None:
        """Move the cursor to the first reply that is seen, if its own is out of sight."""
        rows, page = self._rows(self._at), range(self.top, self.top + self.page_height)
        if rows.stop > page.start and rows.start < page.stop:
            return
        starts = [self._rows(number).start for number in range(len(self._replies))]
        seen = [number for number, start in enumerate(starts) if start in page]
        above = [number for number, start in enumerate(starts) if start < page.start]
        if seen or above:
            self._move_to(seen[0] if seen else above[-1])


_BETWEEN: Final = Piece("│", Ink.RULE)


class _AlignedRows(NamedTuple):
    """Rows of both sides that stand beside each other: their first rows and their numbers."""

    key: Hashable
    """The key of the block that it begins with on both sides; None for rows before the first."""
    begins_turn: bool
    tops: tuple[int, int]
    heights: tuple[int, int]

    @property
    def height(self) -> int:
        return max(self.heights)


class SideBySide(LineView):
    """A view of two documents side by side. `{` and `}` go from rule to rule."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_curly_bracket", "previous_rule", "previous turn", show=False),
        Binding("right_curly_bracket", "next_rule", "next turn", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: self._tops[-1], self._row, id=id)
        self._sides: tuple[Sequence[Block], Sequence[Block]] = ((), ())
        self._documents = (Document(), Document())
        self._parts: list[_AlignedRows] = []
        self._tops: list[int] = [0]

    def show(self, left: Sequence[Block], right: Sequence[Block]) -> None:
        """Show these blocks; what the user is reading stays in place if it is still there."""
        if (left, right) == self._sides:
            return
        place = self._part_at(self.top)
        self._sides = (left, right)
        self._lay()
        if place is not None:
            self._go_to_part(*place)

    def _row(self, index: int) -> Line:
        number = bisect_right(self._tops, index) - 1
        part, offset = self._parts[number], index - self._tops[number]
        left, right = (
            document.line(top + offset) if offset < height else []
            for document, top, height in zip(self._documents, part.tops, part.heights, strict=True)
        )
        left = fitted_line(left, self._width)
        blank = Piece(" " * (self._width - length(left)))
        return [*left, blank, _BETWEEN, *fitted_line(right, self._width)]

    def lay_out(self) -> None:
        place = self._part_at(self.top)
        self._lay()
        if place is not None:
            self._go_to_part(*place)

    def action_next_rule(self) -> None:
        below = [top for top in self._turns() if top > self.top]
        if below:
            self.jump(below[0])

    def action_previous_rule(self) -> None:
        above = [top for top in self._turns() if top < self.top]
        self.jump(above[-1] if above else 0)

    def _turns(self) -> list[int]:
        """The rows of rules that both sides share."""
        return [top for part, top in zip(self._parts, self._tops, strict=False) if part.begins_turn]

    @property
    def _width(self) -> int:
        """The width of one side in cells."""
        return max((self.line_width - 1) // 2, 1)

    def _lay(self) -> None:
        if not self.size:
            return  # it comes here again as soon as it has one
        for document, blocks in zip(self._documents, self._sides, strict=True):
            if document.width != self._width:
                document.resize(self._width)
            document.set(blocks)
        self._parts = _aligned_parts(self._documents, self._sides)
        self._tops = [0, *accumulate(part.height for part in self._parts)]
        self.measure(self._tops[-1])
        self.redraw()

    def _part_at(self, row: int) -> tuple[Hashable, int] | None:
        number = bisect_right(self._tops, row) - 1
        if not 0 <= number < len(self._parts):
            return None
        return self._parts[number].key, row - self._tops[number]

    def _go_to_part(self, key: Hashable, offset: int) -> None:
        for part, top in zip(self._parts, self._tops, strict=False):
            if part.key == key:
                self.jump(top + min(offset, max(part.height - 1, 0)))
                return


def _aligned_parts(
    documents: tuple[Document, Document], sides: tuple[Sequence[Block], Sequence[Block]]
) -> list[_AlignedRows]:
    """Split at the blocks whose keys are on both sides, in the same order."""
    left, right = (
        {block.key: (top, isinstance(block, Rule)) for block, top in zip(side, tops, strict=True)}
        for side, tops in zip(sides, (document.tops() for document in documents), strict=True)
    )
    starts: list[tuple[Hashable, bool, int, int]] = [(None, False, 0, 0)]
    for key, (top, is_rule) in left.items():
        other = right.get(key, (-1, False))[0]
        # blocks that have changed places cannot both be aligned: the first on the left is
        if other >= starts[-1][3]:
            starts.append((key, is_rule, top, other))
    ends = [(start[2], start[3]) for start in starts[1:]]
    ends.append((documents[0].height, documents[1].height))
    parts = [
        _AlignedRows(key, is_rule, (one, other), (end - one, other_end - other))
        for (key, is_rule, one, other), (end, other_end) in zip(starts, ends, strict=True)
    ]
    return [part for part in parts if part.height]
