"""The one clock that draws, and work beside a screen's loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Final, Protocol, runtime_checkable

from textual.dom import DOMNode
from textual.worker import WorkType

from engine.facts import Fact
from engine.link import Board
from engine.watch import Watch
from tui.state.run_status import Instant

LOCAL_HERTZ: Final = 12.0
REMOTE_HERTZ: Final = 5.0
"""Over SSH, each frame is a packet that somebody waits for."""
SLOW_HERTZ: Final = 2.0
"""For lines so thin that a person asks for it."""
UNSEEN_SECONDS: Final = 1.0
"""Between two looks while nobody looks."""
UNSEEN_AFTER: Final = 30.0
"""Seconds without the focus after which we take it that nobody looks."""


def instant_now() -> Instant:
    return Instant(datetime.now(UTC), monotonic())


def hertz(environ: Mapping[str, str], *, slow: bool = False) -> float:
    """How often to draw, in looks a second: less often over SSH, and seldom where it is `slow`."""
    if slow:
        return SLOW_HERTZ
    return REMOTE_HERTZ if environ.get("SSH_CONNECTION") else LOCAL_HERTZ


@dataclass(slots=True)
class PollTimer:
    """Whether it is time to look again."""

    blurred_at: float | None = None
    """Since when the terminal has not had the focus."""
    _looked_at: float = float("-inf")

    def due(self, seconds: float) -> bool:
        """Whether to look now; where it says so, that counts as a look. `seconds` is the clock that
        only goes forward."""
        unseen = self.blurred_at is not None and seconds - self.blurred_at > UNSEEN_AFTER
        if unseen and seconds - self._looked_at < UNSEEN_SECONDS:
            return False
        self._looked_at = seconds
        return True


@runtime_checkable
class Watching(Protocol):
    """A screen that shows a run."""

    def receive(self, facts: Sequence[Fact]) -> None:
        """Note what these change. Called whether the screen is seen or not; draws nothing."""
        ...

    def draw(self, board: Board | None, moment: Instant) -> None:
        """Draw what has changed. Called only while the screen is seen."""
        ...


class Ticker:
    """Asks `watch` and hands on what it says."""

    def __init__(self, watch: Watch, moment: Callable[[], Instant] = instant_now) -> None:
        self.poll_timer = PollTimer()
        self.board: Board | None = None
        """As of the last look; None where no engine is known."""
        self.listeners: set[Watching] = set()
        """Screens that hear of facts, whether they are shown or not."""
        self._watch = watch
        self._moment = moment

    def tick(self, screens: Sequence[object]) -> None:
        """Let these and all listeners hear, and the last of `screens` draw. Raises `StoreError`."""
        moment = self._moment()
        if not self.poll_timer.due(moment.seconds):
            return
        facts = self._watch.poll()
        self._tick()
        watching = [screen for screen in screens if isinstance(screen, Watching)]
        if facts:
            # also those that are covered: a screen that comes up again draws at once, and has
            # missed nothing
            for screen in {*watching, *self.listeners}:
                screen.receive(facts)
        if watching and watching[-1] is screens[-1]:
            watching[-1].draw(self.board, moment)

    def draw(self, screen: Watching) -> None:
        """Have a screen that comes up draw what is known."""
        self._tick()
        screen.draw(self.board, self._moment())

    def _tick(self) -> None:
        link = self._watch.link
        self.board = None if link is None else link.board()


AsyncWork = Callable[[], Coroutine[None, None, None]]


def begin(node: DOMNode, work: AsyncWork, group: str) -> None:
    """Start work that runs beside whatever else of its group is at work."""
    _begin(node, work, group, exclusive=False)


def begin_instead(node: DOMNode, work: AsyncWork, group: str) -> None:
    """Nobody waits any more for what else of its group is at work."""
    _begin(node, work, group, exclusive=True)


def _begin(node: DOMNode, work: WorkType[None], group: str, *, exclusive: bool) -> None:
    # not the coroutine itself: it would be left lying where the next one comes at once
    node.run_worker(work, group=group, exclusive=exclusive)
