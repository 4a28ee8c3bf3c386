"""Every use of a private name of Textual, where it has no public way.

`PRIVATE` lists the names; one test fails where Textual has moved one, another where a private name
is used elsewhere.
"""

from __future__ import annotations

from contextlib import ExitStack
from time import monotonic
from typing import Any, Final, NamedTuple

from rich.console import RenderableType
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer

PRIVATE: Final = {
    "textual.app:App": frozenset(
        {"_css_update_count", "_display", "_fatal_error", "_load_screen_css"}
    ),
    "textual.drivers.linux_driver:LinuxDriver": frozenset({"_writer_thread"}),
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


class TerminalDriver(LinuxDriver):
    """A driver whose mouse can be turned off and on. Textual decides it once, at the start."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=False, size=size)
        if isinstance(app, TextualApp):
            app.terminal, app.uses_mouse = self, mouse
        self._app_uses_mouse = mouse

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual has it so
        if self._app_uses_mouse:
            self.turn_mouse(on=True)

    def stop_application_mode(self) -> None:
        if self._app_uses_mouse:
            self._report_mouse(on=False)
        super().stop_application_mode()

    def turn_mouse(self, *, on: bool) -> None:
        """Have the terminal report the mouse, or leave it to select text; also when it comes back
        from a pager."""
        self._app_uses_mouse = on
        self._report_mouse(on=on)

    def _report_mouse(self, *, on: bool) -> None:
        # buttons, movements, and columns beyond 223 in two ways, as Textual asks for them
        for mode in (1000, 1003, 1015, 1006):
            self.write(f"\x1b[?{mode}{'h' if on else 'l'}")
        self.flush()

    @property
    def backlog(self) -> int:
        """Number of writes that the terminal has not taken yet."""
        queue = getattr(self._writer_thread, "_queue", None)
        return 0 if queue is None else int(queue.qsize())


class _Notice(NamedTuple):
    text: str
    severity: SeverityLevel
    ends_at: float
    """On the monotonic clock."""


class TextualApp(App[None]):
    """An app that makes no frame while the terminal has not taken the ones before it, with public
    methods for what Textual keeps private."""

    terminal: TerminalDriver | None = None
    """The terminal that it draws on; None without one, as in tests."""
    uses_mouse = True
    _gate: ExitStack | None = None
    _look: Timer | None = None
    _noticed: tuple[_Notice, ...] = ()
    """The notices that are shown, the newest last."""
    _shows_anew = False
    """Whether they are about to be shown anew, without those that are too many."""

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)

    def to_terminal(self, text: str) -> None:
        """Write control sequences, such as the window's title, directly to the terminal. `text`
        must not come from outside."""
        if self.terminal is not None:
            self.terminal.write(text)

    def turn_mouse(self) -> bool:
        """Turn the mouse on or off; whether it is on now."""
        self.uses_mouse = not self.uses_mouse
        if self.terminal is not None:
            self.terminal.turn_mouse(on=self.uses_mouse)
        return self.uses_mouse

    def show_notice(self, text: str, severity: SeverityLevel) -> None:
        """Show a notice, and of those before it as many as there is room for. `text` is clean."""
        now = monotonic()
        before = [each for each in self._noticed if each.ends_at > now]
        notice = _Notice(text, severity, now + self.NOTIFICATION_TIMEOUT)
        self._noticed = (*before[1 - MOST_NOTICES :], notice)
        if len(before) < MOST_NOTICES:
            self.notify(text, severity=severity, markup=False)
        elif not self._shows_anew:
            self._shows_anew = True
            # behind the notices that Textual has not taken in yet
            self.call_later(self._show_notices_anew)

    def _show_notices_anew(self) -> None:
        self._shows_anew = False
        self.clear_notifications()
        for text, severity, ends_at in self._noticed:
            left = max(ends_at - monotonic(), 0)
            self.notify(text, severity=severity, timeout=left, markup=False)

    def forget_notices(self, _screen: object) -> None:
        """Show no notice on the next screen, as Textual would."""
        self._noticed = ()
        self.clear_notifications()

    def show_fault(self) -> None:
        """Exit with what is said of the exception that is being handled."""

    def _fatal_error(self) -> None:
        self.show_fault()

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        # otherwise Textual restyles and lays out the screen that is being left: a new screen counts
        # as outdated, although its widgets get the styles of now when they are mounted
        super()._load_screen_css(screen)
        screen._css_update_count = self._css_update_count  # noqa: SLF001

    def backlog(self) -> int:
        """Number of frames that the terminal has not taken yet."""
        return 0 if self.terminal is None else self.terminal.backlog

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
