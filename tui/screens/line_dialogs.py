"""Dialogs with one input line that answer while it is typed: a filter, a search, an id to go to, a
command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from engine.display import one_line, plural
from engine.errors import StoreError
from engine.store.browsing import HELP, Filter, FilterFault, parse
from tui.bindings import PaletteCommand
from tui.screens.base import Shell
from tui.screens.dialogs import LineQuestion, LineScreen, TypedReading, TypingScreen
from tui.services.palette import matching, nothing_found, of_ids
from tui.services.ticker import begin_instead
from tui.state.related import AT_MOST, find, metric_names
from tui.state.transcript import PatternFault
from tui.text.ink import (
    MEANINGFUL,
    Ink,
    Line,
    Piece,
    fitted_line,
    length,
    pad,
    shorten_middle,
    spread_line,
)
from tui.widgets.lines import ChoiceList


def ask_filter(typed: str, earlier: Sequence[str], answer: Callable[[Filter], None]) -> LineScreen:
    """Ask for a filter line; `answer` is called with each filter that can be parsed, while it is
    typed."""

    def read(line: str) -> TypedReading:
        try:
            answer(parse(line))
        except FilterFault as fault:
            return TypedReading(str(fault), accepted=False, ink=Ink.BAD)
        return TypedReading(HELP)

    words = "which rows: outcome:fail target:… or words of the justification"
    screen = LineScreen(LineQuestion("", words, "", read=read, earlier=earlier), typed)
    screen.add_class("-bottom")
    return screen


PALETTE_WIDTH: Final = 100
"""Cells of the card, as the stylesheet says."""
_NAME_WIDTH: Final = 24
"""The most cells of the column of names. A longer name reaches beyond it."""
FEWEST: Final = 2
"""How many letters must be typed before ids are searched among commands."""
MOST_IDS: Final = 12
"""The most ids listed below commands."""
_EXAMPLES: Final = "A part of an id (s002, a target) or of a metric's name"


class CommandScreen(TypingScreen[PaletteCommand]):
    """Lists the commands, and the ids, that match the line; its result is the chosen one. Without
    commands, it goes to ids alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+n", "next", "next", show=False),
        Binding("up", "before", "before", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
    ]

    def __init__(self, shell: Shell | None, commands: Sequence[PaletteCommand]) -> None:
        """Without a `shell`, ids are not searched."""
        asked = "a command, a benchmark, a target, an id" if commands else _EXAMPLES
        super().__init__(asked, self._begin_choosing)
        self._shell = shell
        self._commands = commands
        self._found: Sequence[PaletteCommand] = ()
        self._found_ids: Sequence[PaletteCommand] = ()
        self._found_for: str | None = None
        """The line for which the list is complete, ids included."""
        self._lines: Sequence[Line] = ()
        self._list = ChoiceList((), id="found")
        self._list.can_focus = False

    def between(self) -> Sequence[Widget]:
        return [self._list]

    def on_mount(self) -> None:
        self._show(matching(self._commands, ""))

    def on_resize(self) -> None:
        self._draw()

    def on_input_changed(self, message: Input.Changed) -> None:
        # the ids found before stay until others are found, or the list would flicker at each key
        typed = message.value.strip().casefold()
        stay = [found for found in self._found_ids if typed and typed in found.name.casefold()]
        self._show([*matching(self._commands, message.value), *stay])
        self.run_worker(self._answer(message.value), group="answer", exclusive=True)

    def on_cursor_view_opened(self) -> None:
        self.dismiss(self._found[self._list.cursor])

    def action_next(self) -> None:
        self._list.action_go_down()

    def action_before(self) -> None:
        self._list.action_go_up()

    def action_page(self, step: int) -> None:
        self._list.move_by(step * self._list.page_height)

    def _begin_choosing(self, typed: str) -> None:
        # in a group of its own: a letter typed after Enter asks for another list, which would
        # cancel the choice
        self.run_worker(self._choose(typed), group="choice", exclusive=True)

    async def _choose(self, typed: str) -> None:
        """Close with a choice for the line typed, for which the list may not have been made yet."""
        if self._found_for != typed:
            await self._answer(typed)
        if self._found:
            self.dismiss(self._found[self._list.cursor])

    async def _answer(self, typed: str) -> None:
        named = matching(self._commands, typed)
        try:
            self._found_ids = await self._ids(typed.strip())
        except StoreError as error:
            self.say(one_line(str(error)), Ink.BAD)
            return
        self._found_for = typed
        self._show([*named, *self._found_ids])

    async def _ids(self, typed: str) -> list[PaletteCommand]:
        fewest, most = (FEWEST, MOST_IDS) if self._commands else (1, AT_MOST)
        if self._shell is None or len(typed) < fewest:
            return []
        names = metric_names(self._shell.watch.benchmarks)
        ids = await asyncio.to_thread(find, self._shell.watch.reader, typed, names, most)
        return of_ids(ids, names, self._shell)

    def _show(self, commands: Sequence[PaletteCommand]) -> None:
        if commands != self._found or not self._lines:
            self._found = commands
            self._draw()
        self.on_cursor_view_moved()

    def on_cursor_view_moved(self) -> None:
        """Say what the chosen command does, where its line has no room for that."""
        typed = self.line.value
        if not self._found:
            # of ids alone, nothing is said before they were looked for
            known = self._commands or self._found_for == typed != ""
            self.say(nothing_found(self._commands, typed) if known else _EXAMPLES)
            return
        chosen = self._found[self._list.cursor]
        line = "".join(piece.text for piece in self._lines[self._list.cursor])
        self.say("Enter does it" if chosen.meaning in line else f"Enter: {chosen.meaning}")

    def _draw(self) -> None:
        width = max(min(PALETTE_WIDTH, self.app.size.width) - 6, 1)
        names = [cell_len(one_line(command.name)) for command in self._commands]
        longest = max((width for width in names if width <= _NAME_WIDTH), default=_NAME_WIDTH)
        groups = [None, *(command.group for command in self._found)]
        self._lines = [
            _command_line(command, longest, width, begins=command.group is not before)
            for command, before in zip(self._found, groups, strict=False)
        ]
        self._list.show(self._lines)


