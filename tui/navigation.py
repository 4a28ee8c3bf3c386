"""Navigation between screens, and the one registry of screens.

Screens are named as `module:Class` and imported when first opened. Otherwise the first frame would
wait for them, and screens that open each other would import each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.app import App
from textual.screen import Screen

from engine.benchmark import ConversationKey, Speaker
from engine.link import Board
from tui.state.related import MessageRef, RowCursor, Subject

if TYPE_CHECKING:
    from engine.analysis.sections import VerdictScope
    from engine.cli.person_labels import PersonDisputes, PersonSample
    from engine.cli.piloting import PilotPage
    from engine.pipeline.report import Report
    from engine.store.browsing import Filter
    from tui.bindings import PaletteCommand
    from tui.screens.dialogs import Decided
    from tui.state.related import FoundId, TakeRef


class ShownNotice(NamedTuple):
    """A notice that was shown."""

    text: str
    bad: bool


@dataclass(frozen=True, slots=True)
class MainScreen:
    """A screen with a key that works everywhere; it keeps its state while another is shown."""

    key: str
    name: str
    screen: str
    """`module:Class`; its constructor takes the shell only."""
    meaning: str


MAIN_SCREENS: Final = (
    MainScreen(
        "1",
        "Benchmarks",
        "tui.screens.benchmarks:BenchmarksScreen",
        "what is in the workspace and how far it is",
    ),
    MainScreen("2", "Live", "tui.screens.live:LiveScreen", "the run as it happens"),
    MainScreen(
        "3",
        "Conversations",
        "tui.screens.conversations:AllScreen",
        "every conversation in every state; } shows the verdicts",
    ),
    MainScreen(
        "4",
        "Results",
        "tui.screens.results:ResultsScreen",
        "pass rates, and which differences are significant",
    ),
    MainScreen(
        "5",
        "Your turn",
        "tui.screens.your_turn:YourTurnScreen",
        "what waits for a person",
    ),
)
"""In the order of their keys. To add a main screen, add an entry."""
TABS: Final = {"All": "Conversations", "Verdicts": "Verdicts"}
"""The tabs of the place `Conversations`, and the names under which each is kept."""
TAB_SCREENS: Final = {"Verdicts": "tui.screens.verdicts:VerdictsScreen"}
"""Tabs other than the first of their place."""
PLACES: Final = frozenset({place.name for place in MAIN_SCREENS} | {*TAB_SCREENS})
"""The names of all places and tabs."""

SCREENS: Final = {
    "adjudicate": "tui.screens.label:AdjudicateScreen",
    "calls": "tui.screens.calls:CallsScreen",
    "commands": "tui.screens.line_dialogs:CommandScreen",
    "compare": "tui.screens.compare:CompareScreen",
    "conversation": "tui.screens.conversation:ConversationScreen",
    "definition": "tui.screens.cards:open_definition",
    "filter": "tui.screens.line_dialogs:ask_filter",
    "find": "tui.screens.line_dialogs:FindScreen",
    "help": "tui.screens.cards:HelpScreen",
    "judge again": "tui.screens.rejudge:judge_again",
    "label": "tui.screens.label:LabelScreen",
    "messages": "tui.screens.cards:messages_card",
    "pilot": "tui.screens.cards:pilot_card",
    "play again": "tui.screens.rejudge:play_again",
    "quit": "tui.screens.dialogs:ask_how_to_leave",
    "scenario": "tui.screens.scenario:ScenarioScreen",
    "search": "tui.screens.search:SearchScreen",
    "stop": "tui.screens.dialogs:ask_how_to_stop",
    "target": "tui.screens.results:TargetScreen",
    "verdicts": "tui.screens.verdicts:VerdictsScreen",
    "wall": "tui.screens.wall:WallScreen",
}
"""Screens and dialogs opened over another screen, and functions that ask before they open one."""


@dataclass(frozen=True, slots=True)
class OpenedScreen:
    """A name from `SCREENS`, and the constructor arguments after the shell."""

    name: str
    given: tuple[object, ...]


def load(where: str) -> Any:
    """Import `module:name` and return the object."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def preload() -> Thread:
    """Import the screens one key away, on a thread. A key that needs one of them meanwhile waits
    for that one only."""
    # a daemon: leaving at once does not wait for imports
    thread = Thread(target=_preload, name="preload", daemon=True)
    thread.start()
    return thread


