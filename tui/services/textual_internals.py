"""Every use of a private name of Textual, where it has no public way.

`PRIVATE` lists the names; one test fails where Textual has moved one, another where a private name
is used elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from rich.console import RenderableType
from textual.app import App
from textual.notifications import Notification
from textual.screen import Screen
from textual.timer import Timer

PRIVATE: Final = {
    "textual.app:App": frozenset(
        {
            "_close_messages_no_wait",
            "_css_update_count",
            "_display",
            "_driver",
            "_exit_renderables",
            "_fatal_error",
            "_load_screen_css",
            "_notifications",
            "_refresh_notifications",
            "_suspend_signal",
        }
    ),
    "textual.drivers.linux_driver:LinuxDriver": frozenset(
        {"_disable_mouse_support", "_enable_mouse_support", "_mouse", "_writer_thread"}
    ),
    "textual.screen:Screen": frozenset({"_compositor", "_css_update_count"}),
    "textual.drivers._writer_thread:WriterThread": frozenset({"_queue"}),
}
"""The private names that are read, called or overridden, by the class of Textual that has them."""

FULL: Final = 4
"""Frames waiting for the terminal from which on no further one is made."""
CAUGHT_UP: Final = 1
"""Frames waiting at which the next one is made again."""
LOOK_AGAIN: Final = 0.05
"""Seconds between two looks at the frames that wait."""
AT_ONCE: Final = 0.001
"""Seconds until a place that was gone to is drawn."""
MOST_NOTICES: Final = 2
"""Notices shown at once: more would cover the screen that they are about."""


def screen_text(app: App[Any]) -> str:
    """The text on the screen, one line a row, without trailing blanks."""
    strips = app.screen._compositor.render_strips(app.size)  # noqa: SLF001
    return "\n".join(strip.text.rstrip() for strip in strips).rstrip() + "\n"


class TextualApp(App[None]):
    """An app that makes no frame while the terminal has not taken the ones before it, with public
    methods for what Textual keeps private."""

    _gate: ExitStack | None = None
    _look: Timer | None = None
    _noticed_on: Screen[object] | None = None
    """The screen on which `_noticed` were shown."""
    _noticed: Sequence[Notification] = ()

    def to_terminal(self, text: str) -> None:
        """Write control sequences, such as the window's title, directly to the terminal. `text`
        must not come from outside. Without a driver nothing is written."""
        write = getattr(self._driver, "write", None)
        if write is not None:
            write(text)

    def turn_mouse(self) -> bool | None:
        """Turn mouse support on or off; whether it is on now, None without a driver. It stays so
        when the terminal comes back from a pager. Textual itself decides it only at the start."""
        driver = self._driver
        if driver is None:
            return None
        wanted = not driver._mouse  # noqa: SLF001
        driver._mouse = True  # noqa: SLF001  (both methods do nothing while it is False)
        name = "_enable_mouse_support" if wanted else "_disable_mouse_support"
        turn = getattr(driver, name, None)
        if turn is not None:  # a driver without a terminal has neither method
            turn()
        driver._mouse = wanted  # noqa: SLF001
        return wanted

    def stop_for_shell(self) -> None:
        """Give the terminal back and stop this process, until `fg`."""
        self._suspend_signal()

    def fail_with(self, text: RenderableType) -> None:
        """Exit, and print `text` on the terminal."""
        self._exit_renderables.append(text)
        self._close_messages_no_wait()

    def show_fault(self) -> None:
        """Exit with the traceback of the exception that is being handled."""
        super()._fatal_error()

    def _fatal_error(self) -> None:
        self.show_fault()

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        # otherwise Textual restyles and lays out the screen that is being left: a new screen counts
        # as outdated, although its widgets get the styles of now when they are mounted
        super()._load_screen_css(screen)
        screen._css_update_count = self._css_update_count  # noqa: SLF001

    def _refresh_notifications(self) -> None:
        # Textual would show all notices, and those of the screen before on the next one, too
        notices = self._notifications
        here = next(reversed(self.screen_stack), None)
        if here is not self._noticed_on:
            for old in self._noticed:
                del notices[old]
        for old in list(notices)[:-MOST_NOTICES]:
            del notices[old]
        self._noticed_on, self._noticed = here, list(notices)
        super()._refresh_notifications()

    def backlog(self) -> int:
        """Number of frames that the terminal has not taken yet."""
        thread = getattr(self._driver, "_writer_thread", None)
        queue = getattr(thread, "_queue", None)
        return 0 if queue is None else int(queue.qsize())

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        # a frame that waits behind others would be out of date when it is shown
        if self._gate is None and self.backlog() >= FULL:
            self._close_gate()
            return
        super()._display(screen, renderable)

    def delay_update(self, delay: float = AT_ONCE) -> None:
        """Let the screen be drawn after `delay` seconds. Textual does not draw for 0.05 s when the
        place changes, to hide a transition; there is none to hide here."""
        super().delay_update(delay)

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
        # what changed meanwhile was not drawn, and which parts those were is not known
        self.screen.refresh()
