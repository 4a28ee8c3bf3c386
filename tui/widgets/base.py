"""The base of all views that draw single lines and of those with a cursor, and the terminal sizes
at which the layout changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.text.ink import Ink, Line, Piece

STRIPS_KEPT = 200
"""More than the rows of the largest screen; rows scrolled into view are quick to draw. Each takes
2.4 kB, and the views of a run fill up with it in its first hour."""


class LineView(ScrollView, inherit_bindings=False):
    """A view of rows, without child widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "go_down", "down", show=False),
        Binding("up,k", "go_up", "up", show=False),
        Binding("pagedown,ctrl+d", "go_page_down", "page down", show=False),
        Binding("pageup,ctrl+u", "go_page_up", "page up", show=False),
        Binding("home,g", "go_home", "first", show=False),
        Binding("end,G", "go_end", "last", show=False),
    ]
    DEFAULT_CSS = """
    LineView {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
    }
    """

    can_focus = True

    def __init__(
        self,
        row_count: Callable[[], int],
        row: Callable[[int], Line],
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        classes: str | None = None,
    ) -> None:
        """`row_count` tells how many rows there are, `row` draws one. Both are asked while the view
        is painted, as what they tell follows from its width."""
        super().__init__(id=id, classes=classes)
        self.row_count = row_count
        self.row = row
        self._styles_by_ink: dict[Ink, Style] = {}
        self._strips: LRUCache[int, Strip] = LRUCache(STRIPS_KEPT)

    def on_resize(self) -> None:
        """Redraw, as strips have the old width."""
        self.lay_out()
        self.redraw()

    def lay_out(self) -> None:
        """Fit what is shown to the view's size, whenever that changes."""
        self.measure(self.row_count())

    def row_back(self, index: int) -> Ink | None:
        """The ink whose background fills the row; None for the view's own background."""
        return None

    @property
    def line_width(self) -> int:
        """The width in cells without the scroll bar; at least 1, even before layout."""
        return max(self.scrollable_content_region.width, 1)

    @property
    def page_height(self) -> int:
        """The height in rows; at least 1, even before layout."""
        return max(self.scrollable_content_region.height, 1)

    @property
    def top(self) -> int:
        """The number of the first visible row."""
        return self.scroll_offset.y

    def render_line(self, y: int) -> Strip:
        index = self.top + y
        if index >= self.row_count():
            # painted too, or what was there before would stay on the screen
            return Strip.blank(self.line_width, self.ink(Ink.TEXT))
        strip = self._strips.get(index)
        if strip is None:
            strip = self.paint(self.row(index), self.row_back(index))
            self._strips[index] = strip
        return strip

    def paint(self, line: Line, back: Ink | None) -> Strip:
        """Render a line to the width of the view, on the background of `back`."""
        behind = None if back is None else self._background(back)
        base = self.ink(Ink.TEXT) if behind is None else self.ink(Ink.TEXT) + behind
        strip = Strip(self._segments(line, behind)).adjust_cell_length(self.line_width, base)
        return strip.simplify()  # each change of style is told to the terminal

    def _background(self, back: Ink) -> Style:
        """The background of `back`; reversed in 16 colours, none of which suits as a background."""
        style = self.ink(back)
        return Style(bgcolor=style.bgcolor, reverse=style.reverse)

    def _segments(self, line: Iterable[Piece], behind: Style | None) -> Iterable[Segment]:
        for text, ink in line:
            if text and behind is None:
                yield Segment(text, self.ink(ink))
            elif text and behind is not None:
                # faint text would be too weak on the background of a cursor
                style = self.ink(Ink.MUTED if ink is Ink.FAINT else ink)
                if behind.reverse:
                    # else each colour would become a background of its own
                    style = self.ink(Ink.TEXT) + Style(bold=style.bold)
                yield Segment(text, style + behind)

    def ink(self, ink: Ink) -> Style:
        """The style of an ink in this view. The app computes the look of each ink once for all
        views; per view, Textual would recompute it at every change."""
        style = self._styles_by_ink.get(ink)
        if style is None:
            look = self.app.get_component_styles(ink.component).partial_rich_style
            style = self._styles_by_ink[ink] = self.rich_style + look
        return style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        # called when the theme changes, which changes every ink and so every strip
        self._styles_by_ink.clear()
        self._strips.clear()

    def redraw(self, first: int = 0, last: int | None = None) -> None:
        """Redraw rows `first` up to `last`, exclusive; without `last`, to the end of the view."""
        # over the kept strips, not over rows: a long text has 100,000 rows, of which 600 are kept
        for index in list(self._strips.keys()):
            if index >= first and (last is None or index < last):
                self._strips.discard(index)
        top, height = self.top, self.page_height
        seen_first = max(first - top, 0)
        seen_last = height if last is None else min(last - top, height)
        if seen_last > seen_first:
            self.refresh(Region(0, seen_first, self.line_width, seen_last - seen_first))

    def measure(self, rows: int) -> None:
        """Set the number of rows.

        The virtual width stays 0. Textual updates the scroll bar only if the virtual size differs
        from the view's own, and with a width the two would sometimes be equal."""
        size = Size(0, rows)
        # setting it makes Textual lay out the view again, which most calls do not need
        if size != self.virtual_size:
            self.virtual_size = size

    def jump(self, top: int) -> None:
        """Scroll at once so that row `top` is the first one seen."""
        # force: keys must also scroll a view whose overflow is hidden; not animated, as each frame
        # on the way goes to the terminal
        self.scroll_to(y=top, animate=False, force=True)

    def move_by(self, step: int) -> None:
        """Scroll by so many rows; a view with a cursor moves it instead."""
        self.jump(self.top + step)

    @property
    def page_step(self) -> int:
        """How far a page key goes: one row of the page before stays visible."""
        return max(self.page_height - 1, 1)

    def action_go_down(self) -> None:
        self.move_by(1)

    def action_go_up(self) -> None:
        self.move_by(-1)

    def action_go_page_down(self) -> None:
        self.move_by(self.page_step)

    def action_go_page_up(self) -> None:
        self.move_by(-self.page_step)

    def action_go_home(self) -> None:
        self.jump(0)

    def action_go_end(self) -> None:
        self.jump(self.row_count())


