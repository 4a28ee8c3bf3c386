"""The screens that are one key away from everywhere, each loaded when it is first gone to."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Final

from engine.watch import Watch
from tui.screens.watching import WatchingScreen


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
