"""The timer that has the screens drawn, and workers that run beside the app's loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Final, Protocol

from textual.dom import DOMNode
from textual.worker import WorkType

from engine.facts import Fact
from engine.watch import Watch
from tui.state.run_status import Instant, Snapshot

LOCAL_HERTZ: Final = 12.0
REMOTE_HERTZ: Final = 5.0
"""Over SSH each frame is traffic, and echoed keys wait behind it."""
SLOW_HERTZ: Final = 2.0
"""For connections so slow that a person asks for fewer frames."""
UNSEEN_SECONDS: Final = 1.0
"""Between two polls while the terminal has no focus."""
UNSEEN_AFTER: Final = 30.0
"""Seconds without the focus after which polls become rare."""


def instant_now() -> Instant:
    return Instant(datetime.now(UTC), monotonic())


def hertz(environ: Mapping[str, str], *, slow: bool = False) -> float:
    """Draws a second: fewer over SSH, and fewest with `slow`."""
    if slow:
        return SLOW_HERTZ
    return REMOTE_HERTZ if environ.get("SSH_CONNECTION") else LOCAL_HERTZ


@dataclass(slots=True)
class PollTimer:
    """Tells when the next poll is due."""

    blurred_at: float | None = None
    """When the terminal lost the focus, on the monotonic clock; None while it has it."""
    _looked_at: float = float("-inf")

    def due(self, seconds: float) -> bool:
        """Whether to poll now; if so, this call counts as the poll. `seconds` is the monotonic
        clock."""
        unseen = self.blurred_at is not None and seconds - self.blurred_at > UNSEEN_AFTER
        if unseen and seconds - self._looked_at < UNSEEN_SECONDS:
            return False
        self._looked_at = seconds
        return True


class Watching(Protocol):
    """A screen that shows a run."""

    def receive(self, facts: Sequence[Fact]) -> None:
        """Note what these facts change, without drawing. Called for covered screens, too."""
        ...

    def draw(self, now: Snapshot) -> None:
        """Draw what has changed. Called only while the screen is the uppermost."""
        ...


class Ticker:
    """Polls the store and the engine's link, hands facts to the screens and has one drawn."""

    def __init__(self, watch: Watch, moment: Callable[[], Instant] = instant_now) -> None:
        self.poll_timer = PollTimer()
        self.listeners: set[Watching] = set()
        """Screens that receive facts, whether they are shown or not."""
        self._watch = watch
        self._moment = moment
        self.now = Snapshot.of(watch, None, moment())
        """As of the last poll."""

    def tick(self, screens: Sequence[Watching], top: Watching | None) -> None:
        """Poll once: hand the facts to `screens` and to all listeners, and draw `top`, the one that
        nothing covers. Raises `StoreError`."""
        moment = self._moment()
        if not self.poll_timer.due(moment.seconds):
            return
        facts = self._watch.poll()
        self._look(moment)
        if facts:
            # covered screens as well: one that is uncovered draws at once and must be complete
            for screen in {*screens, *self.listeners}:
                screen.receive(facts)
        if top is not None:
            top.draw(self.now)

    def draw(self, screen: Watching) -> None:
        """Draw a screen that is being opened, without a poll."""
        self._look(self._moment())
        screen.draw(self.now)

    def _look(self, moment: Instant) -> None:
        link = self._watch.link
        self.now = Snapshot.of(self._watch, None if link is None else link.board(), moment)


AsyncWork = Callable[[], Coroutine[None, None, None]]


def begin(node: DOMNode, work: AsyncWork, group: str) -> None:
    """Start a worker beside the others of its group."""
    _begin(node, work, group, exclusive=False)


def begin_instead(node: DOMNode, work: AsyncWork, group: str) -> None:
    """Start a worker and cancel the others of its group."""
    _begin(node, work, group, exclusive=True)


def _begin(node: DOMNode, work: WorkType[None], group: str, *, exclusive: bool) -> None:
    # the function and not its coroutine, which would never be awaited where the worker is
    # cancelled before it starts
    node.run_worker(work, group=group, exclusive=exclusive)
