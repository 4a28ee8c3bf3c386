"""What the screens that show a run have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.screen import Screen

from engine.facts import Fact
from engine.link import Board
from engine.watch import Watch
from tui.shell import Shell, Subject
from tui.ticker import Moment
from tui.widgets.ink import Ink, Line, Piece
from tui.wording import SCRIPTED

SIDE_BY_SIDE: Final = 112
NOT_TINY: Final = 14
"""Cells from which on two panes stand side by side, and rows from which on there is more than one
pane."""
BREAKPOINTS_ACROSS: Final = [(0, "-narrow"), (SIDE_BY_SIDE, "-normal"), (170, "-wide")]
BREAKPOINTS_DOWN: Final = [(0, "-tiny"), (NOT_TINY, "-short"), (32, "-tall")]
ROOM_FOR_NOTICE: Final = 72
"""Cells from which on the whole of a notice fits into the header."""


def heading(screen: WatchingScreen, name: str, told: Line) -> tuple[Line, Line]:
    """Both ends of a place's first line: where one is and what there is to say of it, and whether
    scripts play a part."""
    roomy = screen.app.size.width >= ROOM_FOR_NOTICE
    left = [Piece(" "), *([Piece("Crosswind  ", Ink.ACCENT)] if roomy else [])]
    left += [Piece(name + "  ", Ink.STRONG), *told]
    if not any(info.scripted for info in screen.watched.benchmarks):
        return left, ()
    return left, [Piece(SCRIPTED if roomy else "scripted", Ink.WARN), Piece(" ")]


class WatchingScreen(Screen[None], inherit_bindings=False):
    """Rebuilds from what is watched, and owns nothing that would be missed."""

    HORIZONTAL_BREAKPOINTS = BREAKPOINTS_ACROSS
    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watched = watch

    @property
    def shell(self) -> Shell:
        """The app around it."""
        app = self.app
        assert isinstance(app, Shell)  # noqa: S101  (no other app opens these screens)
        return app

    def on_mount(self) -> None:
        self.shell.listeners.add(self)

    def on_unmount(self) -> None:
        self.shell.listeners.discard(self)

    @property
    def subject(self) -> Subject | None:
        """What is copied, exported and read in the pager from here; None where there is none."""
        return None

    def hear(self, facts: Sequence[Fact]) -> None:
        """Note what these change; draws nothing."""
        raise NotImplementedError

    def draw(self, board: Board | None, moment: Moment) -> None:
        """Draw what has changed. It may be called before the screen is up, and while it goes."""
        raise NotImplementedError
