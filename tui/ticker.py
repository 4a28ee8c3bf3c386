"""The one clock that draws: it pulls what is new, folds it, and lets the screen that is seen draw.

Facts arrive fast, frames are drawn slowly. Nothing else repaints a pane because of data, so the
cost of a run does not depend on how much is said in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Final, NamedTuple, Protocol, runtime_checkable

from engine.facts import Fact
from engine.link import Board
from engine.watch import Watch

LOCAL_HERTZ: Final = 12.0
REMOTE_HERTZ: Final = 5.0
"""Over SSH, each frame is a packet that somebody waits for."""
SLOW_HERTZ: Final = 2.0
"""For lines so thin that a person asks for it."""
UNSEEN_SECONDS: Final = 1.0
"""Between two looks while nobody looks."""
UNSEEN_AFTER: Final = 30.0
"""Seconds without the focus after which we take it that nobody looks."""


class Moment(NamedTuple):
    """Now, on the wall and on the clock that only goes forward."""

    at: datetime
    seconds: float


def now() -> Moment:
    return Moment(datetime.now(UTC), monotonic())


def hertz(environ: Mapping[str, str], *, slow: bool = False) -> float:
    if slow:
        return SLOW_HERTZ
    return REMOTE_HERTZ if environ.get("SSH_CONNECTION") else LOCAL_HERTZ


@dataclass(slots=True)
class Pace:
    """Whether it is time to look again."""

    blurred_at: float | None = None
    """Since when the terminal has not had the focus."""
    _looked_at: float = float("-inf")

    def due(self, seconds: float) -> bool:
        unseen = self.blurred_at is not None and seconds - self.blurred_at > UNSEEN_AFTER
        if unseen and seconds - self._looked_at < UNSEEN_SECONDS:
            return False
        self._looked_at = seconds
        return True


@runtime_checkable
class Watching(Protocol):
    """A screen that shows a run."""

    def hear(self, facts: Sequence[Fact]) -> None:
        """Note what these change. Called whether the screen is seen or not; draws nothing."""
        ...

    def draw(self, board: Board | None, moment: Moment) -> None:
        """Draw what has changed. Called only while the screen is seen."""
        ...


class Ticker:
    """Asks `watch` and hands on what it says."""

    def __init__(self, watch: Watch, moment: Callable[[], Moment] = now) -> None:
        self.pace = Pace()
        self.board: Board | None = None
        self._watch = watch
        self._moment = moment

    def tick(self, screens: Sequence[object], others: Collection[Watching] = ()) -> None:
        """Let all of them hear and the last of `screens` draw. Raises `StoreError`."""
        moment = self._moment()
        if not self.pace.due(moment.seconds):
            return
        facts = self._watch.poll()
        self._look()
        watching = [screen for screen in screens if isinstance(screen, Watching)]
        if facts:
            for screen in {*watching, *others}:
                screen.hear(facts)
        if watching and watching[-1] is screens[-1]:
            watching[-1].draw(self.board, moment)

    def draw(self, screen: Watching) -> None:
        """Have a screen that comes up draw what is known."""
        self._look()
        screen.draw(self.board, self._moment())

    def _look(self) -> None:
        link = self._watch.link
        self.board = None if link is None else link.board()
