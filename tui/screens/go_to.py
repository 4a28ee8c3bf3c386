"""Goes to a metric, scenario or conversation by its id, answering while one types."""

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
from engine.store.reader import Reader
from tui.screens.dialogs import WIDTH, TypingScreen
from tui.state.filters import AT_MOST, FoundId, find
from tui.text.ink import Ink, Line, Piece, shorten_middle
from tui.widgets.lines import ChoiceList, OneLine

LEAST: Final = 24
"""Cells of an id, however long what stands behind it."""
TOGETHER: Final = 0.03
"""Seconds."""


class GoToScreen(TypingScreen[FoundId], inherit_bindings=False):
    """Ends with what was chosen, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close"),
        Binding("down,ctrl+n", "next", "next", show=False),
        Binding("up", "before", "before", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    def __init__(self, reader: Reader) -> None:
        super().__init__("an id, or any part of it")
        self._reader = reader
        self._found: Sequence[FoundId] = ()
        self._note = OneLine(id="note")
        self._list = ChoiceList((), id="found")
        self._list.can_focus = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self.line
            yield self._list
            yield self._note

    def on_mount(self) -> None:
        self._say("Type a part of an id, such as s002 or a target.")

    def on_input_changed(self, message: Input.Changed) -> None:
        self.run_worker(self._answer_soon(message.value), group="answer", exclusive=True)

    def submit(self, typed: str) -> None:
        """What is typed may be ahead of what was answered."""
        self.run_worker(self._choose(typed), group="answer", exclusive=True)

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._found[message.index])

    def action_next(self) -> None:
        self._list.action_go_down()

    def action_before(self) -> None:
        self._list.action_go_up()

    def action_complete(self) -> None:
        """Type what the cursor is on."""
        if self._found:
            self.line.value = self._found[self._list.cursor].id
            self.line.cursor_position = len(self.line.value)

    async def _choose(self, typed: str) -> None:
        chosen = self._list.cursor
        before = self._found
        await self._answer(typed)
        if self._found:
            self.dismiss(self._found[chosen if self._found == before else 0])

    async def _answer_soon(self, typed: str) -> None:
        """Letters that follow each other at once are answered together."""
        await asyncio.sleep(TOGETHER)
        await self._answer(typed)

    async def _answer(self, typed: str) -> None:
        try:
            found = await asyncio.to_thread(find, self._reader, typed)
        except StoreError as error:
            self._say(one_line(str(error)), Ink.BAD)
            return
        if found == self._found and found:
            return
        self._found = found
        width = max(min(WIDTH, self.app.size.width) - 6, 1)
        self._list.show([_line(each, typed.strip(), width) for each in found])
        self._say(_words(typed, len(found)))

    def _say(self, text: str, ink: Ink = Ink.MUTED) -> None:
        self._note.show([Piece(text, ink)])


def _words(typed: str, found: int) -> str:
    if not typed.strip():
        return "Type a part of an id, such as s002 or a target."
    if not found:
        return "No metric, scenario or conversation is called so."
    more = f"{found} or more, type on; " if found >= AT_MOST else ""
    return f"{more}Enter opens, Tab completes, Esc closes"


def _line(found: FoundId, typed: str, width: int) -> Line:
    of = f"  {found.kind} of {one_line(found.benchmark, 24)}"
    name = shorten_middle(one_line(found.id), max(width - 2 - cell_len(of), LEAST))
    start = max(name.lower().find(typed.lower()), 0)
    end = start + len(typed)
    return [
        Piece(" "),
        Piece(name[:start], Ink.STRONG),
        Piece(name[start:end], Ink.ACCENT),
        Piece(name[end:], Ink.STRONG),
        Piece(of, Ink.MUTED),
    ]
