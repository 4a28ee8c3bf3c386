"""The footer: what the keys do here, the most useful first. Help and quit always have room."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen

from tui.bindings import KEY_NAMES, key_name
from tui.text.ink import Ink, Line, Piece
from tui.widgets.base import Hinting, OneRow

ORDER: Final = (
    "mark_reply",
    "answer",
    "undo_label",
    "note",
    "confidence",
    "pause_label",
    "dispute",
    "undo_decision",
    "open",
    "edit_entry",
    "undo_review",
    "toggle_all",
    "begin",
    "pilot",
    "failures",
    "details",
    "again",
    "next_evidence",
    "next_conversation",
    "next_call",
    "previous_call",
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
    "tab",
    "merge",
    "clear",
    "hide",
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
    "calls",
    "go_to",
    "focus_next",
    "copy",
    "page",
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
"""Actions in the order in which they are given room."""
ALWAYS: Final = ("help", "leave_root", "back", "close", "stay")


class Hint(NamedTuple):
    """A key, its effect in a word or two, and the action that a click on it runs."""

    key: str
    text: str
    action: str
    node: DOMNode

    def up_to(self, key: str) -> Hint:
        """Add `key` to the hint: `1-2` for consecutive digits, else both keys."""
        before, _, last = self.key.rpartition(" ")
        if not (last[-1:] + key).isdigit() or int(key) != int(last[-1]) + 1:
            return self._replace(key=f"{self.key} {key}")
        return self._replace(key=f"{before} {last.partition('-')[0]}-{key}".lstrip())

    @property
    def width(self) -> int:
        """The width of the key and its text in cells."""
        return cell_len(self.key) + 1 + cell_len(self.text)


def _is_typed(key: str, screen: Screen[object]) -> bool:
    """Whether the focused widget, such as an input, would consume the key as a character."""
    focused = screen.focused
    # names such as `slash` are not Unicode names, so Textual cannot tell what they type
    character = KEY_NAMES.get(key, "")
    typed = character if len(character) == 1 and character.isascii() else key_to_character(key)
    return focused is not None and focused.check_consume_key(key, typed)


class KeyLine(OneRow):
    """The footer's row. A click on a hint runs its key's action."""

    def __init__(self) -> None:
        super().__init__(self._line)
        self._possible: list[Hint] = []
        """The enabled keys, with their own descriptions."""
        self._hints: list[Hint] = []
        self._kept: list[Hint] = []
        self._outdated = True
        """Whether the keys may have changed since `_possible` was set."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._note_change)
        self._look_if_outdated()

    def _line(self) -> Line:
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

    def _note_change(self, screen: Screen[object]) -> None:
        """Look again once, however often the screen says it: opening one says it five times."""
        if not self._outdated and screen.is_attached:
            self._outdated = True
            self.call_later(self._look_if_outdated)

    def _look_if_outdated(self) -> None:
        # a covered screen's footer is read anew with the first tick after it comes up; under a
        # dialog it stays as it was, as what it said then would be of the dialog's keys
        if self._outdated and self.app.screen is self.screen:
            self.look()

    def _renew(self) -> None:
        self._outdated = False
        screen = self.screen
        self._possible = [
            Hint(
                key_name(active.binding.key),
                active.binding.description,
                active.binding.action,
                active.node,
            )
            for key, active in screen.active_bindings.items()
            if active.binding.show and active.enabled and not _is_typed(key, screen)
        ]
        self._kept, self._hints = [], []

    def look(self) -> None:
        """Ask each key for its hint, and redraw if any has changed."""
        if self._outdated:
            self._renew()
        hints: dict[str, Hint] = {}
        shown: set[str] = set()
        for hint in self._possible:
            action, _, several = hint.action.removeprefix("app.").partition("(")
            now = hint.node.hint(action) if isinstance(hint.node, Hinting) else None
            if now == "" or hint.action in shown:
                continue
            shown.add(hint.action)
            if action not in hints:
                hints[action] = hint._replace(text=now) if now else hint
            # actions such as `go('Live')` share one hint for a range of keys: `1-5 screens`
            elif several:
                hints[action] = hints[action].up_to(hint.key)
        always = [hints[action] for action in ALWAYS if action in hints]
        others = [hints[action] for action in ORDER if action in hints and action not in ALWAYS]
        if (always, others) != (self._kept, self._hints):
            self._kept, self._hints = always, others
            self.redraw()

    def _placed(self) -> list[tuple[int, Hint]]:
        """The hints that fit, each with its first column."""
        width = self.line_width - 1
        # help and quit first: they stand at the right end, and the others share the remaining width
        always_width = sum(hint.width for hint in self._kept) + 2 * max(len(self._kept) - 1, 0)
        placed: list[tuple[int, Hint]] = []
        at = 1
        for hint in self._hints:
            if at + hint.width + 2 + always_width > width:
                break
            placed.append((at, hint))
            at += hint.width + 2
        at = max(width - always_width, min(at, width - always_width), 0)
        for hint in self._kept:
            placed.append((at, hint))
            at += hint.width + 2
        return placed