def _preload() -> None:
    over_all = (SCREENS[name] for name in ("search", "conversation", "help", "commands"))
    for where in (*(place.screen for place in MAIN_SCREENS), *over_all):
        load(where)


class Navigator:
    """Shows screens: places, each with its own stack of screens that stays as it was left, and the
    screens opened over them."""

    def __init__(
        self,
        app: App[None],
        home: str,
        shell: Callable[[], object],
        look: Callable[[], None],
        first: OpenedScreen | None = None,
    ) -> None:
        """`home` is the place shown first, with nothing to go back to; `first`, if given, is shown
        in its stead. `shell` returns the first argument of each screen, and is first called when a
        screen is opened. `look` draws the shown screen without waiting for the next tick."""
        self._app = app
        self._home = home
        self._shell = shell
        self._look = look
        self._asks_end: Screen[Any] | None = None
        """The dialog that asked last what should happen to the run."""
        self._tab = "Conversations"
        """The tab of that place that was shown last."""
        screens = {place.name: place.screen for place in MAIN_SCREENS} | TAB_SCREENS
        for name, screen in screens.items():
            app.add_mode(self._mode(name), partial(self._make_screen, screen))
        if first is not None:
            app.add_mode(
                self._mode(home), partial(self._make_screen, SCREENS[first.name], *first.given)
            )

    @property
    def place(self) -> str:
        """The name of the place that is shown."""
        mode = self._app.current_mode
        return self._home if mode == self._app.DEFAULT_MODE else mode

    @property
    def at_root(self) -> bool:
        """Whether `back` has nowhere to go."""
        return len(self._app.screen_stack) <= 1

    def go(self, name: str) -> None:
        """Go to a place, or to a tab of one, and close what is open over it; to the tab that was
        shown last where the place is named."""
        if name in TABS:
            self._tab = name = TABS[name]
        elif name == "Conversations":
            name = self._tab
        if name != self.place:
            self._switch(name)
        while len(self._app.screen_stack) > 1:
            self._app.pop_screen()

    def back(self) -> None:
        """Close the top screen. At the root, do nothing."""
        if not self.at_root:
            self._app.pop_screen()

    def _mode(self, name: str) -> str:
        return self._app.DEFAULT_MODE if name == self._home else name

    def _switch(self, name: str) -> None:
        self._app.switch_mode(self._mode(name))
        self._look()

    def show(self, screen: Screen[Any], then: Callable[[Any], None] | None = None) -> None:
        """Show a screen on top; `then` is called with its result."""
        self._app.push_screen(screen, then)

    def _make_screen(self, where: str, *given: object, **named: object) -> Screen[Any]:
        screen = load(where)(self._shell(), *given, **named)
        assert isinstance(screen, Screen)  # noqa: S101  (the registry names nothing else)
        return screen

    def _open(self, name: str, *given: object, **named: object) -> None:
        self._app.push_screen(self._make_screen(SCREENS[name], *given, **named))

    def _ask(self, name: str, then: Callable[[Any], None], *given: object, **named: object) -> None:
        """Show a dialog. It needs only its arguments, not the shell, unless that is among them."""
        self._app.push_screen(load(SCREENS[name])(*given, **named), then)

    def open_conversation(
        self,
        benchmark: str,
        key: ConversationKey,
        *,
        among: RowCursor | None = None,
        at: MessageRef | None = None,
    ) -> None:
        """Open a conversation at a message, with those before and after it in `among`."""
        self._open("conversation", benchmark, key, among=among, at=at)

    def open_scenario(
        self, benchmark: str, scenario_id: str, *, cursor: ConversationKey | None = None
    ) -> None:
        """Open a scenario with the cursor on `cursor`, or on its first conversation."""
        self._open("scenario", benchmark, scenario_id, cursor=cursor)

    def open_calls(self, shown: TakeRef, turn: int, speaker: Speaker) -> None:
        """Open the calls behind a take's messages, at one of these."""
        self._open("calls", shown, turn, speaker)

    def open_comparison(self, left: TakeRef, right: TakeRef | None = None) -> None:
        """Compare two takes side by side; without `right`, with the nearest other take."""
        self._open("compare", left, right)

    def open_found(self, place: FoundId) -> None:
        """Open what an id names."""
        match place.kind:
            case "conversation":
                self.open_conversation(place.benchmark, ConversationKey.parse(place.id))
            case "metric":
                self.open_verdicts(f'benchmark:"={place.benchmark}" metric:{place.id}')
            case _:
                self.open_scenario(place.benchmark, place.id)

    def open_definition(self, benchmark: str, scenario_id: str) -> None:
        """Show in full what a scenario's conversations are judged by."""
        load(SCREENS["definition"])(self._shell(), benchmark, scenario_id)

    def open_search(self) -> None:
        """Open the search for words in all transcripts."""
        self._open("search")

    def open_verdicts(self, typed: str) -> None:
        """Open the verdicts that match a filter line, on top of the current screen."""
        self._open("verdicts", typed)
        self._look()

    def open_target(
        self, report: Report, target: str, show: Callable[[VerdictScope], None]
    ) -> None:
        """Open everything about a target of a report; `show` opens the verdicts behind a row."""
        self._open("target", report, target, show)

    def open_pilot(self, page: PilotPage) -> None:
        """Show the page on a pilot."""
        self._app.push_screen(load(SCREENS["pilot"])(page))

    def open_label(self, sample: PersonSample) -> None:
        """Open a sample for labelling."""
        self._open("label", sample)

    def open_disputes(self, disputes: PersonDisputes) -> None:
        """Open the items that human labellers disagree on, to be decided."""
        self._open("adjudicate", disputes)

    def open_wall(self) -> None:
        """Open the wall: as many live conversations as fit on the screen."""
        self._open("wall")

    def open_help(self) -> None:
        """Show what every key does on the current screen, unless help is open already."""
        help_screen = load(SCREENS["help"])
        if not isinstance(self._app.screen, help_screen):
            self._app.push_screen(help_screen(self._app.screen))

    def open_messages(self, messages: Sequence[ShownNotice]) -> None:
        """Show the past notices in full."""
        self._app.push_screen(load(SCREENS["messages"])(messages))

    def ask_command(self) -> None:
        """Ask for a command by name, and run it."""
        known = load("tui.services.palette:commands")(self._app, self._app.screen)
        self._ask("commands", self._run_command, self._shell(), known)

    def ask_id(self) -> None:
        """Ask for a metric, scenario or conversation by its id, and open it."""

        def open_found(chosen: PaletteCommand | None) -> None:
            if chosen is not None:
                chosen.act()  # at once: the next key is meant for what it opens

        self._ask("commands", open_found, self._shell(), ())

    def _run_command(self, chosen: PaletteCommand | None) -> None:
        if chosen is not None:
            self._app.call_later(chosen.act)

    def ask_filter(
        self,
        typed: str,
        earlier: Sequence[str],
        want: Callable[[Filter], None],
        then: Callable[[str | None], None],
    ) -> None:
        """Ask for a filter line. `want` gets the filter while it is typed; `earlier` are previous
        lines. `then` gets the final line, or None if the dialog is cancelled."""
        self._ask("filter", then, typed, earlier, want)

    def ask_pattern(
        self,
        typed: str,
        find: Callable[[str], Awaitable[int]],
        then: Callable[[str | None], None],
    ) -> None:
        """Ask for a pattern to find in a transcript. `find` returns the number of matches or raises
        `PatternFault`; `then` gets the pattern, or None if the dialog is cancelled."""
        self._ask("find", then, typed, find)

    def ask_how_it_ends(self, name: str, board: Board, then: Decided, *, own: bool) -> None:
        """Ask what should happen to the run on leaving (`quit`) or without (`stop`). `own` says
        whether it was started for this app."""
        self._asks_end, answered = load(SCREENS[name])(board, then, own=own)
        self._app.push_screen(self._asks_end, answered)

    @property
    def asks_how_it_ends(self) -> bool:
        """Whether a dialog that asks what should happen to the run is shown."""
        return self._app.screen is self._asks_end

    def judge_again(self, subjects: Sequence[Subject]) -> None:
        """Ask which judge to use, then show the old verdicts and the new ones as they arrive."""
        load(SCREENS["judge again"])(self._shell(), subjects)

    def play_again(
        self, subjects: Sequence[Subject], then: Callable[[], None] | None = None
    ) -> None:
        """Ask whether to play again; `then` is called if so. Existing takes are kept."""
        load(SCREENS["play again"])(self._shell(), subjects, then)
