"""The app: opens screens, keeps the clock, and leaves the terminal as it found it."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor
from textual.notifications import SeverityLevel
from textual.timer import Timer

from engine.display import clean, is_monochrome, one_line, wants_ascii
from engine.errors import CrosswindError, InputError
from engine.link import EngineLink
from engine.memory import EVERY_S, free_unused
from engine.watch import BenchmarkInfo, Watch
from tui.bindings import HasKeymap, key
from tui.navigation import MAIN_SCREENS, PLACES, Navigator, OpenedScreen, ShownNotice, preload
from tui.screens.base import Shell, WatchingScreen
from tui.screens.dialogs import ChoiceOption, ChoiceScreen, QuitChoice
from tui.services.engine_control import Backend, EngineControl
from tui.services.export import Exporter
from tui.services.preferences import Preferences, UserSettings
from tui.services.terminal import (
    AsciiFilter,
    ControlCodeFilter,
    KeyQueue,
    TerminalStatus,
    can_suspend,
    go_at_once,
    is_cut,
    suspend,
    terminal_size,
)
from tui.services.textual_internals import TextualApp
from tui.services.ticker import Ticker, Watching, hertz, instant_now
from tui.state.run_status import Instant
from tui.text.ink import Ink, shorten
from tui.text.wrap import wrap
from tui.themes import (
    INKS,
    PREFIX,
    SIXTEEN,
    THEMES,
    CachedStylesheet,
    theme_for,
)
from tui.widgets.base import Hinting
from tui.widgets.key_line import KeyLine
from tui.widgets.transcript import THIN

LINE_SECONDS: Final = 2.0
"""The interval of the checks whether the terminal still exists."""
SETTLED_SECONDS: Final = 0.4
"""The time without a new size after which the whole screen is redrawn."""

LEAVING: Final = frozenset({"ctrl+c", "ctrl+q"})
"""Keys that work before the configuration is read."""

_SUSPEND: Final = Binding(
    "ctrl+z",
    "suspend",
    "to the shell",
    tooltip="go to the shell; `fg` comes back",
    show=False,
    priority=True,
)
_SUSPENDING: Final = (_SUSPEND,) if hasattr(signal, "SIGTSTP") else ()
"""Empty on platforms without job control."""

SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)
"""Signals of a hang-up and of termination: the app exits, and the engine continues."""


class CrosswindApp(TextualApp, Hinting, HasKeymap, inherit_bindings=False):
    """The app on a watch. `run()` returns when it is left; `return_code` is the exit code."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMPONENT_CLASSES: ClassVar[set[str]] = {ink.component for ink in Ink}
    ENABLE_COMMAND_PALETTE = False
    """Crosswind has its own command palette."""
    DEFAULT_MODE = "home"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            key(place.key, f"go('{place.name}')", "screens", place.meaning)
            for place in MAIN_SCREENS
        ),
        key("q", "back", "back", "go back to where you came from"),
        key("escape,backspace", "back", "back", "go back to where you came from", show=False),
        key(
            "q",
            "leave_root",
            "quit",
            "leave Crosswind; it asks what becomes of a run",
        ),
        key("question_mark,f1", "help", "help", "what every key does"),
        key("colon,ctrl+p", "command_palette", "commands", "all commands, by name"),
        key("i", "go_to", "go to id", "go to a metric, scenario or conversation"),
        key("slash", "search", "find", "find words in everything that was said"),
        key("P", "pause", "pause", "pause the run, or let it go on"),
        key("x", "stop", "stop", "stop the run; asks how, and for a word if begun elsewhere"),
        key("y", "copy", "copy", "copy the conversation, its id, a command, or the screen"),
        key("vertical_line", "page", "pager", "read the conversation in $PAGER or $EDITOR"),
        key("E", "export", "export", "write the conversation or the screen into a file"),
        key("asterisk", "star", "star", "give the conversation a star, or take it away"),
        key("apostrophe", "stars", "starred", "go to a conversation that has a star"),
        key("tab", "focus_next", "pane", "go to the next pane"),
        key("shift+tab", "focus_previous", "previous pane", "go to the previous pane", show=False),
        key("T", "theme", "theme", "the next theme"),
        key("exclamation_mark", "messages", "messages", "the last messages, in full", show=False),
        key("z", "zoom", "zoom", "show this pane alone, or all of them again"),
        key("Z", "mouse", "mouse", "leave the mouse to the terminal, to select text, or not"),
        key("ctrl+l", "repaint", "repaint", "draw the whole screen again", show=False),
        *_SUSPENDING,
        Binding(
            "ctrl+c,ctrl+q",
            "leave",
            "quit",
            tooltip="leave Crosswind; it asks what becomes of a run",
            show=False,
            priority=True,
        ),
    ]

    fault: CrosswindError | None = None
    """The error that ended the app, for the caller to report after the app has closed."""
    _leaving = False
    """Whether to exit as soon as the engine is idle."""
    _lent = False
    """Whether a pager or an editor has the terminal."""
    _settling: Timer | None = None
    _sized = False

    def __init__(
        self,
        watch: Watch,
        *,
        title: str = "Crosswind",
        place: str | None = None,
        theme: str | None = None,
        attach: str | None = None,
        backend: Backend | None = None,
        started: int | None = None,
        first: OpenedScreen | None = None,
        describe: Callable[[], tuple[Sequence[BenchmarkInfo], EngineLink]] | None = None,
        memory: Path | None = None,
        read_keys: Callable[[], Mapping[str, str]] | None = None,
        slow: bool = False,
        moment: Callable[[], Instant] = instant_now,
    ) -> None:
        """`attach` is the command that shows a run again after leaving it. `backend` does the work
        beside the app; `started` is the process id of an engine started for this app. `first` is
        shown in place of a place, with nothing to go back to. `describe` returns what `watch` does
        not know yet; it is called once the first frame is shown, and raises `CrosswindError`.
        `memory` is the file with the user's choices. `read_keys` returns all keys of each binding
        by id if the user has added some; it may be slow, and raises `InputError`. `slow` draws
        rarely, for slow lines."""
        super().__init__()
        self.title = title
        self.no_color = self.no_color or is_monochrome(os.environ)
        self._watch = watch
        self._ticker = Ticker(watch, moment)
        workspace = watch.reader.path.parent
        self.preferences = Preferences(memory, workspace, partial(self.tell, bad=True))
        choices = self.preferences.choices
        home = NO_PLACE if first is not None else place or _known_screen(choices.place) or HOME
        self.navigator = Navigator(self, home, lambda: self.shell, self.look, first)
        backend = backend or Backend()
        self.exporter = Exporter(self, watch, self.navigator, self.tell, backend.hiding)
        self.engine = EngineControl(
            self, watch, self._ticker, backend, self.tell, self.tick, started
        )
        services = (self._ticker, self.engine, self.preferences, self.navigator)
        self.shell = Shell(watch, *services, self.tell, self.draw, self.use_theme)
        self._attach_command = attach or f"crosswind watch --workspace {workspace}"
        self._describe = describe
        self._read_keys = read_keys
        self._typed: list[events.Key] | None = None if describe is None else []
        """Keys typed before the configuration was read, to be handled then. None once it is."""
        self._keys = KeyQueue(self)
        self._moment = moment
        self._ascii = wants_ascii(os.environ)
        self._terminal_status = TerminalStatus(self.to_terminal, os.environ)
        self._slow = slow
        self._notices: deque[ShownNotice] = deque(maxlen=MOST_NOTICES)
        """Past notices, the newest first."""
        self._apply_theme(theme, choices)

    def _apply_theme(self, theme: str | None, choices: UserSettings) -> None:
        for known in THEMES:
            self.register_theme(known)
        self.set_class(self._slow, THIN)
        # frames of an animation are too many for a slow line
        self.animation_level = "none"
        self.theme = theme or self._kept_theme(choices) or theme_for(self.console.color_system)
        self.stylesheet = CachedStylesheet(variables=self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        plain: list[LineFilter] = [NoColor()] if self.no_color else []
        plain += [_ASCII] if self._ascii else []
        # last, so that no later filter brings back what it removed
        return [*super().get_line_filters(), *plain, _INERT]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Default inks for themes that are not ours."""
        return {f"ink-{name}": "ansi_default" for name in INKS}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "back":
                return not self.navigator.at_root
            case "leave_root":
                return self.navigator.at_root
            case "go" | "search" | "go_to" | "stars" if self._is_blind:
                return False  # a slip of a finger must not show what is not to be known there
            case _:
                return super().check_action(action, parameters)

    @property
    def _is_blind(self) -> bool:
        shown = self.screen_stack[-1] if self.screen_stack else None
        return isinstance(shown, WatchingScreen) and shown.blind

    def hint(self, action: str) -> str | None:
        """The hint of a key that works everywhere; see `Hinting`."""
        match action:
            case "pause":
                word = self.engine.pause_word
                # where a key runs the benchmark under the cursor, there is one key that runs
                return "" if word == "run" and hasattr(self.screen, "action_begin") else word
            case "stop":
                return None if self.engine.at_work and self.engine.pause_word else ""
            case "star":
                return self._star_word()
            case "stars":
                return None if self.preferences.views.stars else ""
            case "search" | "go_to" | "focus_next" | "zoom" if not self._watch.benchmarks:
                return ""
            case "focus_next" | "zoom":
                alone = len(self.screen.focus_chain) < 2
                zoomed = getattr(self.screen, "zoomed", None) is not None
                whole = "all panes" if zoomed and action == "zoom" else None
                return whole or ("" if alone else None)
            case _:
                return None

    def _star_word(self) -> str | None:
        subject = self.exporter.subject
        if subject is None:
            return ""
        return "no star" if subject in self.preferences.views.stars else None

    async def _take_keys(self, read: Callable[[], Mapping[str, str]]) -> None:
        """Read the user's keys after the first frame. A faulty file leaves the built-in ones."""
        try:
            self.keymap = await asyncio.to_thread(read)
        except InputError as error:
            self._tell_fault(error, "Built-in keys hold")
            return
        self.set_keymap(dict(self.keymap))
        self.look()

    def _tell_fault(self, error: InputError, then: str) -> None:
        """Report the first fault of a file that the user wrote for the app."""
        others = len(error.problems) - 1
        more = f", and {others} more" if others else ""
        first = error.problems[0]
        name = None if first.path is None else Path(first.path.name)
        short = replace(first, path=name, column=None)
        self.tell(f"{short}{more}. {then}", bad=True)

    def on_mount(self) -> None:
        self._answer_signals()
        self._terminal_status.begin()
        # at once, before keys that wait in the same queue
        for changed, lent in ((self.app_suspend_signal, True), (self.app_resume_signal, False)):
            changed.subscribe(self, partial(self._lend, lent=lent), immediate=True)
        self.screen_change_signal.subscribe(self, self.forget_notices, immediate=True)
        self.set_interval(1 / hertz(os.environ, slow=self._slow), self.tick)
        if not self.is_headless:
            self.set_interval(EVERY_S, free_unused)
        # slow work starts after the first frame
        self.call_after_refresh(self._show_first)
        self.preferences.tell_notices()

    def _show_first(self) -> None:
        self.tick()
        if self._read_keys is not None:
            self.run_worker(self._take_keys(self._read_keys), group="keys")
        # the configuration is read on a thread, and the other screens are imported after that: both
        # at once would delay the frames in between
        if self._describe is not None:
            self.call_after_refresh(self._begin_describing, self._describe)
        else:
            self.call_after_refresh(preload)

    def _begin_describing(
        self, describe: Callable[[], tuple[Sequence[BenchmarkInfo], EngineLink]]
    ) -> None:
        self.run_worker(self._describing(describe), group="describe")

    async def _describing(
        self, describe: Callable[[], tuple[Sequence[BenchmarkInfo], EngineLink]]
    ) -> None:
        try:
            self._watch.describe(*await asyncio.to_thread(describe))
        except CrosswindError as error:
            self.fault = error
            self.exit()
            return
        self.tick()
        typed, self._typed = self._typed or (), None
        for event in typed:
            self.post_message(event)
        preload()
        self.run_worker(self.engine.correct_states(), group="describe")

    async def on_event(self, event: events.Event) -> None:
        """Hold back keys while the configuration is read, as nothing can be drawn without it. Mouse
        events are dropped, and keys while another program has the terminal."""
        if self._lent and isinstance(event, events.Key):
            return  # read before: nobody would see what it does
        if self._typed is not None and isinstance(event, events.MouseEvent):
            return
        if self._typed is not None and isinstance(event, events.Key) and event.key not in LEAVING:
            self._typed.append(event)
            return
        if not isinstance(event, events.Key) or event.is_forwarded or event.key in LEAVING:
            await super().on_event(event)
        elif not self._keys.must_wait(event):
            taking = self.focused or self.screen
            await super().on_event(event)
            self._keys.follow(taking.ancestors_with_self)

    def _lend(self, _app: object, *, lent: bool) -> None:
        self._lent = lent

    def on_unmount(self) -> None:
        self._terminal_status.end()
        if self.navigator.place != NO_PLACE:
            self.preferences.keep_place(self.navigator.place, at_work=self.engine.at_work)

    def on_resize(self) -> None:
        """Redraw after a resize. A terminal may lose its contents, even if the size is back to the
        old one at once, and some take a while to do so."""
        if self._settling is not None:
            self._settling.stop()
        if self._sized:
            self._settling = self.set_timer(SETTLED_SECONDS, self.action_repaint)
        self._sized = True

    def on_app_blur(self) -> None:
        self._ticker.poll_timer.blurred_at = instant_now().seconds

    def on_app_focus(self) -> None:
        self._ticker.poll_timer.blurred_at = None

    def tick(self) -> None:
        """Poll the watch, fold what is new, and draw what is visible."""
        try:
            # one frame for the whole tick: otherwise each widget would write to the terminal by
            # itself
            with self.batch_update():
                watching = [
                    screen for screen in self.screen_stack if isinstance(screen, WatchingScreen)
                ]
                uncovered = bool(watching) and watching[-1] is self.screen_stack[-1]
                self._ticker.tick(watching, watching[-1] if uncovered else None)
        except CrosswindError as error:
            self.leave_with(error)
            return
        ended = self._terminal_status.look(self._watch, self._ticker.now)
        # the header of Live says so itself, and a notice would cover a verdict
        said = self.navigator.place == "Live" and len(self.screen_stack) == 1
        if ended is not None and not said:
            self.tell(ended.end_sentence, bad=bool(ended.failed))
        for footer in self.screen.query(KeyLine) if self.screen_stack else ():
            footer.look()
        if self._typed is None:
            self.engine.show_question(self.action_stop)
            self.engine.show_pilot()
        if self._leaving and not self.engine.at_work:
            self.exit()
        if not self.is_headless:
            self._see_to_size()

    def _see_to_size(self) -> None:
        """Check the terminal size. The system signals a change just before making it, so a handler
        may read the old size and is not called again."""
        size = terminal_size()
        if size != self.size:
            self.post_message(events.Resize(size, size))

    def draw(self, screen: Watching) -> None:
        try:
            self._ticker.draw(screen)
        except CrosswindError as error:
            self.leave_with(error)

    def look(self) -> None:
        """Draw the current screen without waiting for the next tick."""
        self.call_after_refresh(self.tick)

    def leave_with(self, error: CrosswindError) -> None:
        """Exit with the error's message and exit code."""
        self.exit(return_code=error.exit_code, message=Text(clean(str(error))))

    def action_go(self, name: str) -> None:
        self.navigator.go(name)

    async def action_back(self) -> None:
        self.navigator.back()

    def action_leave_root(self) -> None:
        self.action_leave()

    def action_command_palette(self) -> None:
        self.navigator.ask_command()

    def action_help(self) -> None:
        self.navigator.open_help()

    def action_leave(self) -> None:
        """Exit if no run is on, else ask. Asked a second time, exit and leave the run going."""
        if self.navigator.asks_how_it_ends:
            self._leave_as_decided(QuitChoice.RUNNING)
            return
        board = self._ticker.now.board
        over = self._ticker.now.status.phase.over
        # the app was opened for one screen, not for the run
        if board is None or over or self.navigator.place == NO_PLACE:
            self.exit()
            return
        own = self.engine.is_own(board)
        self.navigator.ask_how_it_ends("quit", board, self._leave_as_decided, own=own)

    def action_pause(self) -> None:
        self.engine.pause()

    def action_stop(self) -> None:
        """Ask how to stop the run, without leaving."""
        board = self._ticker.now.board
        if board is None or not self.engine.at_work:
            self.tell("No engine is at work.")
            return
        own = self.engine.is_own(board)
        self.navigator.ask_how_it_ends("stop", board, self.engine.stop, own=own)

    def action_suspend(self) -> None:
        """Suspend to the shell until `fg`; the engine continues."""
        if can_suspend():
            self.app_suspend_signal.publish(self)
            suspend()
        else:
            self.tell("There is no shell here that could bring Crosswind back: it stays.")

    def action_search(self) -> None:
        self.navigator.open_search()

    def action_go_to(self) -> None:
        self.navigator.ask_id()

    def action_copy(self) -> None:
        self.exporter.copy()

    def action_page(self) -> None:
        self.exporter.page()

    def action_export(self) -> None:
        self.exporter.export()

    def action_star(self) -> None:
        subject = self.exporter.subject
        if subject is None:
            self.tell("There is no conversation here to give a star.")
            return
        starred = self.preferences.turn_star(subject)
        has = "has a star ★, ' lists them" if starred else "has no star any more"
        self.tell(f"{subject.key} {has}")
        self.look()

    def action_stars(self) -> None:
        stars = self.preferences.views.stars
        if not stars:
            self.tell("No conversation has a star yet: * gives one.")
            return
        offers = {
            ChoiceOption("★", one_line(str(star.key)), one_line(star.benchmark)): star
            for star in stars
        }

        def chosen(offer: ChoiceOption | None) -> None:
            if offer is not None:
                self.navigator.open_conversation(*offers[offer])

        self.push_screen(ChoiceScreen("Conversations with a star", list(offers)), chosen)

    def action_theme(self) -> None:
        """Switch to the next of our themes."""
        # Textual's own themes lack our inks, so they are skipped
        names = [name for name in self.available_themes if name.startswith(PREFIX)]
        index = names.index(self.theme) if self.theme in names else -1
        self.use_theme(names[(index + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        """Switch to one of our themes by name, and remember it."""
        self.theme = name
        self.tell(f"Theme: {name.removeprefix(PREFIX)}")
        self._choose(theme=name)

    def action_zoom(self) -> None:
        if isinstance(self.screen, WatchingScreen):
            self.screen.zoom()

    def action_mouse(self) -> None:
        wanted = self.turn_mouse()
        self._choose(mouse=wanted)
        whose = "the app's" if wanted else "the terminal's, which selects text with it"
        self.tell(f"The mouse is {whose}.")

    def _choose(self, **chosen: Any) -> None:
        self.preferences.choose(replace(self.preferences.choices, **chosen))

    def _kept_theme(self, choices: UserSettings) -> str | None:
        """The remembered theme if it exists; without colours, always the terminal's own."""
        if self.no_color:
            return SIXTEEN.name
        ours = (choices.theme or "").startswith(PREFIX)
        return choices.theme if ours and choices.theme in self.available_themes else None

    def action_repaint(self) -> None:
        self.refresh(layout=True)
        for screen in self.screen_stack[-1:]:  # none is left while the app exits
            screen.refresh(layout=True)

    async def action_quit(self) -> None:
        self.action_leave()

    def tell(self, text: str, *, bad: bool = False) -> None:
        """Show a notice in two lines, its text made safe; a key shows it in full."""
        severity: SeverityLevel = "error" if bad else "information"
        whole = clean(text[:LONGEST_NOTICE])
        notice = ShownNotice(whole, bad)
        if notice not in list(self._notices)[:1]:  # listed once if repeated
            self._notices.appendleft(notice)
        self.show_notice(_in_two_lines(whole, self.size.width - 10), severity)

    def action_messages(self) -> None:
        if self._notices:
            self.navigator.open_messages(tuple(self._notices))
        else:
            self.tell("No notices yet.")

    def _leave_as_decided(self, decision: QuitChoice | None) -> None:
        if decision is QuitChoice.RUNNING:
            self.exit(message=Text(clean(self._attach_line())))
            return
        self._leaving |= decision is QuitChoice.AFTER_SPOKEN
        self.engine.stop(decision, lambda _answer: self.exit())

    def _attach_line(self) -> str:
        """The message that says how to see the run again."""
        return f"the run goes on; `{self._attach_command}` shows it again"

    def _answer_signals(self) -> None:
        """Exit cleanly on a hang-up or termination, leaving the terminal in order."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # on the event loop: a plain signal handler would run between any two steps of a screen
            loop.add_signal_handler(number, self._leave_on_signal)
        self.set_interval(LINE_SECONDS, self._go_where_line_is_cut)

    def _leave_on_signal(self) -> None:
        self._go_where_line_is_cut()
        self.exit(message=Text(clean(self._attach_line())) if self.engine.at_work else None)

    def _go_where_line_is_cut(self) -> None:
        if is_cut():
            go_at_once()

    def show_fault(self) -> None:
        """Report a bug of ours. Textual would print the values of variables, which hold what models
        said, so only the traceback is shown."""
        self.bell()
        lines = clean(traceback.format_exc(limit=-8))
        text = Text(f"Crosswind's screen failed; the store is not harmed.\n\n{lines}")
        self.panic(text)


def _in_two_lines(text: str, width: int) -> str:
    """Cut a notice to its lines, with the key that shows all of it."""
    words = " ".join(text.split())
    rows = wrap(words, width)
    if len(rows) <= NOTICE_LINES:
        return words
    seen = words[: rows[NOTICE_LINES - 1].end]
    return shorten(seen, cell_len(seen) - len(_MORE)) + _MORE


def _known_screen(place: str | None) -> str | None:
    return place if place in PLACES else None


NOTICE_LINES: Final = 2
_MORE: Final = " ! shows all"
MOST_NOTICES: Final = 50
LONGEST_NOTICE: Final = 4000
"""The most characters kept of a notice."""
HOME: Final = "Live"
NO_PLACE: Final = ""
"""The place of an app opened for one screen alone."""
_ASCII: Final = AsciiFilter()
_INERT: Final = ControlCodeFilter()
