"""Dialogs with one input line that answer while it is typed: a filter, a search, an id to go to, a
command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from engine.display import one_line, plural
from engine.errors import StoreError
from engine.store.browsing import HELP, Filter, FilterFault, parse
from engine.store.reader import Reader
from engine.watch import BenchmarkInfo
from tui.bindings import PaletteCommand
from tui.screens.base import Shell
from tui.screens.dialogs import WIDTH, ResultT, TypingScreen
from tui.services.palette import matching, nothing_found, of_ids
from tui.services.ticker import begin_instead
from tui.state.related import AT_MOST, FoundId, MetricNames, find, metric_names, what_is
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
    told_apart,
)
from tui.widgets.lines import ChoiceList


class _ChoosingScreen(TypingScreen[ResultT]):
    """A dialog that lists what matches the line; its result is the chosen one, or None."""

    def __init__(
        self, placeholder: str, choose: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        """`choose` closes with a choice for the line typed, for which the list may not have been
        made yet."""
        super().__init__(placeholder, self._begin_choosing)
        self._choose = choose
        self._found: Sequence[ResultT] = ()
        self._list = ChoiceList((), id="found")
        self._list.can_focus = False

    def between(self) -> Sequence[Widget]:
        return [self._list]

    def _begin_choosing(self, typed: str) -> None:
        # in a group of its own: a letter typed after Enter asks for another list, which would
        # cancel the choice
        self.run_worker(self._choose(typed), group="choice", exclusive=True)

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._found[message.index])

    def action_next(self) -> None:
        self._list.action_go_down()

    def action_before(self) -> None:
        self._list.action_go_up()


class FilterScreen(TypingScreen[str]):
    """Its result is the filter line, or None where the filter stays as it was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier", "an earlier line", show=False),
        Binding("down", "later", "a later line", show=False),
    ]

    def __init__(
        self, typed: str, earlier: Sequence[str], answer: Callable[[Filter], None]
    ) -> None:
        """`earlier` are lines used before, the last one first, for the arrow keys. `answer` is
        called with each filter that can be parsed, while it is typed."""
        super().__init__(
            "which rows: outcome:fail target:… or words of the justification", self._submit, typed
        )
        self._lines = [typed, *(line for line in earlier if line != typed)]
        self._place = 0
        self._answer = answer

    def on_mount(self) -> None:
        self.say(HELP)

    def on_input_changed(self, message: Input.Changed) -> None:
        try:
            self._answer(parse(message.value))
        except FilterFault as fault:
            self.say(str(fault), Ink.BAD)
        else:
            self.say(HELP)

    def _submit(self, typed: str) -> None:
        """Close with the line, or say what is wrong with it."""
        try:
            parse(typed)
        except FilterFault as fault:
            self.say(str(fault), Ink.BAD)
        else:
            self.dismiss(" ".join(typed.split()))

    def action_earlier(self) -> None:
        self._show(self._place + 1)

    def action_later(self) -> None:
        self._show(self._place - 1)

    def _show(self, place: int) -> None:
        if 0 <= place < len(self._lines):
            self._place = place
            self.line.value = self._lines[place]
            self.line.cursor_position = len(self.line.value)


LEAST: Final = 24
"""Cells that an id has at least, however long the words behind it."""
_PLACE_WIDTH: Final = 24
"""The most cells of a benchmark's name behind an id."""
TOGETHER: Final = 0.03
"""Seconds within which letters that are typed are looked up together."""


