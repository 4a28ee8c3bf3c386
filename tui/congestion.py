"""Keeps the app alive on a terminal that does not take what it is sent.

Textual hands frames to a thread through a queue of thirty, and waits, with everything else on its
loop, when the queue is full. So frames are left out while the terminal lags behind, and one whole
frame is drawn when it has caught up. On a slow line this lowers the frame rate by itself.

`_display` and the driver's `_writer_thread` are not public: the version of Textual is bounded, and
without them nothing is lost but the guard.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from rich.console import RenderableType
from textual.app import App
from textual.screen import Screen
from textual.timer import Timer

FULL: Final = 4
"""Frames waiting from which on no more are sent."""
CAUGHT_UP: Final = 1
LOOK_AGAIN: Final = 0.05
"""Seconds."""


class Gated(App[None]):
    """An app whose frames pass a gate."""

    _gate: ExitStack | None = None
    _look: Timer | None = None

    def backlog(self) -> int:
        """Frames that the terminal has not taken yet."""
        thread = getattr(self._driver, "_writer_thread", None)
        queue = getattr(thread, "_queue", None)
        return 0 if queue is None else int(queue.qsize())

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self._gate is None and self.backlog() >= FULL:
            self._close_gate()
            return
        super()._display(screen, renderable)

    def _close_gate(self) -> None:
        self._gate = ExitStack()
        self._gate.enter_context(self.batch_update())
        self._look = self.set_interval(LOOK_AGAIN, self._try_gate)

    def _try_gate(self) -> None:
        if self._gate is None or self.backlog() > CAUGHT_UP:
            return
        gate, self._gate = self._gate, None
        if self._look is not None:
            self._look.stop()
        gate.close()
        self.screen.refresh()
