"""The names of a screen's sections in a line, the one that is shown in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.message import Message

from tui.widgets.ink import Ink, Line, Piece
from tui.widgets.line_view import LineView


class SectionStrip(LineView):
    """A click on a name chooses it. Where not all have room, those around the chosen one do."""

    can_focus = False
    DEFAULT_CSS = """
    SectionStrip { height: 1; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    class Chosen(Message):
        """A person wants to see this section."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._names: Sequence[str] = ()
        self._chosen = ""

    def show(self, names: Sequence[str], chosen: str) -> None:
        if (names, chosen) != (self._names, self._chosen):
            self._names, self._chosen = names, chosen
            self.redraw()

    def row_count(self) -> int:
        return 1

    def row(self, index: int) -> Line:
        del index
        line: list[Piece] = [Piece("─", Ink.RULE)]
        for _start, name in self._placed():
            if name == self._chosen:
                line += [Piece("[", Ink.ACCENT), Piece(name, Ink.STRONG), Piece("]", Ink.ACCENT)]
            else:
                line.append(Piece(f" {name} ", Ink.MUTED))
        used = sum(cell_len(piece.text) for piece in line)
        return [*line, Piece("─" * max(self.line_width - used, 0), Ink.RULE)]

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        for start, name in self._placed():
            if start <= event.x < start + cell_len(name) + 2:
                self.post_message(self.Chosen(name))
                return

    def _placed(self) -> list[tuple[int, str]]:
        """Where each name that has room begins."""
        names = list(self._names)
        while sum(cell_len(name) + 2 for name in names) + 2 > self.line_width and len(names) > 1:
            names.pop(0 if names[0] != self._chosen else -1)
        placed, at = [], 1
        for name in names:
            placed.append((at, name))
            at += cell_len(name) + 2
        return placed
