"""A single line with something at both ends: headers, and the titles of panes."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from tui.widgets.ink import Ink, Line, Piece, length, spread
from tui.widgets.line_view import LineView


class OneLine(LineView):
    """What is at the right stays whole where the left still says enough."""

    can_focus = False
    DEFAULT_CSS = """
    OneLine { height: 1; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    def __init__(self, *, id: str | None = None, fill: bool = False) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._left: Line = ()
        self._right: Line = ()
        self._fill = fill
        """Whether a thin line joins the two ends; what is at the right then gives way first."""

    def show(self, left: Line, right: Line = ()) -> None:
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()

    def row_count(self) -> int:
        return 1

    def row(self, index: int) -> Line:
        del index
        if not self._fill:
            return spread(self._left, self._right, self.line_width)
        left = [*self._left, Piece(" ")]
        right = [Piece(" "), *self._right, Piece(" ")] if self._right else []
        if length(left) + length(right) > self.line_width:
            right = []
        return spread(left, right, self.line_width, Piece("─", Ink.RULE))


class Blank(Widget):
    """Room between two things."""

    BLANK = True
