"""Going from screen to screen, and back: the one registry of screens.

Screens are named here as `module:Class` and imported when they are first opened: the first frame
would wait for them, and two that lead to each other would import each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.app import App
from textual.screen import Screen

from engine.benchmark import ConversationKey
from engine.link import Board
from tui.state.related import MessageRef, RowCursor, Subject

if TYPE_CHECKING:
    from engine.cli.piloting import PilotPage
    from engine.store.browsing import Filter
    from engine.store.reader import Reader
    from tui.bindings import PaletteCommand
    from tui.services.engine_control import QuitChoice
    from tui.state.filters import FoundId
    from tui.state.labelling import DisputeSource, SampleSource
    from tui.state.related import TakeRef


class ShownNotice(NamedTuple):
    """What was told once."""

    text: str
    bad: bool


@dataclass(frozen=True, slots=True)
class MainScreen:
    """A screen a key away from everywhere, that keeps its state while one is elsewhere."""

    key: str
    name: str
    screen: str
    """`module:Class`; made with the shell and nothing else."""
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
        "Verdicts",
        "tui.screens.verdicts:VerdictsScreen",
        "every verdict, to filter and to sort",
    ),
    MainScreen(
        "4",
        "Results",
        "tui.screens.results:ResultsScreen",
        "what the verdicts say, and how surely",
    ),
    MainScreen(
        "5",
        "Problems",
        "tui.screens.problems:ProblemsScreen",
        "what failed, why, and what to do about it",
    ),
    MainScreen(
        "6",
        "Review",
        "tui.screens.review:ReviewScreen",
        "what a model wrote, to approve or reject",
    ),
)
"""By their keys. A new one is a line."""


SCREENS: Final = {
    "adjudicate": "tui.screens.adjudicate:AdjudicateScreen",
    "commands": "tui.screens.line_dialogs:CommandScreen",
    "compare": "tui.screens.compare:CompareScreen",
    "conversation": "tui.screens.conversation:ConversationScreen",
    "definition": "tui.screens.cards:open_definition",
    "filter": "tui.screens.line_dialogs:FilterScreen",
    "find": "tui.screens.line_dialogs:FindScreen",
    "go to": "tui.screens.line_dialogs:GoToScreen",
    "help": "tui.screens.cards:HelpScreen",
    "judge again": "tui.screens.rejudge:judge_again",
    "label": "tui.screens.label:LabelScreen",
    "messages": "tui.screens.cards:MessagesScreen",
    "pilot": "tui.screens.cards:PilotScreen",
    "play again": "tui.screens.rejudge:play_again",
    "quit": "tui.screens.quit:QuitScreen",
    "scenario": "tui.screens.scenario:ScenarioScreen",
    "search": "tui.screens.search:SearchScreen",
    "stop": "tui.screens.quit:StopScreen",
    "stop another's": "tui.screens.quit:StopOthersScreen",
    "verdicts": "tui.screens.verdicts:VerdictsScreen",
    "wall": "tui.screens.wall:WallScreen",
}
"""What is opened over another screen, and the dialogs that ask before they open one."""


@dataclass(frozen=True, slots=True)
class OpenedScreen:
    """One of `SCREENS`, and what it is made with beside the shell."""

    name: str
    given: tuple[object, ...]


def load(where: str) -> Any:
    """What `module:name` names, imported now."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def preload() -> Thread:
    """Import what is one key away from everywhere, on a thread of its own; a key that needs one of
    them meanwhile waits for that one alone."""
    # a daemon: whoever leaves at once does not wait for imports
    thread = Thread(target=_preload, name="preload", daemon=True)
    thread.start()
    return thread


def _preload() -> None:
    over_all = (SCREENS[name] for name in ("search", "conversation", "go to", "help", "commands"))
    for where in (*(place.screen for place in MAIN_SCREENS), *over_all):
        load(where)


