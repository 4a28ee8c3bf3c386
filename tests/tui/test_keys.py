"""One key means one thing, on whatever screen it is pressed; and every key is told of."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen

import tui
from tui.app import CrosswindApp
from tui.navigation import MAIN_SCREENS
from tui.screens.base import WatchingScreen
from tui.widgets.key_line import ALWAYS, ORDER

SAME = [
    {"back", "quit"},
    {"open", "choose"},
    {"next turn", "section", "next reply", "tab"},
    {"previous turn", "before", "previous reply"},
    {"next", "benchmark"},
    {"previous", "before"},
    {"new rows", "add up"},
    {"pager", "edit"},
]
"""Words for one thing, seen from different places."""
OWN_KEYS = {"AdjudicateScreen", "LabelScreen", "YourTurnScreen"}
"""Screens in which keys have meanings of their own, as the footer says."""
MOVES = {"up", "down", "left", "right", "h", "j", "k", "l", "home", "end", "pageup", "pagedown"}
"""Keys that move within whatever has the focus."""


def classes() -> Iterator[type[DOMNode]]:
    """All of ours that can have keys, but for dialogues: those hold no screen's keys."""
    seen = set()
    for found in pkgutil.walk_packages(tui.__path__, "tui."):
        if found.name == "tui.__main__":
            continue
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode) and value not in seen:
                seen.add(value)
                if value.__module__.startswith("tui") and not issubclass(value, ModalScreen):
                    yield value


def bindings(of: type[DOMNode]) -> list[Binding]:
    return list(Binding.make_bindings(of.__dict__.get("BINDINGS", ())))


def test_a_key_means_the_same_everywhere() -> None:
    meanings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in classes():
        for binding in bindings(each):
            if binding.key in MOVES or each.__name__ in OWN_KEYS:
                continue
            word = next((min(same) for same in SAME if binding.description in same), None)
            meanings[binding.key][word or binding.description].add(each.__name__)
    several = {key: dict(words) for key, words in meanings.items() if len(words) > 1}
    assert several == {}


def test_every_shown_key_has_its_place_in_the_footer() -> None:
    shown = {
        binding.action.partition("(")[0].removeprefix("app.")
        for each in classes()
        for binding in bindings(each)
        if binding.show
    }
    assert shown - set(ORDER) - set(ALWAYS) == set()


def test_every_key_that_does_something_says_what() -> None:
    for each in classes():
        if issubclass(each, WatchingScreen | CrosswindApp):
            for binding in bindings(each):
                assert binding.tooltip or not binding.show, (each, binding)


def test_places_are_in_the_order_of_their_keys() -> None:
    keys = [place.key for place in MAIN_SCREENS]
    assert keys == sorted(set(keys))
