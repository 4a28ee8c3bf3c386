"""Key names and key bindings: one source for the footer and the help screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

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
    "vertical_line": "|",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}
"""Textual's names for keys, and how they are written for users."""


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
"""Names for actions that differ only in their argument, or are one action to the user."""


def key(
    keys: str, action: str, description: str, meaning: str = "", *, show: bool = True
) -> Binding:
    """A binding with `description` for the footer and `meaning` for the help screen. With a
    meaning, users may give its action other keys by name, except for `open`."""
    name = action_name(action) if meaning and action != "open" else None
    # with the keys: if an action has several bindings, each keeps its own keys too
    identity = None if name is None else f"{name}:{keys}"
    return Binding(keys, action, description, tooltip=meaning, show=show, id=identity)


def action_name(action: str) -> str:
    """An action's name in a file of keys: `pause`, `go_live`, `next_section`."""
    name, _, arguments = action.partition("(")
    known = _ACTION_NAMES.get(action)
    return known or (f"{name}_{arguments.strip(chr(39) + ')').lower()}" if arguments else name)


def name_of(binding: Binding) -> str | None:
    """The name of the binding's action in a file of keys; None if its keys cannot be changed."""
    return None if binding.id is None else binding.id.partition(":")[0]


def key_name(key: str) -> str:
    """`Ctrl+D`, `↑`, `{`, `F2`."""
    if key in KEY_NAMES:
        return KEY_NAMES[key]
    modifier, plus, rest = key.rpartition("+")
    if plus:
        return f"{modifier.title()}+{KEY_NAMES.get(rest) or rest.title()}"
    character = key_to_character(key) or ""
    # Unicode has `delete` as a control code
    return character if character.isprintable() and character else key.title()


class KeyAction(NamedTuple):
    """An action and its keys."""

    action: str
    description: str
    """A word or two for the footer."""
    meaning: str
    """A sentence for the help screen."""
    keys: Sequence[str]
    """As written for users."""
    node: DOMNode
    """The node that has the action."""


FROZEN: Final = "move on"
"""The hint of the key that froze the display."""


class HasKeymap:
    """An app whose user may have keys of their own."""

    keymap: Mapping[str, str] = MappingProxyType({})
    """All keys of a binding, by its id; separated by commas, the user's first."""


def own_bindings(node: DOMNode) -> Iterator[Binding]:
    """The bindings of a node from our classes, nearest class first, one per key, including the
    user's keys."""
    keymap = node.app.keymap if isinstance(node.app, HasKeymap) else {}
    for binding in bindings_of(type(node)):
        for word in keymap.get(binding.id or "", binding.key).split(","):
            yield binding.with_key(word)


def bindings_of(kind: type[DOMNode]) -> Iterator[Binding]:
    """The built-in bindings of a node class."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "tui":
            yield from Binding.make_bindings(base.__dict__.get("BINDINGS", ()))


def key_actions(nodes: Iterable[DOMNode]) -> list[KeyAction]:
    """The actions of these nodes' keys, each once."""
    actions: dict[tuple[str, str], KeyAction] = {}
    for node in nodes:
        for binding in own_bindings(node):
            place = (binding.action, binding.description)
            before = actions.get(place)
            name = key_name(binding.key)
            if before is None:
                actions[place] = KeyAction(
                    binding.action,
                    binding.description,
                    binding.tooltip or binding.description,
                    (name,),
                    node,
                )
            elif name not in before.keys:
                actions[place] = before._replace(keys=(*before.keys, name))
    return list(actions.values())


def actions_by_pane(screen: Screen[object]) -> list[tuple[str, list[KeyAction]]]:
    """The actions on a screen: its own, then its panes', then the app's."""
    panes = {type(pane): pane for pane in screen.query(LineView) if pane.can_focus}
    places = [
        ("On this screen", key_actions([screen])),
        ("In lists and texts", key_actions(panes.values())),
        ("Everywhere", key_actions([screen.app])),
    ]
    return [(title, pane_actions) for title, pane_actions in places if pane_actions]


class PaletteGroup(StrEnum):
    """The groups of commands, in the order in which they are shown."""

    HERE = "here"
    GO = "go"
    RUN = "run"
    APP = "app"


class PaletteCommand(NamedTuple):
    """A command that is run by its name."""

    group: PaletteGroup
    name: str
    meaning: str
    keys: str
    act: Callable[[], object]
    """May return an awaitable."""
    acts_now: bool = True
    """Whether it would do something now. Else only its name finds it."""
