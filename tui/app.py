"""The app: opens screens, keeps the clock, and leaves the terminal as it found it."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

from engine.display import clean
from engine.errors import CrosswindError
from engine.link import Command, EngineState, Request
from engine.watch import Watch
from tui.congestion import Gated
from tui.display import Inert
from tui.keys import Deed, deeds_by_place, key
from tui.screens.live import LiveScreen
from tui.screens.quit import Leaving, QuitScreen
from tui.situation import current_benchmark, situation
from tui.themes import INKS, THEMES, theme_for
from tui.ticker import Moment, Ticker, hertz, now

SIGNALS: Final = {signal.SIGHUP: 129, signal.SIGTERM: 143}
"""What to leave with, by the custom of shells: 128 and the signal's number."""


class CrosswindApp(Gated, App[None], inherit_bindings=False):
    """A face for what `watch` tells. `run()` returns when it is left; `return_code` says how."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        key("question_mark,f1", "help", "help", "what every key does"),
        key("colon,ctrl+p", "command_palette", "commands", "all commands, by name"),
        key("P", "pause", "pause", "pause the run, or let it go on"),
        key("tab", "focus_next", "pane", "go to the next pane"),
        key("shift+tab", "focus_previous", "pane before", "go to the pane before", show=False),
        key("T", "theme", "theme", "dark, light, or the terminal's own colours"),
        key("ctrl+l", "repaint", "repaint", "draw the whole screen again", show=False),
        Binding(
            "ctrl+c,ctrl+q",
            "leave",
            "leave",
            tooltip="leave Crosswind",
            show=False,
            priority=True,
        ),
    ]

    def __init__(
        self,
        watch: Watch,
        *,
        title: str = "Crosswind",
        theme: str | None = None,
        moment: Callable[[], Moment] = now,
    ) -> None:
        super().__init__()
        self.title = title
        self._watch = watch
        self._ticker = Ticker(watch, moment)
        self._leaving = False
        """Whether to go as soon as the engine has come to rest."""
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = theme or theme_for(self.console.color_system)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), _INERT]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """For themes that are not ours."""
        return {f"ink-{name}": "ansi_default" for name in INKS}

    def get_default_screen(self) -> Screen[None]:
        return LiveScreen(self._watch)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for _place, found in deeds_by_place(screen):
            for deed in found:
                keys = ", ".join(deed.keys)
                yield SystemCommand(
                    deed.meaning[:1].upper() + deed.meaning[1:],
                    f"key {keys}",
                    partial(self._do, deed),
                )

    def on_mount(self) -> None:
        self._answer_signals()
        self.set_interval(1 / hertz(os.environ), self.tick)
        self.call_after_refresh(self.tick)

    def on_app_blur(self) -> None:
        self._ticker.pace.blurred_at = now().seconds

    def on_app_focus(self) -> None:
        self._ticker.pace.blurred_at = None

    def tick(self) -> None:
        """Pull, fold, draw."""
        try:
            with self.batch_update():
                self._ticker.tick(self.screen_stack)
        except CrosswindError as error:
            self.leave_with(error)
            return
        board = self._ticker.board
        if self._leaving and (board is None or board.state is EngineState.STOPPED):
            self.exit()

    def leave_with(self, error: CrosswindError) -> None:
        """Go, with the error's message and exit code."""
        self.exit(return_code=error.exit_code, message=Text(clean(str(error))))

    def action_help(self) -> None:
        # Imported when it is first asked for, which is seldom at the start.
        from tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_leave(self) -> None:
        """Go at once where the run is over; else ask. Asked a second time, stop in good order."""
        if isinstance(self.screen, QuitScreen):
            self.screen.dismiss(Leaving.AFTER_SPOKEN)
            return
        board = self._ticker.board
        benchmark = current_benchmark(self._watch)
        phase = situation(self._watch.progress, board, benchmark).phase
        if board is None or phase.over:
            self.exit()
            return
        self.push_screen(QuitScreen(len(board.speaking)), self._leave_as_decided)

    def action_pause(self) -> None:
        """Pause, or go on."""
        board = self._ticker.board
        if board is None:
            self.notify("No engine is at work.", markup=False)
            return
        paused = board.state is EngineState.PAUSED
        self._command(Command.RESUME if paused else Command.PAUSE)

    def action_theme(self) -> None:
        """The next of our themes."""
        names = [theme.name for theme in THEMES]
        index = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(index + 1) % len(names)]

    def action_repaint(self) -> None:
        self.refresh(layout=True)
        self.screen.refresh(layout=True)

    async def action_quit(self) -> None:
        self.action_leave()

    async def _do(self, deed: Deed) -> None:
        await self.run_action(deed.action, deed.node)

    def _leave_as_decided(self, decision: Leaving | None) -> None:
        match decision:
            case Leaving.AFTER_SPOKEN:
                self._leaving = True
                self._command(Command.STOP)
            case Leaving.NOW:
                self._command(Command.STOP_NOW)
                self.exit()
            case _:
                pass

    def _command(self, command: Command) -> None:
        """Ask the engine, and show what it says where it says something."""
        if self._watch.link is None:
            return
        answer = self._watch.link.ask(Request(command))
        if answer.text or not answer.accepted:
            self.notify(
                clean(answer.text) or "The engine refused.",
                severity="information" if answer.accepted else "warning",
                markup=False,
            )

    def _answer_signals(self) -> None:
        """A hung-up line or a polite end still leaves the terminal in order."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number, code in SIGNALS.items():
            loop.add_signal_handler(number, partial(self.exit, return_code=code))

    def _fatal_error(self) -> None:
        """A fault of ours. Textual would show the values of variables, and they hold what models
        said; where it happened is enough."""
        self.bell()
        lines = clean(traceback.format_exc(limit=-8))
        text = Text(f"Crosswind's screen failed; the store is not harmed.\n\n{lines}")
        self._exit_renderables.append(text)
        self._close_messages_no_wait()


_INERT: Final = Inert()
