"""How keys are written, and what each of them does on a screen: one source for footer and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen

from tui.widgets.base import LineView

KEY_NAMES: Final = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "enter": "Enter",
    "escape": "Esc",
    "backspace": "Backspace",
    "space": "Space",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
    "comma": ",",
    "full_stop": ".",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "plus": "+",
    "minus": "-",
    "slash": "/",
    "backslash": "\\",
    "asterisk": "*",
    "apostrophe": "'",
    "equals_sign": "=",
}
"""Textual's names for keys, and how they are written for people."""


_ACTION_NAMES: Final = {
    "dispute(1)": "next_dispute",
    "dispute(-1)": "previous_dispute",
    "benchmark(1)": "next_benchmark",
    "benchmark(-1)": "previous_benchmark",
    "concurrency(1)": "more_at_once",
    "concurrency(-1)": "fewer_at_once",
    "leave_root": "back",
    "section(1)": "next_section",
    "section(-1)": "previous_section",
}
"""Of actions that differ only in their object, or are one to whoever presses the key."""


def key(
    keys: str, action: str, description: str, meaning: str = "", *, show: bool = True
) -> Binding:
    """A binding with a word for the footer and a sentence for the help screen. With a sentence, its
    action may be given other keys by its name; what opens and what moves keeps its keys alone."""
    name = action_name(action) if meaning and action != "open" else None
    # with the keys: of what is done by several, each keeps its own beside those that are given
    identity = None if name is None else f"{name}:{keys}"
    return Binding(keys, action, description, tooltip=meaning, show=show, id=identity)


def action_name(action: str) -> str:
    """As a person writes it into a file of keys: `pause`, `go_live`, `next_section`."""
    name, _, given = action.partition("(")
    known = _ACTION_NAMES.get(action)
    return known or (f"{name}_{given.strip(chr(39) + ')').lower()}" if given else name)


def name_of(binding: Binding) -> str | None:
    """What its action is called in a file of keys; None where it keeps its keys alone."""
    return None if binding.id is None else binding.id.partition(":")[0]


def key_name(key: str) -> str:
    """`Ctrl+D`, `↑`, `{`, `F2`."""
    if key in KEY_NAMES:
        return KEY_NAMES[key]
    modifier, plus, rest = key.rpartition("+")
    if plus:
        return f"{modifier.title()}+{KEY_NAMES.get(rest) or rest.title()}"
    character = key_to_character(key) or ""
    # Unicode knows `delete` as a control code
    return character if character.isprintable() and character else key.title()


class KeyAction(NamedTuple):
    """Something that keys do."""

    action: str
    description: str
    """In a word or two, for the footer."""
    meaning: str
    """In a sentence."""
    keys: Sequence[str]
    """As they are written for people."""
    node: DOMNode
    """Whose action it is."""


@runtime_checkable
class Hinting(Protocol):
    """Knows of its keys what they would do now."""

    def hint(self, action: str) -> str | None:
        """In a word or two; empty where it would do nothing, None where it is as ever."""
        ...


FROZEN: Final = "move on"
"""What the key would do that has frozen the display."""


@runtime_checkable
class HasKeymap(Protocol):
    """An app whose user has keys of their own."""

    keymap: Mapping[str, str]
    """All keys of a binding by its id, with commas between them, those of the user first."""


def own_bindings(node: DOMNode) -> Iterator[Binding]:
    """Those that our classes give a node, one for each key, the nearest class first, with the
    user's own keys."""
    keymap = node.app.keymap if isinstance(node.app, HasKeymap) else {}
    for binding in bindings_of(type(node)):
        for each in keymap.get(binding.id or "", binding.key).split(","):
            yield binding.with_key(each)


def bindings_of(kind: type[DOMNode]) -> Iterator[Binding]:
    """As they are built in, for every node of a class."""
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == "tui":
            yield from Binding.make_bindings(each.__dict__.get("BINDINGS", ()))


def deeds(nodes: Iterable[DOMNode]) -> list[KeyAction]:
    """What can be done with keys on these, each once."""
    found: dict[tuple[str, str], KeyAction] = {}
    for node in nodes:
        for binding in own_bindings(node):
            place = (binding.action, binding.description)
            before = found.get(place)
            name = key_name(binding.key)
            if before is None:
                found[place] = KeyAction(
                    binding.action,
                    binding.description,
                    binding.tooltip or binding.description,
                    (name,),
                    node,
                )
            elif name not in before.keys:
                found[place] = before._replace(keys=(*before.keys, name))
    return list(found.values())


def actions_by_pane(screen: Screen[object]) -> list[tuple[str, list[KeyAction]]]:
    """What can be done on a screen: the screen itself, then its panes, then everywhere."""
    panes = {type(pane): pane for pane in screen.query(LineView) if pane.can_focus}
    places = [
        ("On this screen", deeds([screen])),
        ("In lists and texts", deeds(panes.values())),
        ("Everywhere", deeds([screen.app])),
    ]
    return [(title, found) for title, found in places if found]


class PaletteGroup(StrEnum):
    """What a command is about; in the order in which they are shown."""

    HERE = "here"
    GO = "go"
    RUN = "run"
    APP = "app"


class PaletteCommand(NamedTuple):
    """Something that can be done by its name."""

    group: PaletteGroup
    name: str
    meaning: str
    keys: str
    act: Callable[[], object]
    """May give something to wait for."""
