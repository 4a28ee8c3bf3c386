"""A user's own keys: a file that gives actions additional keys."""

from __future__ import annotations

import importlib
import pkgutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.screen import ModalScreen, Screen

import tui
from engine.config.faults import in_file_order, kind_of
from engine.config.wording import did_you_mean, quotable
from engine.config.yaml_text import KeyPath, YamlDocument, read_yaml
from engine.errors import InputError, Problem
from tui.app import CrosswindApp
from tui.bindings import KEY_NAMES, bindings_of, key_name, name_of

MOST: Final = 5
"""The most keys for one action in a file."""
EVERYWHERE: Final = "everywhere"
LISTS: Final = "lists and texts"
_MODIFIERS: Final = ("ctrl", "alt", "shift")
_HINT: Final = "write `f`, `F`, `F2`, `Ctrl+F`, `Alt+F`, `Space` or `?` in quotes"
_SAME: Final = {
    "ctrl+h": "backspace",
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
}
"""Combinations for which a terminal sends the same as for the key."""


class KeyRow(NamedTuple):
    """The binding of one key in one place."""

    place: str
    """A screen's name, `EVERYWHERE` or `LISTS`."""
    key: str
    """Textual's name of the key."""
    binding: Binding
    name: str | None
    """The action's name; None if its keys cannot be changed."""

    def meets(self, other: KeyRow) -> bool:
        """Whether both keys may work on the same screen."""
        here = {self.place, other.place}
        return len(here) == 1 or bool(here & {EVERYWHERE, LISTS})


@cache
def built_in() -> tuple[KeyRow, ...]:
    """Every built-in key outside dialogs; a dialog's keys conflict with no others. Imports all
    screens, which is too slow for the first frame."""
    rows: dict[tuple[str, str, str], KeyRow] = {}
    for kind in sorted(bound_classes(), key=_order):
        if not issubclass(kind, ModalScreen):
            for binding in bindings_of(kind):
                row = KeyRow(_screen_name(kind), binding.key, binding, name_of(binding))
                rows.setdefault((row.place, row.key, binding.action), row)
    return tuple(rows.values())


def _order(kind: type[DOMNode]) -> tuple[int, str]:
    return (0 if issubclass(kind, CrosswindApp) else 1 if issubclass(kind, Screen) else 2), (
        kind.__name__
    )


def _screen_name(kind: type[DOMNode]) -> str:
    if issubclass(kind, CrosswindApp):
        return EVERYWHERE
    if not issubclass(kind, Screen):
        return LISTS
    name = kind.__name__.removesuffix("Screen")
    return name[0] + "".join(
        f" {letter.lower()}" if letter.isupper() else letter for letter in name[1:]
    )


