"""A transcript with a cursor on the assistant's replies, one of which a key can mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from engine.benchmark import Speaker
from tui.text.blocks import Block
from tui.text.ink import Ink
from tui.widgets.transcript import TranscriptView


class BlindTranscript(TranscriptView):
    """Going down and up reads on row by row; the cursor comes along with what is seen."""

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
        """The turn of the reply under the cursor; None where there is none."""
        return self._replies[self._at] if self._replies else None

    def show_item(self, blocks: Sequence[Block], replies: Sequence[int]) -> None:
        """Another transcript, from its beginning, with the cursor on its first reply."""
        self._replies, self._at = replies, 0
        self.show_another(blocks, follow=False)

    def row_back(self, index: int) -> Ink | None:
        return Ink.CURSOR if index in self._rows(self._at) else None

    def _rows(self, number: int) -> range:
        """Those of a reply, without the blank one behind it."""
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

    def _is_seen(self, number: int) -> bool:
        """Whether it begins where it can be seen."""
        return (
            0 <= number < len(self._replies)
            and self.top <= self._rows(number).start < self.top + self.page_height
        )

    def action_go_down(self) -> None:
        rest = self._rows(self._at).stop > self.top + self.page_height
        if not rest and self._is_seen(self._at + 1):
            self._move_to(self._at + 1)
        elif self.rows_below:
            self.jump(self.top + 1)
            self._come_along()

    def action_go_up(self) -> None:
        if self._rows(self._at).start >= self.top and self._is_seen(self._at - 1):
            self._move_to(self._at - 1)
        elif self.top:
            self.jump(self.top - 1)
            self._come_along()

    def action_go_page_down(self) -> None:
        self.jump(min(self.top + max(self.page_height - 1, 1), max(self._lowest, 0)))
        self._come_along()

    def action_go_page_up(self) -> None:
        super().action_go_page_up()
        self._come_along()

    def action_go_home(self) -> None:
        super().action_go_home()
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
        found = [n for n in range(len(self._replies)) if row in self._rows(n)]
        if found:
            self._move_to(found[0])

    def _go_to(self, number: int) -> None:
        """A reply, and its beginning to where it is seen."""
        self._move_to(number)
        rows = self._rows(self._at)
        if rows.start < self.top or rows.stop > self.top + self.page_height:
            self.jump(min(rows.start, max(self._lowest, 0)))

    def _come_along(self) -> None:
        """The cursor, where its reply is out of sight."""
        rows = self._rows(self._at)
        if rows.stop <= self.top or rows.start >= self.top + self.page_height:
            seen = [n for n in range(len(self._replies)) if self._is_seen(n)]
            above = [n for n in range(len(self._replies)) if self._rows(n).start < self.top]
            if seen or above:
                self._move_to(seen[0] if seen else above[-1])
