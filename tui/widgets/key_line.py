"""The footer: what keys do here, the most useful first. Help and the way out are never left out."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen

from tui.bindings import KEY_NAMES, Hinting, key_name
from tui.text.ink import Ink, Line, Piece
from tui.widgets.base import LineView

ORDER: Final = (
    "mark_reply",
    "present",
    "absent",
    "cannot_tell",
    "undo_label",
    "note",
    "confidence",
    "pause_label",
    "dispute",
    "approve",
    "reject",
    "edit_entry",
    "generate_again",
    "undo_review",
    "undo_decision",
    "toggle_all",
    "open",
    "begin",
    "pilot",
    "failures",
    "again",
    "next_evidence",
    "next_conversation",
    "pin",
    "filter",
    "section",
    "benchmark",
    "overall",
    "judge_again",
    "compare",
    "play_again",
    "sort",
    "mark",
    "go",
    "pause",
    "workers",
    "merge",
    "clear",
    "again_all",
    "new",
    "edit",
    "search",
    "type",
    "next_found",
    "find",
    "scenario",
    "definition",
    "freeze",
    "wall",
    "toggle_setup",
    "toggle_thoughts",
    "go_to",
    "focus_next",
    "copy",
    "page",
    "replay",
    "earlier_take",
    "later_take",
    "previous_conversation",
    "reverse",
    "mark_all",
    "unpark",
    "concurrency",
    "stop",
    "zoom",
    "export",
    "star",
    "stars",
    "mouse",
    "theme",
    "command_palette",
)
"""Actions in the order in which they get room."""
ALWAYS: Final = ("help", "leave_root", "back", "close", "stay")


class Hint(NamedTuple):
    """A key, what it does in a word or two, and what a click on it does."""

    key: str
    text: str
    action: str
    node: DOMNode

    def up_to(self, key: str) -> Hint:
        """One hint for several keys, this one's and `key`, that differ only in their object."""
        before, _, last = self.key.rpartition(" ")
        if not (last[-1:] + key).isdigit() or int(key) != int(last[-1]) + 1:
            return self._replace(key=f"{self.key} {key}")
        return self._replace(key=f"{before} {last.partition('-')[0]}-{key}".lstrip())

    @property
    def width(self) -> int:
        """The cells that this key and its words take."""
        return cell_len(self.key) + 1 + cell_len(self.text)


class _Possible(NamedTuple):
    """A key that acts here, whether or not there is something for it to do."""

    binding: Binding
    node: DOMNode
    action: str


def _is_typed(key: str, screen: Screen[object]) -> bool:
    """Whether it only puts a letter into what has the focus. Textual says so of built-in keys."""
    focused = screen.focused
    # `slash` and its like are no names of Unicode, by which Textual would know what they type
    character = KEY_NAMES.get(key, "")
    typed = character if len(character) == 1 and character.isascii() else key_to_character(key)
    return focused is not None and focused.check_consume_key(key, typed)


class KeyLine(LineView):
    """One row. A click on a hint does what its key does."""

    can_focus = False
    DEFAULT_CSS = """
    KeyLine { height: 1; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._possible: list[_Possible] = []
        self._hints: list[Hint] = []
        self._kept: list[Hint] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._renew)
        self._renew(self.screen)

    def row_count(self) -> int:
        return 1

    def row(self, index: int) -> Line:
        del index
        line: list[Piece] = []
        for _start, hint in self._placed():
            gap = _start - sum(cell_len(piece.text) for piece in line)
            line += [
                Piece(" " * gap),
                Piece(hint.key, Ink.ACCENT),
                Piece(" " + hint.text, Ink.MUTED),
            ]
        return line

    async def on_click(self, event: events.Click) -> None:
        for start, hint in self._placed():
            if start <= event.x < start + hint.width:
                await self.app.run_action(hint.action, hint.node)
                return

    def _renew(self, screen: Screen[object]) -> None:
        if not screen.is_attached:
            return
        self._possible = [
            _Possible(active.binding, active.node, active.binding.action.removeprefix("app."))
            for key, active in screen.active_bindings.items()
            if active.binding.show and active.enabled and not _is_typed(key, screen)
        ]
        self._kept, self._hints = [], []
        self.look()

    def look(self) -> None:
        """Ask what each key would do now, and show what has changed."""
        hints: dict[str, Hint] = {}
        told: set[str] = set()
        for binding, node, whole in self._possible:
            action, _, several = whole.partition("(")
            now = node.hint(action) if isinstance(node, Hinting) else None
            if now == "" or binding.action in told:
                continue
            told.add(binding.action)
            if action not in hints:
                key = key_name(binding.key)
                hints[action] = Hint(key, now or binding.description, binding.action, node)
            # `go('Live')` and its like are one hint for a row of keys: `1-5 screens`
            elif several:
                hints[action] = hints[action].up_to(key_name(binding.key))
        kept = [hints[action] for action in ALWAYS if action in hints]
        others = [hints[action] for action in ORDER if action in hints and action not in ALWAYS]
        if (kept, others) != (self._kept, self._hints):
            self._kept, self._hints = kept, others
            self.redraw()

    def _placed(self) -> list[tuple[int, Hint]]:
        """Where each hint that has room begins."""
        width = self.line_width - 1
        # help and the way out first: they stand at the right end, and the others share what is
        # left
        kept = sum(hint.width for hint in self._kept) + 2 * max(len(self._kept) - 1, 0)
        placed: list[tuple[int, Hint]] = []
        at = 1
        for hint in self._hints:
            if at + hint.width + 2 + kept > width:
                break
            placed.append((at, hint))
            at += hint.width + 2
        at = max(width - kept, min(at, width - kept), 0)
        for hint in self._kept:
            placed.append((at, hint))
            at += hint.width + 2
        return placed