def own_keys(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the user's keys, by action name. Raises `InputError` with all faults in the file."""
    document = read_yaml(path)
    names = {row.name for row in built_in() if row.name is not None}
    problems: list[Problem] = []
    keys_of: dict[str, dict[str, KeyPath]] = {}
    for name in document.data:
        if name in names:
            keys_of[name] = dict(_keys_of(document, name, problems))
        else:
            problems.append(
                document.problem(
                    (name,),
                    "no action has this name",
                    hint=did_you_mean(name, names),
                    of_key=True,
                )
            )
    problems += _clashes(document, keys_of)
    if problems:
        raise InputError(in_file_order(problems))
    return {name: tuple(keys) for name, keys in keys_of.items()}


def _keys_of(
    document: YamlDocument, name: str, problems: list[Problem]
) -> Iterator[tuple[str, KeyPath]]:
    """Yield each key of an action with its place in the file. Adds faults to `problems`."""
    value = document.data[name]
    places: list[KeyPath] = [(name,)]
    if isinstance(value, list):
        places = [(name, at) for at in range(len(value))]
        if not 0 < len(value) <= MOST:
            problems.append(document.problem((name,), f"expected one to {MOST} keys"))
            return
    for at in places:
        written = document.value(at)
        number = isinstance(written, int) and not isinstance(written, bool)
        key = key_of(str(written)) if number or isinstance(written, str) else None
        if key is not None:
            yield key, at
        else:
            found = f"`{quotable(written)}`" if isinstance(written, str) else kind_of(written)
            problems.append(document.problem(at, f"expected a key, found {found}", hint=_HINT))


@cache
def _named_keys() -> frozenset[str]:
    """Textual's names of keys without a modifier."""
    known = {key.value for key in Keys if key.value.isalnum() and len(key.value) > 1}
    return frozenset((known | set(KEY_NAMES)) - {"ignore", "scrollup", "scrolldown"})


def key_of(text: str) -> str | None:
    """Textual's name for a key written as `F`, `?`, `F2`, `Ctrl+F`, `PgUp` or `question_mark`; None
    if terminals send no such key."""
    modifier, plus, rest = text.strip().rpartition("+")
    if text.strip() == "+" or not plus:
        return _unmodified(text.strip())
    modifier = modifier.casefold()
    base = _unmodified(rest.casefold())
    if modifier not in _MODIFIERS or base is None or (modifier == "shift" and len(rest) == 1):
        return None
    return _SAME.get(f"{modifier}+{base}", f"{modifier}+{base}")


def _unmodified(text: str) -> str | None:
    if len(text) == 1 and unicodedata.category(text)[0] in "LNPS":  # what has a shape of its own
        return text if text.isalnum() else _character(text)
    spoken = {name.casefold(): key for key, name in KEY_NAMES.items()}
    folded = text.casefold()
    return folded if folded in _named_keys() else spoken.get(folded)


def _character(character: str) -> str:
    """Textual's name for a character that is neither a letter nor a digit."""
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name) or character


def _clashes(
    document: YamlDocument, keys_of: Mapping[str, Mapping[str, KeyPath]]
) -> Iterator[Problem]:
    """A problem for each of the user's keys that would have two actions on one screen."""
    asked = list(_rows(keys_of))
    taken = [*built_in(), *asked]
    reported = set()
    for row in asked:
        if (row.name, row.key) in reported:
            continue
        at = keys_of[row.name or ""][row.key]
        other = next((other for other in taken if _clash(row, other)), None)
        if other is not None:
            reported.add((row.name, row.key))
            does = other.name or other.binding.description
            where = row.place if other.place == EVERYWHERE else other.place
            yield document.problem(
                at,
                f"`{key_name(row.key)}` is already the key of `{does}` ({where})",
                hint="choose a key that does nothing there; `?` lists them",
            )


def _clash(one: KeyRow, other: KeyRow) -> bool:
    """Whether one key would have two actions on a screen."""
    return one.key == other.key and one.name != other.name and one.meets(other)


def _rows(keys_of: Mapping[str, Iterable[str]]) -> Iterator[KeyRow]:
    """The bindings of the user's keys, once for each place."""
    seen = set()
    for row in built_in():
        for key in keys_of.get(row.name or "", ()):
            if (row.place, key, row.name) not in seen:
                seen.add((row.place, key, row.name))
                yield row._replace(key=key)


def keymap(own: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """A keymap for Textual: all keys by binding id, the user's first. Built-in keys stay, so that
    help and manual remain true."""
    keys_by_id: dict[str, str] = {}
    for row in built_in():
        name, identity = row.name, row.binding.id
        if name is not None and identity is not None and name in own:
            keys = identity.partition(":")[2].split(",")
            keys_by_id[identity] = ",".join(dict.fromkeys((*own[name], *keys)))
    return keys_by_id


def bound_classes() -> Iterator[type[DOMNode]]:
    """Every class of the app that declares bindings itself. Imports all modules of the app."""
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if module.name.endswith("__main__"):
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, DOMNode)
                and kind.__module__ == module.name
                and kind.__dict__.get("BINDINGS")
            ):
                yield kind