def _command_line(command: PaletteCommand, names: int, width: int, *, begins: bool) -> Line:
    """Name, meaning and key of a command, behind the name of its group where that begins; without
    the meaning where it has too little room. `names` is the width of the column of names."""
    text = shorten_middle(one_line(command.name), max(width - 24, _NAME_WIDTH))
    left = [
        Piece(" " + pad(command.group if begins else "", 6), Ink.ACCENT),
        Piece(pad(text, max(names, cell_len(text))), Ink.STRONG),
    ]
    keys = [Piece(command.keys + " ", Ink.ACCENT)] if command.keys else []
    if width - length(left) - length(keys) >= MEANINGFUL:
        left.append(Piece("  " + command.meaning, Ink.MUTED))
    return fitted_line(spread_line(left, keys, width), width)


_HELP = "Words, or /a regular expression. Enter stays, n and N go on."


class FindScreen(TypingScreen[str]):
    """Searches a transcript; its result is the pattern, or None where the search is given up."""

    def __init__(self, typed: str, find: Callable[[str], Awaitable[int]]) -> None:
        """`find` goes to the first place where the text occurs and returns how many there are."""
        super().__init__("words, or /a regular expression/", self._submit, typed)
        self._find = find

    def on_mount(self) -> None:
        self.say(_HELP)

    def on_input_changed(self, message: Input.Changed) -> None:
        begin_instead(self, partial(self._answer, message.value), "find")

    def _submit(self, typed: str) -> None:
        self.dismiss(typed.strip() or None)

    async def _answer(self, typed: str) -> None:
        try:
            count = await self._find(typed)
        except PatternFault as fault:
            self.say(str(fault), Ink.BAD)
            return
        if not typed.strip():
            self.say(_HELP)
        elif count:
            self.say(plural(count, "place"), Ink.GOOD)
        else:
            self.say("It does not occur here.", Ink.WARN)