class Navigator:
    """Shows screens: places, each with a stack of screens of its own that stays as it was left, and
    what is opened over them."""

    def __init__(
        self,
        app: App[None],
        home: str,
        shell: Callable[[], object],
        look: Callable[[], None],
        first: OpenedScreen | None = None,
    ) -> None:
        """`home` is the place that is shown first and that leads nowhere but out; with `first`,
        that screen is. `shell` gives what each screen is made with, and is not called before the
        first is opened. `look` has what is shown drawn, without waiting for the next tick."""
        self._app = app
        self._home = home
        self._shell = shell
        self._look = look
        self._trail: list[str] = []
        """Places that lie behind the one that is shown, the last one last, each once."""
        for place in MAIN_SCREENS:
            app.add_mode(self._mode(place.name), partial(self._make, place.screen))
        if first is not None:
            app.add_mode(self._mode(home), partial(self._make, SCREENS[first.name], *first.given))

    @property
    def place(self) -> str:
        """The name of the one that is shown."""
        mode = self._app.current_mode
        return self._home if mode == self._app.DEFAULT_MODE else mode

    @property
    def at_root(self) -> bool:
        """Whether there is nothing to go back to."""
        return len(self._app.screen_stack) <= 1 and not self._trail

    def go(self, name: str) -> None:
        """To a place itself: what was opened over it is closed. What is open over the place that
        is left stays, for `back`."""
        here = self.place
        if name != here:
            # each place once: to walk back through every visit would take as many keys as the way
            # there
            self._trail = [each for each in self._trail if each not in {name, here}] + [here]
            self._switch(name)
        while len(self._app.screen_stack) > 1:
            self._app.pop_screen()

    def back(self) -> None:
        """One screen up, or to the place before this one. At the root, nothing."""
        if len(self._app.screen_stack) > 1:
            self._app.pop_screen()
        elif self._trail:
            self._switch(self._trail.pop())

    def _mode(self, name: str) -> str:
        return self._app.DEFAULT_MODE if name == self._home else name

    def _switch(self, name: str) -> None:
        self._app.switch_mode(self._mode(name))
        # `q` goes back or quits, and which of them depends on the way one came
        self._app.screen.refresh_bindings()
        self._look()

    def show(self, screen: Screen[Any], then: Callable[[Any], None] | None = None) -> None:
        """Over what is shown; `then` is called with what it ends with."""
        self._app.push_screen(screen, then)

    def _make(self, where: str, *given: object, **named: object) -> Screen[Any]:
        made = load(where)(self._shell(), *given, **named)
        assert isinstance(made, Screen)  # noqa: S101  (the registry names nothing else)
        return made

    def _open(self, name: str, *given: object, **named: object) -> None:
        self._app.push_screen(self._make(SCREENS[name], *given, **named))

    def _ask(self, name: str, then: Callable[[Any], None], *given: object, **named: object) -> None:
        """Dialogs ask no more than what they are given: they are made without the shell."""
        self._app.push_screen(load(SCREENS[name])(*given, **named), then)

    def open_conversation(
        self,
        benchmark: str,
        key: ConversationKey,
        *,
        among: RowCursor | None = None,
        at: MessageRef | None = None,
    ) -> None:
        """`among` are the conversations before and after it; `at` is where to begin to read."""
        self._open("conversation", benchmark, key, among=among, at=at)

    def open_scenario(
        self, benchmark: str, scenario_id: str, *, cursor: ConversationKey | None = None
    ) -> None:
        """The cursor begins on `cursor`, or on what there is of the scenario first."""
        self._open("scenario", benchmark, scenario_id, cursor=cursor)

    def open_comparison(self, left: TakeRef, right: TakeRef | None = None) -> None:
        """Side by side; without `right`, with the nearest that there is."""
        self._open("compare", left, right)

    def open_found(self, found: FoundId | None) -> None:
        """Opens what a person chose among ids; nothing where they chose none."""
        if found is None:
            return
        match found.kind:
            case "conversation":
                self.open_conversation(found.benchmark, ConversationKey.parse(found.id))
            case "metric":
                self.open_verdicts(f'benchmark:"={found.benchmark}" metric:{found.id}')
            case _:
                self.open_scenario(found.benchmark, found.id)

    def open_definition(self, benchmark: str, scenario_id: str) -> None:
        """What conversations of a scenario are judged by, whole."""
        load(SCREENS["definition"])(self._shell(), benchmark, scenario_id)

    def open_search(self) -> None:
        """For words in all transcripts."""
        self._open("search")

    def open_verdicts(self, typed: str) -> None:
        """Those that a filter line holds, over what is shown."""
        self._open("verdicts", typed)
        self._look()

    def open_pilot(self, page: PilotPage) -> None:
        """Show what a pilot says."""
        self._app.push_screen(load(SCREENS["pilot"])(page))

    def open_label(self, sample: SampleSource) -> None:
        """Show a sample, for a person to label it."""
        self._open("label", sample)

    def open_disputes(self, found: DisputeSource) -> None:
        """Show what people disagree on, for somebody to decide."""
        self._open("adjudicate", found)

    def open_wall(self) -> None:
        """The wall: as many conversations as there is room for, as they are spoken."""
        self._open("wall")

    def open_help(self) -> None:
        """What every key does on the screen that is shown; once."""
        help_screen = load(SCREENS["help"])
        if not isinstance(self._app.screen, help_screen):
            self._app.push_screen(help_screen(self._app.screen))

    def open_messages(self, messages: Sequence[ShownNotice]) -> None:
        """What was told, in full."""
        self._app.push_screen(load(SCREENS["messages"])(messages))

    def ask_command(self) -> None:
        """What to do, by the name of it."""
        known = load("tui.services.palette:commands")(self._app, self._app.screen)
        self._ask("commands", self._do, self._shell(), known)

    def _do(self, chosen: PaletteCommand | None) -> None:
        if chosen is not None:
            self._app.call_later(chosen.act)

    def ask_id(self, reader: Reader) -> None:
        """Which scenario or conversation to open, by its id."""
        self._ask("go to", self.open_found, reader)

    def ask_filter(
        self,
        typed: str,
        earlier: Sequence[str],
        want: Callable[[Filter], None],
        then: Callable[[str | None], None],
    ) -> None:
        """For a filter line, answered by `want` while it is typed; `earlier` are those of before.
        `then` has the whole line, or None where the dialog is left."""
        self._ask("filter", then, typed, earlier, want)

    def ask_pattern(
        self,
        typed: str,
        find: Callable[[str], Awaitable[int]],
        then: Callable[[str | None], None],
    ) -> None:
        """For what to find in a transcript. `find` gives the number of places, or raises
        `PatternFault`."""
        self._ask("find", then, typed, find)

    def ask_how_to_leave(
        self, board: Board, *, own: bool, then: Callable[[QuitChoice | None], None]
    ) -> None:
        """What is to become of the run; `own` says whether it was started for this app. `then` has
        the answer, or None where a person stays."""
        self._ask("quit", then, board, own=own)

    def ask_how_to_stop(
        self, board: Board, *, own: bool, then: Callable[[QuitChoice | None], None]
    ) -> None:
        """For the run that goes on; where it is not this app's `own`, for the word as well."""
        self._ask("stop" if own else "stop another's", then, board)

    @property
    def asks_how_it_ends(self) -> bool:
        """Whether a dialog is shown that asks what is to become of the run."""
        dialogs = tuple(load(SCREENS[name]) for name in ("quit", "stop another's"))
        return isinstance(self._app.screen, dialogs)

    def judge_again(self, subjects: Sequence[Subject]) -> None:
        """Ask by whom; then show the old verdicts and the new ones as they come."""
        load(SCREENS["judge again"])(self._shell(), subjects)

    def play_again(self, subjects: Sequence[Subject]) -> None:
        """Ask whether to; the playings that are there stay."""
        load(SCREENS["play again"])(self._shell(), subjects)
