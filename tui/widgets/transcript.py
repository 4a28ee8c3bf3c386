"""Shows a text of blocks and keeps its end in view while it grows.

While it follows what is being said, it scrolls in jumps: most rows then appear on blank ground,
which sends an eighth of what scrolling by single rows sends to the terminal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType

from tui.widgets.blocks import Block, Document, Mark
from tui.widgets.ink import Ink, Line
from tui.widgets.line_view import LineView

READ: Final = 0.75
"""How much of the view still shows what has been read, after a jump."""
TOO_LOW: Final = 6
"""A view of fewer rows has no room for blank ground."""


class Transcript(LineView):
    """`follow` says whether it keeps its end in view; scrolling away ends that."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_curly_bracket", "previous_rule", "previous turn", show=False),
        Binding("right_curly_bracket", "next_rule", "next turn", show=False),
    ]

    def __init__(self, *, follow: bool, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self.follow = follow
        self._document = Document()
        self._mark: Mark | None = None

    def row_count(self) -> int:
        return self._document.height

    def row(self, index: int) -> Line:
        return self._document.line(index, self._mark)

    @property
    def rows_below(self) -> int:
        """How many rows lie below what is seen."""
        end = self._document.height - self._document.trailing_blank
        return max(end - self.top - self.page_height, 0)

    def show(self, blocks: Sequence[Block]) -> None:
        """Show these blocks; what a person is reading stays where it is."""
        place = self._document.locate(self.top)
        before = self._document.height
        first = self._document.set(blocks)
        if first is None:
            return
        if self._mark is not None and self._mark not in self._document.marks():
            self._mark = None
        self.redraw(first, max(before, self._document.height))
        if first < self.top and place is not None and not self.follow:
            self._return_to(place)
        self._settle()

    def show_another(self, blocks: Sequence[Block], *, follow: bool) -> None:
        """Show another text, from its end where it is to be followed, else from its beginning."""
        self.follow = follow
        self._mark = None
        self._document.set(blocks)
        self.redraw()
        self._go(0)
        self._settle()

    def on_resize(self, event: events.Resize) -> None:
        del event
        if self.line_width != self._document.width:
            place = self._document.locate(self.top)
            self._document.resize(self.line_width)
            self.redraw()
            if place is not None and not self.follow:
                self._return_to(place)
        if self.follow:
            self._go(0)
        self._settle()

    def jump(self, top: int) -> None:
        """As a person asks for it: whoever leaves the end does not follow any more."""
        super().jump(top)
        self._see_whether_it_follows()

    def on_mouse_scroll_down(self) -> None:
        self.call_next(self._see_whether_it_follows)

    def on_mouse_scroll_up(self) -> None:
        self.call_next(self._see_whether_it_follows)

    def on_scroll_to(self) -> None:
        """The scroll bar was dragged."""
        self.call_next(self._see_whether_it_follows)

    def _see_whether_it_follows(self) -> None:
        self.follow = self.rows_below == 0

    def jump_to_mark(self, step: int, ink: Ink = Ink.EVIDENCE) -> int | None:
        """Go to the next mark of an ink, or the one before; its number from 1, None where there is
        none. The first time, to the first that is not above what is seen."""
        marks = self._document.marks(ink)
        if not marks:
            return None
        if self._mark in marks:
            number = (marks.index(self._mark) + step) % len(marks)
        else:
            ends = (self._document.mark_rows(mark)[1] for mark in marks)
            number = next((number for number, end in enumerate(ends) if end > self.top), 0)
        self._mark = marks[number]
        first, last = self._document.mark_rows(self._mark)
        self.follow = False
        self.redraw()
        if first < self.top or last > self.top + self.page_height:
            self._go(first - self.page_height // 3)
        return number + 1

    def jump_to_block(self, key: Hashable) -> bool:
        """Go to where a block begins; whether there is such a one."""
        row = self._document.find((key, 0))
        if row is None:
            return False
        self.follow = False
        self._go(row)
        return True

    def action_next_rule(self) -> None:
        below = [row for row in self._document.rules() if row > self.top]
        if below:
            self.jump(below[0])

    def action_previous_rule(self) -> None:
        above = [row for row in self._document.rules() if row < self.top]
        self.jump(above[-1] if above else 0)

    def action_go_end(self) -> None:
        self.follow = True
        self._go(self._document.height - self.page_height)

    def _return_to(self, place: tuple[object, int]) -> None:
        row = self._document.find(place)
        if row is not None:
            self._go(row)

    def _settle(self) -> None:
        """Bring the scroll position in line with what there is now."""
        end = self._document.height - self._document.trailing_blank
        height, top = self.page_height, self.top
        if self.follow and end > top + height:
            self._go(end - (height if height < TOO_LOW else int(height * READ)))
        elif self.follow and top >= end:
            self._go(end - height)
        else:
            self._go(top)

    def _go(self, top: int) -> None:
        """Scroll, also to where there is blank ground below the end."""
        highest = max(self._document.height - 1, 0)
        top = min(max(top, 0), highest)
        # whoever follows has no use for the blank row behind the end, and to make room for it first
        # and for what comes next a moment later would draw the whole view twice
        rows = self._document.height - (self._document.trailing_blank if self.follow else 0)
        self.measure(max(rows, top + self.page_height))
        super().jump(top)
