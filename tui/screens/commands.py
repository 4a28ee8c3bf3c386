"""Asks for a command by its name, answering while one types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from engine.display import one_line
from engine.errors import StoreError
from tui.bindings import PaletteCommand
from tui.screens.base import Shell
from tui.screens.dialogs import TypingScreen
from tui.services.palette import matching, of_ids
from tui.state.filters import find
from tui.text.ink import Ink, Line, Piece, fitted, pad, shorten_middle, spread
from tui.widgets.lines import ChoiceList, OneLine

WIDTH: Final = 100
"""Cells of the card, as the stylesheet says."""
_NAME_WIDTH: Final = 24
FEWEST: Final = 2
"""Letters from which on ids are looked for."""
MOST_IDS: Final = 12


class CommandScreen(TypingScreen[PaletteCommand], inherit_bindings=False):
    """Ends with what was chosen, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close"),
        Binding("down,ctrl+n", "next", "next", show=False),
        Binding("up", "before", "before", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
    ]

    def __init__(self, shell: Shell | None, commands: Sequence[PaletteCommand]) -> None:
        """Without a shell, no ids are looked for."""
        super().__init__("a command, a benchmark, a target, an id")
        self._shell = shell
        self._commands = commands
        self._found: Sequence[PaletteCommand] = ()
        self._found_for: str | None = None
        """What was typed when all of them, ids as well, were found."""
        self._list = ChoiceList((), id="found")
        self._list.can_focus = False
        self._note = OneLine(id="note")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self.line
            yield self._list
            yield self._note

    def on_mount(self) -> None:
        self._show(matching(self._commands, ""))

    def on_resize(self) -> None:
        self._draw()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._show(matching(self._commands, message.value))
        self.run_worker(self._answer(message.value), group="answer", exclusive=True)

    def submit(self, typed: str) -> None:
        """What is typed may be ahead of what was answered."""
        self.run_worker(self._choose(typed), group="answer", exclusive=True)

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._found[message.index])

    def action_next(self) -> None:
        self._list.action_go_down()

    def action_before(self) -> None:
        self._list.action_go_up()

    def action_page(self, step: int) -> None:
        self._list.move_by(step * self._list.page_height)

    async def _choose(self, typed: str) -> None:
        if self._found_for != typed:
            await self._answer(typed)
        if self._found:
            self.dismiss(self._found[self._list.cursor])

    async def _answer(self, typed: str) -> None:
        named = matching(self._commands, typed)
        try:
            ids = await self._ids(typed.strip())
        except StoreError as error:
            self._note.show([Piece(one_line(str(error)), Ink.BAD)])
            return
        self._show([*named, *ids])
        self._found_for = typed

    async def _ids(self, typed: str) -> list[PaletteCommand]:
        if self._shell is None or len(typed) < FEWEST:
            return []
        found = await asyncio.to_thread(find, self._shell.watch.reader, typed, MOST_IDS)
        return of_ids(found, self._shell)

    def _show(self, found: Sequence[PaletteCommand]) -> None:
        if found != self._found or self._found_for is None:
            self._found = found
            self._draw()
        none = "No command, benchmark, target or id is called so."
        self._note.show([Piece("Enter does it, Esc closes" if found else none, Ink.MUTED)])

    def _draw(self) -> None:
        width = max(min(WIDTH, self.app.size.width) - 6, 1)
        groups = [None, *(command.group for command in self._found)]
        self._list.show(
            [
                _line(command, width, begins=command.group is not before)
                for command, before in zip(self._found, groups, strict=False)
            ]
        )


def _line(command: PaletteCommand, width: int, *, begins: bool) -> Line:
    """Its name first, then what it does, and the key that does it; its group where that begins."""
    text = shorten_middle(one_line(command.name), max(width - 24, _NAME_WIDTH))
    left = [
        Piece(" " + pad(command.group if begins else "", 6), Ink.ACCENT),
        Piece(pad(text, max(_NAME_WIDTH, cell_len(text))), Ink.STRONG),
        Piece("  " + command.meaning, Ink.MUTED),
    ]
    keys = [Piece(command.keys + " ", Ink.ACCENT)] if command.keys else []
    return fitted(spread(left, keys, width), width)
