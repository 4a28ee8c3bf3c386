"""Going from screen to screen, and back; the screens that are one key away from everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from textual.app import App

from engine.benchmark import ConversationKey
from engine.watch import Watch
from tui.screens.watching import WatchingScreen

if TYPE_CHECKING:
    from tui.state.filters import FoundId


@dataclass(frozen=True, slots=True)
class Place:
    """A screen that keeps its state while one is elsewhere."""

    key: str
    name: str
    screen: str
    """`module:Class`; made with the watch and nothing else."""
    meaning: str

    def open(self, watch: Watch) -> WatchingScreen:
        module, _, name = self.screen.partition(":")
        screen = getattr(import_module(module), name)(watch)
        if not isinstance(screen, WatchingScreen):
            raise TypeError(f"{self.screen} does not show a run")
        return screen


PLACES: Final = (
    Place(
        "1",
        "Benchmarks",
        "tui.screens.benchmarks:BenchmarksScreen",
        "what is in the workspace and how far it is",
    ),
    Place("2", "Live", "tui.screens.live:LiveScreen", "the run as it happens"),
    Place(
        "3",
        "Verdicts",
        "tui.screens.verdicts:VerdictsScreen",
        "every verdict, to filter and to sort",
    ),
    Place(
        "4",
        "Results",
        "tui.screens.results:ResultsScreen",
        "what the verdicts say, and how surely",
    ),
    Place(
        "5",
        "Problems",
        "tui.screens.problems:ProblemsScreen",
        "what failed, why, and what to do about it",
    ),
)
"""By their keys. A new one is a line."""


class Navigating(App[None]):
    """An app with places, each with a stack of screens of its own that stays as it was left."""

    DEFAULT_MODE = "home"

    def __init__(self, watch: Watch, home: str) -> None:
        super().__init__()
        self._watch = watch
        self._home = home
        """The place that is shown first, and that leads nowhere but out."""
        self._trail: list[str] = []
        """Places that lie behind the one that is shown, the last one last, each once."""
        for place in PLACES:
            self.add_mode(self._mode(place.name), partial(place.open, watch))

    @property
    def watched(self) -> Watch:
        return self._watch

    @property
    def place(self) -> str:
        """The name of the one that is shown."""
        return self._home if self.current_mode == self.DEFAULT_MODE else self.current_mode

    @property
    def at_root(self) -> bool:
        """Whether there is nothing to go back to."""
        return len(self.screen_stack) <= 1 and not self._trail

    def go(self, name: str) -> None:
        """To a place, as it was left; where one is there already, to its first screen."""
        here = self.place
        if name == here:
            while len(self.screen_stack) > 1:
                self.pop_screen()
            return
        self._trail = [each for each in self._trail if each not in {name, here}] + [here]
        self._switch(name)

    def back(self) -> None:
        """One screen up, or to the place before this one. At the root, nothing."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self._trail:
            self._switch(self._trail.pop())

    def _mode(self, name: str) -> str:
        return self.DEFAULT_MODE if name == self._home else name

    def _switch(self, name: str) -> None:
        self.switch_mode(self._mode(name))
        self.screen.refresh_bindings()
        self.look()

    def look(self) -> None:
        """Have what is shown drawn, without waiting for the next tick."""

    def open_conversation(self, benchmark: str, key: ConversationKey) -> None:
        # Imported here, since it is seldom the first thing that is needed.
        from tui.screens.conversation import ConversationScreen

        self.push_screen(ConversationScreen(self._watch, benchmark, key))

    def open_found(self, found: FoundId | None) -> None:
        """What a person chose among ids."""
        if found is None:
            return
        if found.kind == "conversation":
            self.open_conversation(found.benchmark, ConversationKey.parse(found.id))
        else:
            self.open_scenario(found.benchmark, found.id)

    def open_search(self) -> None:
        """Of all transcripts."""
        # Imported here, since it is seldom the first thing that is needed.
        from tui.screens.search import SearchScreen

        self.push_screen(SearchScreen(self._watch))

    def open_verdicts(self, typed: str) -> None:
        # Imported here, since it is seldom the first thing that is needed.
        from tui.screens.verdicts import VerdictsScreen

        self.push_screen(VerdictsScreen(self._watch, typed))
        self.look()

    def open_scenario(self, benchmark: str, scenario_id: str) -> None:
        # Imported here, since it is seldom the first thing that is needed.
        from tui.screens.scenario import ScenarioScreen

        self.push_screen(ScenarioScreen(self._watch, benchmark, scenario_id))
