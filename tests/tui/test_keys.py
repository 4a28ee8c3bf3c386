"""One key means one thing, on whatever screen it is pressed; and every key is told of."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen

import tui
from tui.app import CrosswindApp
from tui.bindings import key_name
from tui.navigation import MAIN_SCREENS
from tui.screens.base import WatchingScreen
from tui.widgets.key_line import ALWAYS, ORDER

SAME = [
    {"back", "quit"},
    {"open", "choose", "answer"},
    {"next turn", "section", "next reply", "tab"},
    {"previous turn", "before", "previous reply"},
    {"edit", "note"},
]
"""Words for one thing, seen from different places: Enter goes on with what is under the cursor, `}`
to the next part, `e` writes."""
DIGITS = set("12345")
"""The places, and on the blind screen, which closes all places, how sure one is."""
TABLE = Path(__file__).with_name("keys.txt")
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


def meanings() -> dict[str, dict[str, set[str]]]:
    """By key, each word for what it does, with the classes on which it does that."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for each in classes():
        for binding in bindings(each):
            if binding.key not in MOVES:
                found[binding.key][binding.description].add(each.__name__)
    return found


def test_a_key_means_the_same_on_all_screens() -> None:
    several = {}
    for key, words in meanings().items():
        ideas = {next((min(same) for same in SAME if word in same), word) for word in words}
        if len(ideas) > 1 and key not in DIGITS:
            several[key] = {word: sorted(places) for word, places in words.items()}
    assert several == {}


def test_the_table_of_all_keys_is_as_agreed() -> None:
    """A new key is written into the table, where it is seen beside all others."""
    lines = [
        f"{key_name(key):<10}{', '.join(sorted(words)):<40}"
        + " ".join(sorted({place for places in words.values() for place in places}))
        for key, words in sorted(meanings().items(), key=lambda one: key_name(one[0]))
    ]
    assert "\n".join(lines) + "\n" == TABLE.read_text("utf-8")


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
