"""Small screens above another one: cards of text, a choice, an input line, and what asks how a run
ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from engine.benchmark import name_fault
from engine.display import one_line
from engine.link import Board
from tui.text.ink import Ink, Line, Piece, fitted_line, length, pad, spread_line
from tui.text.wrap import wrapped_lines
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import ChoiceList, Lines, OneLine

ResultT = TypeVar("ResultT")


class Overlay(ModalScreen[ResultT], inherit_bindings=False):
    """A screen above another one, which returns a result once. A second key that arrives while it
    closes, such as the Enter of its input line, would otherwise close the screen beneath it."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]
    answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        """Close with a result; later calls do nothing."""
        if self.answered:
            return AwaitComplete()
        self.answered = True
        return super().dismiss(result)

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss()


class DialogFooter(OneLine):
    """The last row of a dialog: on its left what Enter does or what is wrong with the line typed,
    on its right the key that closes it."""

    def __init__(self, words: str = "") -> None:
        super().__init__(id="note")
        self.say([Piece(words, Ink.MUTED)])

    def say(self, line: Line) -> None:
        """Replace the left end."""
        self.show(line)

    def _line(self) -> Line:
        # the key that closes the dialog is never cut
        left = fitted_line(self._left, max(self.line_width - length(_LEAVES) - 1, 0))
        return spread_line(left, _LEAVES, self.line_width)


_LEAVES: Final[Line] = [Piece("Esc closes", Ink.MUTED)]
WIDTH: Final = 72
"""Cells of a card, as the stylesheet says."""
_FRAME: Final = 6
"""Cells of a card beside its text."""


class TextCard(Overlay[None]):
    """A card of text, which the key that opened it closes too."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,backspace", "close", "close")]

    def __init__(
        self,
        drawing: Callable[[int], Sequence[Line]],
        *,
        id: str,  # noqa: A002  (Textual's name for it)
        width: int = WIDTH,
        opened_by: str = "",
    ) -> None:
        """`drawing` makes the lines for a width in cells; `id` is the list's, `width` the card's;
        `opened_by` is Textual's name of a key."""
        super().__init__()
        self._drawing = drawing
        self._width = width
        self._opened_by = opened_by
        self._list = Lines((), id=id)
        self._footer = DialogFooter()

    @property
    def lines(self) -> Sequence[Line]:
        """The lines for the current width."""
        return self._drawing(max(min(self._width, self.app.size.width) - _FRAME, 8))

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self._list
            yield self._footer

    def on_mount(self) -> None:
        self._list.show(self.lines)
        self._list.focus()

    def on_resize(self) -> None:
        self._list.show(self.lines)

    def on_key(self, event: events.Key) -> None:
        if event.key == self._opened_by:
            event.stop()
            self.dismiss()


WARNINGS: Final = ("! ", "note: ")
"""How a line that warns begins."""


LEAST_NAME: Final = 22


class ChoiceOption(NamedTuple):
    """One answer to a question, and the key that gives it."""

    key: str
    """A single letter."""
    name: str
    meaning: str


