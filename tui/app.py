"""The app: opens screens, keeps the clock, and leaves the terminal as it found it."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, NoColor
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer

from engine.display import clean
from engine.errors import CrosswindError, InputError
from engine.link import Answer, Board, Command, EngineLink, EngineState, Request
from engine.pipeline.order import Order, PricedOrder
from engine.watch import BenchmarkInfo, Watch
from tui.bindings import Deed, deeds_by_place, key
from tui.launch import preload
from tui.navigation import PLACES
from tui.screens.watching import WatchingScreen
from tui.services.display import Inert
from tui.services.engine_control import order_for
from tui.services.preferences import Choices, Memory
from tui.services.starring import Starring
from tui.services.terminal import (
    PROGRESS_VARIABLE,
    Gated,
    Manners,
    can_suspend,
    go_at_once,
    is_cut,
    suspend,
    terminal_size,
)
from tui.services.ticker import Moment, Ticker, Watching, hertz, now
from tui.state.run_status import current_benchmark, situation
from tui.themes import INKS, PREFIX, SIXTEEN, THEMES, ParsedOnce, theme_for
from tui.widgets.ink import Ink
from tui.widgets.transcript import THIN

if TYPE_CHECKING:
    from textual.command import Provider

    from engine.pipeline.report import Report
    from tui.screens.quit import Leaving

LINE_SECONDS: Final = 2.0
"""Between two looks at whether the terminal is still there."""
SETTLED_SECONDS: Final = 0.4
"""Without a new size, after which a terminal is drawn as a whole."""

PRICED: Final = frozenset({Command.EVALUATE, Command.SIMULATE})
"""Commands whose dialog says what they cost."""

QUOTED: Final = frozenset({Command.RUN, Command.RETRY})
"""Commands before which a person is asked whether they may cost what they cost."""

LEAVING: Final = frozenset({"ctrl+c", "ctrl+q"})
"""Keys that do not wait until everything is read."""

_SUSPEND: Final = Binding(
    "ctrl+z",
    "suspend",
    "to the shell",
    tooltip="go to the shell for a while; `fg` there comes back",
    show=False,
    priority=True,
)
_SUSPENDING: Final = (_SUSPEND,) if hasattr(signal, "SIGTSTP") else ()
"""Only where the platform has it."""

SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM)
"""A line that is cut, or a polite end: the app goes, and the engine feels none of it."""


def name_commands() -> type[Provider]:
    """Benchmarks, targets and themes in the palette; loaded with it."""
    from tui.services.palette import FoundNames

    return FoundNames


def id_commands() -> type[Provider]:
    """Ids in the palette; loaded with it."""
    from tui.services.palette import FoundIds

    return FoundIds


class CrosswindApp(Gated, Starring, inherit_bindings=False):
    """A face for what `watch` tells. `run()` returns when it is left; `return_code` says how."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMPONENT_CLASSES: ClassVar[set[str]] = {ink.component for ink in Ink}
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = App.COMMANDS | {id_commands, name_commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        *(key(place.key, f"go('{place.name}')", "screens", place.meaning) for place in PLACES),
        key("q", "back", "back", "back to where you came from"),
        key("escape,backspace", "back", "back", "back to where you came from", show=False),
        key("q", "leave_root", "quit", "leave; asks what is to become of the run"),
        key("question_mark,f1", "help", "help", "what every key does"),
        key("colon,ctrl+p", "command_palette", "commands", "all commands, by name"),
        key("i", "go_to", "go to id", "go to a scenario or conversation by its id"),
        key("slash", "search", "find", "find words in everything that was said"),
        key("P", "pause", "pause", "pause the run, or let it go on"),
        key(
            "x",
            "stop",
            "stop",
            "stop the run; asks how, and for the word where it was started elsewhere",
        ),
        key("y", "copy", "copy", "copy the conversation, its id, a command, or the screen"),
        key("e", "page", "pager", "read the conversation in $PAGER or $EDITOR"),
        key("E", "export", "export", "write the conversation or the screen into a file"),
        key("asterisk", "star", "star", "give the conversation a star, or take it away"),
        key("apostrophe", "stars", "starred", "go to a conversation that has a star"),
        key("tab", "focus_next", "pane", "go to the next pane"),
        key("shift+tab", "focus_previous", "pane before", "go to the pane before", show=False),
        key(
            "T",
            "theme",
            "theme",
            "dark, light, high contrast, blue and orange, or the terminal's own",
        ),
        key("z", "zoom", "zoom", "this pane alone, or all of them again"),
        key("Z", "mouse", "mouse", "leave the mouse to the terminal, to select text, or take it"),
        key("ctrl+l", "repaint", "repaint", "draw the whole screen again", show=False),
        *_SUSPENDING,
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
        place: str | None = None,
        theme: str | None = None,
        attach: str | None = None,
        start: Callable[[Order | None], int] | None = None,
        started: int | None = None,
        cost: Callable[[Order], PricedOrder | None] | None = None,
        make: Callable[[str], BenchmarkInfo] | None = None,
        describe: Callable[[], tuple[Sequence[BenchmarkInfo], EngineLink]] | None = None,
        report: Callable[[str], Report] | None = None,
        memory: Memory | None = None,
        slow: bool = False,
        moment: Callable[[], Moment] = now,
    ) -> None:
        """`attach` is the command that shows a run again that was left running. `start` starts an
        engine, with nothing to do yet where there is no order, blocks until it is ready, gives its
        process id, and raises `CrosswindError`; `started` is the engine that was started for this
        app before it opened; `cost` says what that would be paid, None where it is free. `make`
        makes a benchmark of that name, `report` adds up what the verdicts of one say, `describe`
        says what `watch` does not know yet, and is asked when the first frame is on the screen; all
        raise the same. `memory` keeps what a person chooses for the next time. `slow` draws seldom,
        for thin lines."""
        kept = Choices() if memory is None else memory.choices
        super().__init__(watch, place or _known(kept.place) or HOME)
        self.title = title
        self._ticker = Ticker(watch, moment)
        self._attach_command = attach or f"crosswind watch --workspace {watch.reader.path.parent}"
        self._start = start
        self._started = started
        """The process id of the last engine that this app started: its run may be stopped by a
        short key, any other only by a word."""
        self._cost = cost
        self._make = make
        self._describe = describe
        self._typed: list[events.Key] | None = None if describe is None else []
        """What was typed before everything was read, to be done then."""
        self.fault: CrosswindError | None = None
        """What has ended the app, where it is to be told when the app has gone."""
        self._report = report
        self._listeners: set[Watching] = set()
        self._moment = moment
        wants_progress = bool(os.environ.get(PROGRESS_VARIABLE))
        self._manners = Manners(self.to_terminal, progress=wants_progress)
        self._memory = memory
        self._settling: Timer | None = None
        self._sized = False
        self._choices = kept
        self.kept_beside = None if memory is None else memory.path
        self._slow = slow
        self.set_class(slow, THIN)
        self._leaving = False
        """Whether to go as soon as the engine has come to rest."""
        self._question_asked: str | None = None
        """What of the engine's was asked last."""
        for ours in THEMES:
            self.register_theme(ours)
        self.animation_level = "none"
        self.theme = theme or self._kept_theme(kept) or theme_for(self.console.color_system)
        self.stylesheet = ParsedOnce(variables=self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        plain = [NoColor()] if self.no_color else []
        return [*super().get_line_filters(), *plain, _INERT]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """For themes that are not ours."""
        return {f"ink-{name}": "ansi_default" for name in INKS}

    @property
    def listeners(self) -> set[Watching]:
        return self._listeners

    @property
    def board(self) -> Board | None:
        return self._ticker.board

    @property
    def engine_is_at_work(self) -> bool:
        return self.board is not None and self.board.state not in _GONE

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "back":
                return not self.at_root
            case "leave_root":
                return self.at_root
            case _:
                return super().check_action(action, parameters)

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
        self._manners.begin()
        self.set_interval(1 / hertz(os.environ, slow=self._slow), self.tick)
        self.call_after_refresh(self._show_first)
        self._say_memory_notice()

    def _show_first(self) -> None:
        self.tick()
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

    async def on_event(self, event: events.Event) -> None:
        """While the configuration is read, nothing is opened that would be drawn without it: what
        is typed ahead waits."""
        if self._typed is not None and isinstance(event, events.MouseEvent):
            return
        if self._typed is not None and isinstance(event, events.Key) and event.key not in LEAVING:
            self._typed.append(event)
            return
        await super().on_event(event)

    def on_unmount(self) -> None:
        self._manners.end()
        if self._memory is not None:
            self._memory.keep(replace(self.choices, place=self.place))
            self.keep_place(at_work=self.engine_is_at_work)

    def on_resize(self) -> None:
        """A terminal may forget what stood on it, also where a size came and went so fast that
        nothing seems to have changed, and some take their time with it."""
        if self._settling is not None:
            self._settling.stop()
        if self._sized:
            self._settling = self.set_timer(SETTLED_SECONDS, self.action_repaint)
        self._sized = True

    def on_app_blur(self) -> None:
        self._ticker.pace.blurred_at = now().seconds

    def on_app_focus(self) -> None:
        self._ticker.pace.blurred_at = None

    def tick(self) -> None:
        """Pull, fold, draw."""
        try:
            with self.batch_update():
                self._ticker.tick(self.screen_stack, self._listeners)
        except CrosswindError as error:
            self.leave_with(error)
            return
        ended = self._manners.look(self._watch, self.board, self._moment().seconds)
        if ended is not None:
            self.tell(f"The run is over: {ended.words}.", bad=bool(ended.failed))
        self._ask_for_more()
        if self._leaving and not self.engine_is_at_work:
            self.exit()
        if not self.is_headless:
            self._see_to_size()

    def _see_to_size(self) -> None:
        """The system tells of a new size just before it makes it: who looks at once may see the old
        one, and is not told again."""
        size = terminal_size()
        if size != self.size:
            self.post_message(events.Resize(size, size))

    def draw(self, screen: Watching) -> None:
        try:
            self._ticker.draw(screen)
        except CrosswindError as error:
            self.leave_with(error)

    def to_terminal(self, text: str) -> None:
        """Past the picture; our own words only. The driver is not public, and without it nothing is
        lost but a title."""
        write = getattr(self._driver, "write", None)
        if write is not None:
            write(text)

    def look(self) -> None:
        self.call_after_refresh(self.tick)

    def leave_with(self, error: CrosswindError) -> None:
        """Go, with the error's message and exit code."""
        self.exit(return_code=error.exit_code, message=Text(clean(str(error))))

    def action_go(self, name: str) -> None:
        self.go(name)

    async def action_back(self) -> None:
        self.back()

    def action_leave_root(self) -> None:
        self.action_leave()

    def action_help(self) -> None:
        # Imported when it is first asked for, which is seldom at the start.
        from tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_leave(self) -> None:
        """Go at once where the run is over; else ask. Asked a second time, go and stop nothing."""
        from tui.screens.quit import Leaving, QuitScreen, StopOthersScreen

        if isinstance(self.screen, QuitScreen | StopOthersScreen):
            self._leave_as_decided(Leaving.RUNNING)
            return
        board = self.board
        benchmark = current_benchmark(self._watch)
        phase = situation(self._watch.progress, board, benchmark).phase
        if board is None or phase.over:
            self.exit()
            return
        self.push_screen(QuitScreen(board, own=self._is_own(board)), self._leave_as_decided)

    def action_pause(self) -> None:
        """Pause, or go on; where no engine is at work, have one do what is left."""
        if not self.engine_is_at_work:
            names = tuple(info.name for info in self._watch.benchmarks)
            self.start_engine(Order(benchmarks=names))
            return
        paused = self.board is not None and self.board.state is EngineState.PAUSED
        self.ask(Request(Command.RESUME if paused else Command.PAUSE))

    def action_stop(self) -> None:
        """Stop the run without leaving."""
        from tui.screens.quit import StopOthersScreen, StopScreen

        board = self.board
        if board is None or not self.engine_is_at_work:
            self.tell("No engine is at work.")
            return
        asking = StopScreen(board) if self._is_own(board) else StopOthersScreen(board)
        self.push_screen(asking, self._stop_as_decided)

    def _is_own(self, board: Board) -> bool:
        """Whether the engine at work was started by this app, and not by somebody else."""
        return board.engine is not None and board.engine.pid == self._started

    def action_suspend(self) -> None:
        """Back to the shell, until `fg`; the engine feels none of it."""
        if can_suspend():
            self._suspend_signal()
            suspend()
        else:
            self.tell("There is no shell here that could bring Crosswind back: it stays.")

    def action_search(self) -> None:
        self.open_search()

    def action_go_to(self) -> None:
        from tui.screens.go_to import GoToScreen

        self.push_screen(GoToScreen(self._watch.reader), self.open_found)

    def action_theme(self) -> None:
        """The next of our themes."""
        names = [theme.name for theme in THEMES]
        index = names.index(self.theme) if self.theme in names else -1
        self.use_theme(names[(index + 1) % len(names)])

    def use_theme(self, name: str) -> None:
        self.theme = name
        self.tell(f"Theme: {name.removeprefix(PREFIX)}")
        self.choose(replace(self.choices, theme=name))

    def action_zoom(self) -> None:
        if isinstance(self.screen, WatchingScreen):
            self.screen.zoom()

    def action_mouse(self) -> None:
        # Imported here, since it is seldom needed.
        from tui.services.terminal import turn_mouse

        if self._driver is None:
            return
        wanted = turn_mouse(self._driver)
        self.choose(replace(self.choices, mouse=wanted))
        whose = "the app's" if wanted else "the terminal's, which selects text with it"
        self.tell(f"The mouse is {whose}.")

    @property
    def choices(self) -> Choices:
        return self._choices

    def choose(self, choices: Choices) -> None:
        self._choices = choices
        if self._memory is not None:
            self._memory.keep(choices)
            self._say_memory_notice()

    def _kept_theme(self, kept: Choices) -> str | None:
        """Without colours, the terminal's own theme is the one that says all by other means."""
        if self.no_color:
            return SIXTEEN.name
        return kept.theme if kept.theme in {ours.name for ours in THEMES} else None

    def _say_memory_notice(self) -> None:
        if self._memory is not None and self._memory.notice is not None:
            self.tell(self._memory.notice, bad=True)
            self._memory.notice = None

    def action_repaint(self) -> None:
        self.refresh(layout=True)
        for screen in self.screen_stack[-1:]:  # there is none any more while the app goes
            screen.refresh(layout=True)

    async def action_quit(self) -> None:
        self.action_leave()

    async def _do(self, deed: Deed) -> None:
        await self.run_action(deed.action, deed.node)

    def ask(self, request: Request, then: Callable[[Answer], None] | None = None) -> None:
        link = self._watch.link
        if link is None or not self.engine_is_at_work:
            failed = request.command is Command.RETRY
            order = order_for(request, self._watch.reader.failed_units() if failed else ())
            if failed and order is not None and not order.only:
                self.tell("Nothing has failed.")
            elif order is None:
                self.tell("No engine is at work.")
            else:
                self.start_engine(order, request, then)
            return
        show = then or self._show
        if request.command in QUOTED:
            failed = request.command is Command.RETRY
            order = order_for(request, self._watch.reader.failed_units() if failed else ())
            if order is not None and order.benchmarks:
                self.run_worker(self._ask_agreed(link, request, order, show), group="ask")
                return
        self.run_worker(self._ask(link, request, show), group="ask")

    async def _ask(
        self, link: EngineLink, request: Request, then: Callable[[Answer], None]
    ) -> None:
        answer = await asyncio.to_thread(link.ask, request)
        then(answer)
        self.tick()

    def _show(self, answer: Answer) -> None:
        """What the engine says, where it says something."""
        if answer.text or not answer.accepted:
            self.tell(answer.text or "The engine refused.", bad=not answer.accepted)

    def start_engine(
        self,
        order: Order,
        request: Request | None = None,
        then: Callable[[Answer], None] | None = None,
    ) -> None:
        show = then or self._show
        if self._start is None:
            names = " ".join(order.benchmarks)
            why = f"No engine is at work here: `crosswind run {names}` starts one."
            show(Answer(accepted=False, text=why))
            return
        starting = self._start_engine(self._start, order, request, show)
        self.run_worker(starting, group="ask")

    async def _start_engine(
        self,
        start: Callable[[Order | None], int],
        order: Order,
        request: Request | None,
        show: Callable[[Answer], None],
    ) -> None:
        """With the order, or with nothing to do and then asked for what led to this."""
        try:
            # whoever asks for conversations to be judged or played again was shown the price
            shown = request is not None and request.command in PRICED
            agreed = order if shown else await self._agreed(order)
            if agreed is None:
                return
            if request is not None and not shown:
                request = replace(request, quote=agreed.quote)
            self.tell("An engine is being started.")
            self._started = await asyncio.to_thread(start, agreed if request is None else None)
        except CrosswindError as error:
            show(Answer(accepted=False, text=str(error)))
            return
        if request is not None and self._watch.link is not None:
            await self._ask(self._watch.link, request, show)
        self.tick()

    def cost(self, order: Order) -> PricedOrder | None:
        return None if self._cost is None else self._cost(order)

    async def _agreed(self, order: Order) -> Order | None:
        """The order as a person lets it cost what it costs; None where they do not. Raises
        `CrosswindError`."""
        from tui.screens.dialogs import ChoiceScreen, Offer

        priced = None if self._cost is None else await asyncio.to_thread(self._cost, order)
        if priced is None:
            return order
        go = Offer("y", "go on", "it begins")
        leave = Offer("n", "leave it", "nothing is called")
        names = order.benchmarks
        what = names[0] if len(names) == 1 else f"{len(names)} benchmarks"
        asked = [f"Begin with {what}?", *(line.strip() for line in priced.total)]
        asked += [f"note: {note}" for note in priced.notes]
        chosen = await self.push_screen_wait(ChoiceScreen(asked, (go, leave)))
        return priced.order if chosen == go else None

    async def _ask_agreed(
        self, link: EngineLink, request: Request, order: Order, then: Callable[[Answer], None]
    ) -> None:
        """What is to follow what is at work costs money as well."""
        try:
            agreed = await self._agreed(order)
        except CrosswindError as error:
            then(Answer(accepted=False, text=str(error)))
            return
        if agreed is not None:
            named = None if request.order is None else agreed
            await self._ask(link, replace(request, order=named, quote=agreed.quote), then)

    def _ask_for_more(self) -> None:
        """Show once what the engine waits for an answer to."""
        question = None if self.board is None else self.board.question
        if question == self._question_asked or self._typed is not None:
            return
        self._question_asked = question
        if question is None:
            return
        from tui.screens.dialogs import ChoiceScreen, Offer

        go = Offer("y", "go on", "agree to that")
        stop = Offer("s", "stop", "asks how; the next run goes on from there")
        later = Offer("l", "later", "it waits: P lets it go on, x stops it")

        def decided(offer: Offer | None) -> None:
            if offer == go:
                self.ask(Request(Command.RESUME))
            elif offer == stop:
                self.action_stop()

        self.push_screen(ChoiceScreen(question, (go, stop, later)), decided)

    def report(self, benchmark: str) -> Report:
        if self._report is None:
            raise InputError(f"`crosswind results {benchmark}` adds it up: it cannot be done here.")
        return self._report(benchmark)

    def make_benchmark(self, name: str) -> None:
        if self._make is None:
            self.tell(f"`crosswind new {name}` makes it.", bad=True)
            return
        self.run_worker(self._make_benchmark(self._make, name), group="ask")

    async def _make_benchmark(self, make: Callable[[str], BenchmarkInfo], name: str) -> None:
        try:
            made = await asyncio.to_thread(make, name)
        except CrosswindError as error:
            self.tell(str(error), bad=True)
            return
        self._watch.benchmarks = [*self._watch.benchmarks, made]
        self.tell(f"{name} is made: describe in its benchmark.yaml what it measures, then press b.")
        self.tick()

    def tell(self, text: str, *, bad: bool = False) -> None:
        severity: SeverityLevel = "warning" if bad else "information"
        self.notify(clean(text), severity=severity, markup=False)

    def _leave_as_decided(self, decision: Leaving | None) -> None:
        from tui.screens.quit import Leaving

        match decision:
            case Leaving.RUNNING:
                self.exit(message=Text(clean(self._attach_line())))
            case Leaving.AFTER_SPOKEN:
                self._leaving = True
                self.ask(Request(Command.STOP))
            case Leaving.NOW:
                self.ask(Request(Command.STOP_NOW), lambda _answer: self.exit())
            case _:
                pass

    def _stop_as_decided(self, decision: Leaving | None) -> None:
        from tui.screens.quit import Leaving

        if decision is Leaving.AFTER_SPOKEN:
            self.ask(Request(Command.STOP))
        elif decision is Leaving.NOW:
            self.ask(Request(Command.STOP_NOW))

    def _attach_line(self) -> str:
        """What to type to see the run again."""
        return f"the run goes on; `{self._attach_command}` shows it again"

    def _answer_signals(self) -> None:
        """A hung-up line or a polite end still leaves the terminal in order."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._go)
        self.set_interval(LINE_SECONDS, self._go_where_line_is_cut)

    def _go(self) -> None:
        self._go_where_line_is_cut()
        self.exit(message=Text(clean(self._attach_line())) if self.engine_is_at_work else None)

    def _go_where_line_is_cut(self) -> None:
        if is_cut():
            go_at_once()

    def _fatal_error(self) -> None:
        """A fault of ours. Textual would show the values of variables, and they hold what models
        said; where it happened is enough."""
        self.bell()
        lines = clean(traceback.format_exc(limit=-8))
        text = Text(f"Crosswind's screen failed; the store is not harmed.\n\n{lines}")
        self._exit_renderables.append(text)
        self._close_messages_no_wait()


def _known(place: str | None) -> str | None:
    return place if place in {each.name for each in PLACES} else None


HOME: Final = "Live"
_INERT: Final = Inert()
_GONE: Final = frozenset({EngineState.STOPPED, EngineState.LOST})