class OneRow(LineView):
    """A view of a single row, which keys do not reach."""

    can_focus = False
    DEFAULT_CSS = """
    OneRow { height: 1; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    def __init__(self, line: Callable[[], Line], *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: 1, lambda _: line(), id=id)

    def lay_out(self) -> None:
        """Nothing: there is always one row."""


class Hinting:
    """A node that knows what its keys would do now."""

    def hint(self, action: str) -> str | None:
        """A word or two; empty if the key would do nothing, None for the usual description."""
        del action
        return None


class CursorView(LineView, Hinting):
    """A view of items below one another, each on one row or several consecutive rows.

    An item may be a row of a table or a row of a grid; by default, each row is one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open")]

    class Moved(Message):
        """The cursor has moved to another item."""

        def __init__(self, view: CursorView) -> None:
            super().__init__()
            self.view = view

    class Opened(Moved):
        """The item under the cursor was opened."""

    def __init__(
        self,
        row_count: Callable[[], int],
        row: Callable[[int], Line],
        *,
        id: str | None = None,  # noqa: A002  (Textual's name for it)
        classes: str | None = None,
    ) -> None:
        super().__init__(row_count, row, id=id, classes=classes)
        self._item: int | None = None

    def hint(self, action: str) -> str | None:
        """The hint of a key; see `Hinting`."""
        return "" if action == "open" and self._item is None else None

    @property
    def item(self) -> int | None:
        """The number of the item under the cursor, from 0; None if there is none."""
        return self._item

    def item_count(self) -> int:
        """The number of items; by default, of rows."""
        return self.row_count()

    def item_rows(self, item: int) -> range:
        """The rows that an item takes."""
        return range(item, item + 1)

    def item_at(self, row: int, column: int) -> int | None:
        """The item at this row of the view and column of the screen; None if there is none."""
        del column
        return row if 0 <= row < self.item_count() else None

    def action_open(self) -> None:
        """Tell that the item under the cursor was opened, on Enter or a second click."""
        if self._item is not None:
            self.post_message(self.Opened(self))

    def row_back(self, index: int) -> Ink | None:
        if self._item is None or index not in self.item_rows(self._item):
            return None
        return Ink.CURSOR if self.has_focus else Ink.CURSOR_IDLE

    def move_to(self, item: int) -> None:
        """Put the cursor on an item; a number out of range is clamped to the first or last item."""
        if not self.item_count():
            return
        before, after = self._item, max(min(item, self.item_count() - 1), 0)
        # only the two rows: over a slow line, moving the cursor then sends two rows, not a screen
        self.redraw_item(before)
        self._item = after
        self.redraw_item(after)
        self.bring_into_view(after)
        if after != before:
            self.post_message(self.Moved(self))

    def move_by(self, step: int) -> None:
        self.move_to((self._item or 0) + step)

    def bring_into_view(self, item: int) -> None:
        """Scroll by as little as shows the whole item; to the first one with what stands above it,
        if both fit."""
        rows = self.item_rows(item)
        if item == 0 and rows.stop <= self.page_height:
            self.jump(0)
        elif rows.start < self.top:
            self.jump(rows.start)
        elif rows.stop > self.top + self.page_height:
            self.jump(rows.stop - self.page_height)

    def redraw_item(self, item: int | None) -> None:
        """Redraw the rows of an item; nothing if it is None."""
        if item is not None:
            rows = self.item_rows(item)
            self.redraw(rows.start, rows.stop)

    def on_focus(self) -> None:
        # the cursor is paler in a view without the focus
        self.redraw_item(self._item)

    def on_blur(self) -> None:
        self.redraw_item(self._item)

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(self.top + event.y, event.x)
        if item is None:
            return
        # the first click put the cursor there, so the second opens the item
        if event.chain > 1 and item == self._item:
            self.action_open()
        self.move_to(item)

    def action_go_home(self) -> None:
        self.move_to(0)

    def action_go_end(self) -> None:
        self.move_to(self.item_count() - 1)


SIDE_BY_SIDE: Final = 112
NOT_TINY: Final = 14
"""In this many cells or more, panes stand side by side; with fewer rows than `NOT_TINY`, only one
pane is shown."""
BREAKPOINTS_ACROSS: Final = [(0, "-narrow"), (SIDE_BY_SIDE, "-normal"), (170, "-wide")]
BREAKPOINTS_DOWN: Final = [(0, "-tiny"), (NOT_TINY, "-short"), (32, "-tall")]