class ChoiceScreen(Overlay[ChoiceOption]):
    """Returns the chosen option, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,backspace", "close", "close")]

    def __init__(
        self,
        question: str | Sequence[str],
        offers: Sequence[ChoiceOption],
        *,
        begin: int = 0,
        capitals: bool = False,
    ) -> None:
        """`question` is one sentence, or a few lines, the most important first; those that begin
        like one of `WARNINGS` warn. The cursor begins on offer number `begin`. With `capitals`, a
        capital letter chooses too, and the result then has it as its key."""
        super().__init__()
        self._begin = begin
        self._capitals = capitals
        self._question = [question] if isinstance(question, str) else question
        self._offers = offers
        names = max([LEAST_NAME, *(cell_len(offer.name) + 2 for offer in offers)])
        self._list = ChoiceList([_line(offer, names) for offer in offers], id="choices")
        self._footer = DialogFooter()

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._lines(), id="question")
            yield self._list
            yield self._footer

    def _lines(self) -> list[Line]:
        width = min(WIDTH, self.app.size.width) - 6
        inks = [Ink.ACCENT, Ink.TEXT, *[Ink.MUTED] * len(self._question)]
        inks = [
            Ink.WARN if line.startswith(WARNINGS) else ink
            for line, ink in zip(self._question, inks, strict=False)
        ]
        return [
            [Piece(row, ink)]
            for line, ink in zip(self._question, inks, strict=False)
            for row in wrapped_lines(one_line(line), width)
        ]

    def on_mount(self) -> None:
        self._list.focus()
        self._list.move_to(self._begin)
        self.on_cursor_view_moved()

    def on_cursor_view_moved(self) -> None:
        self._footer.say(
            [Piece(f"Enter: {one_line(self._offers[self._list.cursor].name)}", Ink.MUTED)]
        )

    def on_key(self, event: events.Key) -> None:
        typed = event.character or ""
        wanted = typed.lower() if self._capitals else typed
        chosen = next((offer for offer in self._offers if offer.key == wanted), None)
        if chosen is not None:
            event.stop()
            self.dismiss(chosen if chosen.key == typed else chosen._replace(key=typed))

    def on_cursor_view_opened(self) -> None:
        self.dismiss(self._offers[self._list.cursor])


def _line(offer: ChoiceOption, names: int) -> Line:
    """`names` is the width of the column of names."""
    return [
        Piece(f" {offer.key}  ", Ink.ACCENT),
        Piece(pad(offer.name, names), Ink.STRONG),
        Piece(offer.meaning, Ink.MUTED),
    ]


class _TypedLine(Input):
    """Handles Enter and Esc at once. If they first went up to the app, keys typed right after them
    would still be put on this line, though they are meant for the screen beneath."""

    def __init__(self, asking: TypingScreen[Any], placeholder: str) -> None:
        super().__init__(placeholder=placeholder, id="typed")
        self.cursor_blink = False
        self._asking = asking

    async def _on_key(self, event: events.Key) -> None:
        asking = self._asking
        if asking.answered:
            self.app.post_message(events.Key(event.key, event.character))
        elif event.key == "enter":
            asking.submit(self.value)
        elif event.key == "escape":
            asking.action_close()
        else:
            return
        event.stop()
        event.prevent_default()


class TypingScreen(Overlay[ResultT]):
    """A dialog with an input, `line`, which also gets the keys that arrive before it has the
    focus. Its last row says what Enter does, or how the line is understood."""

    AUTO_FOCUS = "Input"

    def __init__(
        self,
        placeholder: str,
        submit: Callable[[str], object],
        typed: str = "",
        question: Sequence[Line] = (),
    ) -> None:
        """`submit` is called on Enter: it closes with a result, or says why not. `typed` stands on
        the line at first."""
        super().__init__()
        self.line = _TypedLine(self, placeholder)
        self.submit = submit
        self._begun_with = typed
        self._question = question
        self._note = DialogFooter()

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            if self._question:
                yield Lines(self._question)
            yield self.line
            yield from self.between()
            yield self._note

    def between(self) -> Sequence[Widget]:
        """What stands between the line and the last row."""
        return ()

    def on_mount(self) -> None:
        if self._begun_with:
            self.line.value = self._begun_with

    def say(self, text: str, ink: Ink = Ink.MUTED) -> None:
        """Replace the last row."""
        self._note.say([Piece(text, ink)])

    def on_key(self, event: events.Key) -> None:
        if self.focused is not None:
            return
        if event.key == "enter":
            self.submit(self.line.value)
        elif event.is_printable and event.character is not None:
            self.line.value += event.character
            self.line.cursor_position = len(self.line.value)


class TypedReading(NamedTuple):
    """How a line is understood."""

    words: str
    """What Enter does, or what is wrong."""
    accepted: bool = True
    ink: Ink = Ink.MUTED


class LineQuestion(NamedTuple):
    """A question that a line of text answers."""

    question: str
    placeholder: str
    enter: str
    """What Enter does."""
    longest: int = 0
    """The most characters of an answer; 0 for any number."""
    required: bool = False
    """Whether an empty line is not accepted."""
    below: Sequence[Line] = ()
    """Further lines of the question."""
    read: Callable[[str], TypedReading] | None = None
    """How a line is understood, where not all are accepted."""
    earlier: Sequence[str] = ()
    """Lines used before, the last one first, for the arrow keys."""

    def reading(self, typed: str) -> TypedReading:
        if self.read is not None:
            return self.read(typed)
        return TypedReading(self.enter, bool(typed.strip()) or not self.required)


class LineScreen(TypingScreen[str]):
    """Returns the line without blanks around it, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "earlier(1)", "an earlier line", show=False),
        Binding("down", "earlier(-1)", "a later line", show=False),
    ]

    def __init__(self, question: LineQuestion, typed: str = "") -> None:
        """`typed` stands on the line at first."""
        asked: list[Line] = [[Piece(question.question, Ink.ACCENT)]] if question.question else []
        super().__init__(question.placeholder, self._submit, typed, [*asked, *question.below])
        self._asked = question
        self._lines = [typed, *(line for line in question.earlier if line != typed)]
        self._place = 0
        self.line.max_length = question.longest

    def on_mount(self) -> None:
        self._say_reading(self._begun_with)

    def on_input_changed(self, message: Input.Changed) -> None:
        self._say_reading(message.value)

    def action_earlier(self, step: int) -> None:
        place = self._place + step
        if 0 <= place < len(self._lines):
            self._place = place
            self.line.value = self._lines[place]
            self.line.cursor_position = len(self.line.value)

    def _say_reading(self, typed: str) -> None:
        reading = self._asked.reading(typed)
        self.say(reading.words, reading.ink)

    def _submit(self, typed: str) -> None:
        if self._asked.reading(typed).accepted:
            self.dismiss(typed.strip())


