"""A plain list of lines, and one of which a line can be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.cursor_view import CursorView
from tui.widgets.ink import Ink, Line
from tui.widgets.line_view import LineView


class Lines(LineView):
    """Shows lines, as many as there are."""

    def __init__(
        self,
        lines: Sequence[Line] = (),
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        high: bool = False,
    ) -> None:
        """`high` is a view whose height does not come from its lines."""
        super().__init__(id=id)
        self._lines = lines
        self._high = high

    def on_mount(self) -> None:
        self._fit()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()
        self.measure(len(self._lines))

    def show(self, lines: Sequence[Line]) -> None:
        """Other lines than before."""
        if lines == self._lines:
            return
        self._lines = lines
        self._fit()
        self.redraw()

    def _fit(self) -> None:
        self.measure(len(self._lines))
        if not self._high:
            self.styles.height = len(self._lines)

    def row_count(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Line:
        return self._lines[index]


class Choices(Lines, CursorView):
    """Lines with a cursor. Enter or a click chooses one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "choose")]

    class Chosen(Message):
        """A person has chosen the line with this number."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, lines: Sequence[Line], *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lines, id=id)
        self._item = 0

    @property
    def cursor(self) -> int:
        return self._item or 0

    def show(self, lines: Sequence[Line]) -> None:
        super().show(lines)
        self.move_to(0)

    def row_back(self, index: int) -> Ink | None:
        """As if it had the focus, which a dialog's line may have meanwhile."""
        return Ink.CURSOR if index == self._item else None

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(self.top + event.y, event.x)
        if item is not None:
            self.move_to(item)
            self.action_open()

    def action_open(self) -> None:
        self.post_message(self.Chosen(self.cursor))