class GoToScreen(_ChoosingScreen[FoundId]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+n", "next", "next", show=False),
        Binding("up", "before", "before", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    def __init__(self, reader: Reader, benchmarks: Iterable[BenchmarkInfo]) -> None:
        super().__init__("an id or the name of a metric, or any part of it", self._choose_id)
        self._reader = reader
        self._metrics = metric_names(benchmarks)

    def on_mount(self) -> None:
        self.say(_EXAMPLES)

    def on_input_changed(self, message: Input.Changed) -> None:
        self.run_worker(self._answer_soon(message.value), group="answer", exclusive=True)

    def action_complete(self) -> None:
        """Complete the line to the id under the cursor."""
        if self._found:
            self.line.value = self._found[self._list.cursor].id
            self.line.cursor_position = len(self.line.value)

    async def _choose_id(self, typed: str) -> None:
        chosen = self._list.cursor
        before = self._found
        await self._answer(typed)
        if self._found:
            self.dismiss(self._found[chosen if self._found == before else 0])

    async def _answer_soon(self, typed: str) -> None:
        """Wait for further letters, then answer; a later call cancels this one."""
        await asyncio.sleep(TOGETHER)
        await self._answer(typed)

    async def _answer(self, typed: str) -> None:
        try:
            ids = await asyncio.to_thread(find, self._reader, typed, self._metrics)
        except StoreError as error:
            self.say(one_line(str(error)), Ink.BAD)
            return
        if ids == self._found and ids:
            return
        self._found = ids
        width = max(min(WIDTH, self.app.size.width) - 6, 1)
        self._list.show(_lines(ids, typed.strip(), width, self._metrics))
        self.say(_matches_words(typed, len(ids)))


_EXAMPLES: Final = "A part of an id (s002, a target) or of a metric's name"


def _matches_words(typed: str, count: int) -> str:
    if not typed.strip():
        return _EXAMPLES
    if not count:
        return "No metric, scenario or conversation has that name."
    more = f"{count} or more, type on; " if count >= AT_MOST else ""
    return f"{more}Enter opens, Tab completes"


def _lines(ids: Sequence[FoundId], typed: str, width: int, metrics: MetricNames) -> list[Line]:
    of = [what_is(found_id, {}, _PLACE_WIDTH) for found_id in ids]
    room = max(width - 4 - max(map(cell_len, of), default=0), LEAST)
    names = told_apart(tuple(one_line(found_id.id) for found_id in ids), room)
    return [
        fitted_line(
            [
                Piece(" "),
                *_typed_in(names[one_line(found_id.id)], typed, Ink.STRONG),
                Piece("  "),
                *_typed_in(what_is(found_id, metrics, _PLACE_WIDTH), typed, Ink.MUTED),
            ],
            width,
        )
        for found_id in ids
    ]


def _typed_in(text: str, typed: str, ink: Ink) -> Line:
    """The text, with what was typed highlighted where it is in it."""
    start = text.lower().find(typed.lower())
    end = start + len(typed)
    if start < 0:
        return [Piece(text, ink)]
    return [Piece(text[:start], ink), Piece(text[start:end], Ink.ACCENT), Piece(text[end:], ink)]


PALETTE_WIDTH: Final = 100
"""Cells of the card, as the stylesheet says."""
_NAME_WIDTH: Final = 24
"""The most cells of the column of names. A longer name reaches beyond it."""
FEWEST: Final = 2
"""How many letters must be typed before ids are searched."""
MOST_IDS: Final = 12


class CommandScreen(_ChoosingScreen[PaletteCommand]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+n", "next", "next", show=False),
        Binding("up", "before", "before", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
    ]

    def __init__(self, shell: Shell | None, commands: Sequence[PaletteCommand]) -> None:
        """Without a `shell`, ids are not searched."""
        super().__init__("a command, a benchmark, a target, an id", self._choose_command)
        self._shell = shell
        self._commands = commands
        self._found_for: str | None = None
        """The line for which the list is complete, ids included."""
        self._lines: Sequence[Line] = ()

    def on_mount(self) -> None:
        self._show(matching(self._commands, ""))

    def on_resize(self) -> None:
        self._draw()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._show(matching(self._commands, message.value))
        self.run_worker(self._answer(message.value), group="answer", exclusive=True)

    def action_page(self, step: int) -> None:
        self._list.move_by(step * self._list.page_height)

    async def _choose_command(self, typed: str) -> None:
        if self._found_for != typed:
            await self._answer(typed)
        if self._found:
            self.dismiss(self._found[self._list.cursor])

    async def _answer(self, typed: str) -> None:
        named = matching(self._commands, typed)
        try:
            ids = await self._ids(typed.strip())
        except StoreError as error:
            self.say(one_line(str(error)), Ink.BAD)
            return
        self._show([*named, *ids])
        self._found_for = typed

    async def _ids(self, typed: str) -> list[PaletteCommand]:
        if self._shell is None or len(typed) < FEWEST:
            return []
        names = metric_names(self._shell.watch.benchmarks)
        ids = await asyncio.to_thread(find, self._shell.watch.reader, typed, names, MOST_IDS)
        return of_ids(ids, names, self._shell)

    def _show(self, commands: Sequence[PaletteCommand]) -> None:
        if commands != self._found or self._found_for is None:
            self._found = commands
            self._draw()
        self.on_cursor_view_moved()

    def on_cursor_view_moved(self) -> None:
        """Say what the chosen command does, where its line has no room for that."""
        if not self._found:
            self.say(nothing_found(self._commands, self.line.value))
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
