"""What every key does, from the bindings of all classes of the app that have some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from tools.manual.markdown import code, table
from tui.app import CrosswindApp
from tui.bindings import bindings_of, key_name, name_of
from tui.navigation import MAIN_SCREENS, SCREENS, load
from tui.own_keys import bound_classes

_HEADS: Final = ("keys", "action", "in the footer", "what it does")


def keys_reference() -> str:
    """By place: everywhere, each screen, what is opened over it, lists and texts."""
    parts = ["## Everywhere", _table([CrosswindApp])]
    known: set[type[DOMNode]] = {CrosswindApp}
    for place in MAIN_SCREENS:
        screen = load(place.screen)
        known.add(screen)
        parts += [f"## {place.name}", f"Key {code(place.key)}: {place.meaning}.", _table([screen])]
    for name, where in SCREENS.items():
        screen = load(where)
        if isinstance(screen, type) and screen not in known and has_keys(screen):
            known.add(screen)
            parts += [f"## {name.capitalize()}", _table([screen])]
    rest = [kind for kind in bound_classes() if not known & set(kind.__mro__)]
    dialogs = [kind for kind in rest if issubclass(kind, Screen)]
    parts += ["## Dialogs", _table(dialogs)]
    parts += ["## In lists and texts", _table(kind for kind in rest if kind not in dialogs)]
    return "\n\n".join(parts)


def has_keys(kind: type[DOMNode]) -> bool:
    return any(True for _ in bindings_of(kind))


def _table(kinds: Iterable[type[DOMNode]]) -> str:
    """What can be done, each once, with all the keys that do it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        for binding in bindings_of(kind):
            action = name_of(binding)
            row = (code(action) if action else "", binding.description, _meaning(binding))
            keys = found.setdefault(row, [])
            name = code(key_name(binding.key))
            if name not in keys:
                keys.append(name)
    rows = [(" ".join(keys), *row) for row, keys in found.items()]
    return table(_HEADS, rows)


def _meaning(binding: Binding) -> str:
    return binding.tooltip or binding.description
