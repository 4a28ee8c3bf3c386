"""How keys are written, and what each of them does on a screen: one source for footer and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from tui.widgets.base import LineView

_NAMES: Final = {
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


def key(
    keys: str, action: str, description: str, meaning: str = "", *, show: bool = True
) -> Binding:
    """A binding with a word for the footer and a sentence for the help screen."""
    return Binding(keys, action, description, tooltip=meaning, show=show)


def key_name(key: str) -> str:
    """`Ctrl+D`, `↑`, `{`."""
    if key in _NAMES:
        return _NAMES[key]
    if key.startswith("ctrl+"):
        return f"Ctrl+{key.removeprefix('ctrl+').upper()}"
    return key


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


def own_bindings(node: DOMNode) -> Iterator[Binding]:
    """Those that our classes give a node, one for each key, the nearest class first."""
    yield from bindings_of(type(node))


def bindings_of(kind: type[DOMNode]) -> Iterator[Binding]:
    """The same for every node of a class."""
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