_NAME_HELP: Final = "letters, digits, and any of . _ -"


def ask_name(taken: Collection[str]) -> LineScreen:
    """Ask for the name of a new benchmark."""
    folded = {name.casefold() for name in taken}

    def read(typed: str) -> TypedReading:
        if not typed:
            return TypedReading(_NAME_HELP, accepted=False)
        there = typed.casefold() in folded
        fault = "there is one of that name" if there else name_fault(typed)
        if fault is not None:
            return TypedReading(fault, accepted=False, ink=Ink.BAD)
        return TypedReading(f"Enter makes it in benchmarks/{typed}")

    asked = "What is the new benchmark to be called?"
    return LineScreen(LineQuestion(asked, "a short name, for a folder", "", read=read))


class QuitChoice(Enum):
    """A user's decision about a run, in the order in which it is offered."""

    RUNNING = "leave it running"
    AFTER_SPOKEN = "stop after what is being spoken"
    NOW = "stop now"
    STAY = "stay"


Decided = Callable[[QuitChoice | None], None]
"""Takes the decision; None where the run goes on and the user stays."""
_OFFERS: Final = {
    choice: ChoiceOption(key, choice.value, meaning)
    for choice, key, meaning in (
        (QuitChoice.RUNNING, "l", "come back to it at any time"),
        (QuitChoice.AFTER_SPOKEN, "s", "nothing is cut off"),
        (QuitChoice.NOW, "n", "what is being spoken is lost"),
        (QuitChoice.STAY, "q", "the run goes on"),
    )
}
_STOPPING: Final = frozenset({QuitChoice.AFTER_SPOKEN, QuitChoice.NOW})
WORDS: Final = {"stop": QuitChoice.AFTER_SPOKEN, "stop now": QuitChoice.NOW}
"""The words that stop a run started elsewhere, when typed."""
_KEPT: Final = "What is stored stays, and the next run goes on from there."
_ELSEWHERE: Final = "It was started elsewhere, and only `x` stops it."


def ask_how_to_leave(
    board: Board, then: Decided, *, own: bool
) -> tuple[Overlay[Any], Callable[[Any], None]]:
    """The dialog, and what takes its result. A run started elsewhere can only be left running."""
    choices = [choice for choice in QuitChoice if own or choice not in _STOPPING]
    return _ask("Leave Crosswind?", board, choices, then, _KEPT if own else _ELSEWHERE)


def ask_how_to_stop(
    board: Board, then: Decided, *, own: bool
) -> tuple[Overlay[Any], Callable[[Any], None]]:
    """As `ask_how_to_leave`. To stop a run started elsewhere, a word must be typed."""
    if own:
        choices = [choice for choice in QuitChoice if choice is not QuitChoice.RUNNING]
        return _ask("Stop the run?", board, choices, then, _KEPT)
    below = [
        [Piece(_state_words(board))],
        [Piece("It ends for everybody who watches it.", Ink.WARN)],
    ]
    asked = "Stop a run that was started elsewhere?"
    question = LineQuestion(asked, "stop, or stop now", "", below=below, read=_read_word)
    return LineScreen(question), lambda typed: then(None if typed is None else _decision(typed))


def _ask(
    title: str, board: Board, choices: Sequence[QuitChoice], then: Decided, note: str
) -> tuple[Overlay[Any], Callable[[Any], None]]:
    by_option = {_OFFERS[choice]: choice for choice in choices}
    asked = ChoiceScreen([title, _state_words(board), note], list(by_option))
    return asked, lambda option: then(None if option is None else by_option[option])


def _read_word(typed: str) -> TypedReading:
    decision = _decision(typed)
    if decision is None:
        return TypedReading("Type `stop` and press Enter.", accepted=False)
    return TypedReading(f"Enter: {decision.value}", ink=Ink.WARN)


def _decision(typed: str) -> QuitChoice | None:
    return WORDS.get(" ".join(typed.split()).casefold())


def _state_words(board: Board) -> str:
    now = f": {board.spoken_words}" if board.speaking else ""
    return f"The run is not over{now}."
