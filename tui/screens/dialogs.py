"""Small screens above another one: cards of text, a choice, an input line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from engine.benchmark import name_fault
from engine.display import one_line
from tui.state.related import Subject
from tui.text.ink import Ink, Line, Piece, fitted_line, length, pad, spread_line
from tui.text.wrap import wrapped_lines
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import ChoiceList, Lines, OneLine

ResultT = TypeVar("ResultT")


class Overlay(ModalScreen[ResultT], inherit_bindings=False):
    """A screen above another one, which returns a result once. A second key that arrives while it
    closes, such as the Enter of its input line, would otherwise close the screen beneath it."""

    answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        """Close with a result; later calls do nothing."""
        if self.answered:
            return AwaitComplete()
        self.answered = True
        return super().dismiss(result)


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


class TextCard(Overlay[None], inherit_bindings=False):
    """A card of text. A subclass gives its lines and the keys that close it."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN

    def __init__(
        self,
        drawing: Callable[[int], Sequence[Line]],
        *,
        id: str,  # noqa: A002  (Textual's name for it)
        width: int = WIDTH,
        footer: str = "",
    ) -> None:
        """`drawing` makes the lines for a width in cells; `id` is the list's, `width` the card's;
        `footer` is the text of its last row."""
        super().__init__()
        self._drawing = drawing
        self._width = width
        self._list = Lines((), id=id)
        self._footer = DialogFooter(footer)

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

    def action_close(self) -> None:
        self.dismiss()


WARNINGS: Final = ("! ", "note: ")
"""How a line that warns begins."""


class ChoiceOption(NamedTuple):
    """One answer to a question, and the key that gives it."""

    key: str
    """A single letter."""
    name: str
    meaning: str


class ChoiceScreen(Overlay[ChoiceOption], inherit_bindings=False):
    """Returns the chosen option, or None."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

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
        self._list = ChoiceList(list(map(_line, offers)), id="choices")
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

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._offers[message.index])

    def action_close(self) -> None:
        self.dismiss()


def _line(offer: ChoiceOption) -> Line:
    return [
        Piece(f" {offer.key}  ", Ink.ACCENT),
        Piece(pad(offer.name, 22), Ink.STRONG),
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


class TypingScreen(Overlay[ResultT], inherit_bindings=False):
    """A dialog with an input, `line`, which also gets the keys that arrive before it has the
    focus."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    AUTO_FOCUS = "Input"

    def __init__(self, placeholder: str, submit: Callable[[str], object]) -> None:
        """`submit` is called on Enter: it closes with a result, or says why not."""
        super().__init__()
        self.line = _TypedLine(self, placeholder)
        self.submit = submit

    def action_close(self) -> None:
        """Handle Esc: close without a result."""
        self.dismiss()

    def on_key(self, event: events.Key) -> None:
        if self.focused is not None:
            return
        if event.key == "enter":
            self.submit(self.line.value)
        elif event.is_printable and event.character is not None:
            self.line.value += event.character
            self.line.cursor_position = len(self.line.value)


_QUESTION: Line = [Piece("What is the new benchmark to be called?", Ink.ACCENT)]
_NAME_HELP: Final = "letters, digits, and any of . _ -"


class NameScreen(TypingScreen[str], inherit_bindings=False):
    """Returns a valid name for a new benchmark, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, taken: Collection[str]) -> None:
        super().__init__("a short name, for a folder", self._submit)
        self._taken = {name.casefold() for name in taken}
        self._note = DialogFooter(_NAME_HELP)

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([_QUESTION])
            yield self.line
            yield self._note

    def on_input_changed(self, message: Input.Changed) -> None:
        typed = message.value
        fault = self._name_fault(typed) if typed else None
        words = fault or (f"Enter makes it in benchmarks/{typed}" if typed else _NAME_HELP)
        self._note.say([Piece(words, Ink.BAD if fault else Ink.MUTED)])

    def _submit(self, typed: str) -> None:
        if self._name_fault(typed) is None:
            self.dismiss(typed)

    def _name_fault(self, name: str) -> str | None:
        if name.casefold() in self._taken:
            return "there is one of that name"
        return name_fault(name)


class LineQuestion(NamedTuple):
    """A question that a line of text answers."""

    question: str
    placeholder: str
    enter: str
    """What Enter does."""
    longest: int
    """The most characters of an answer."""
    required: bool = False
    """Whether an empty line is not accepted."""


class LineScreen(TypingScreen[str], inherit_bindings=False):
    """Returns the line without blanks around it, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, question: LineQuestion, typed: str = "") -> None:
        """`typed` stands on the line at first."""
        super().__init__(question.placeholder, self._submit)
        self._question = question
        self._begun_with = typed

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([[Piece(self._question.question, Ink.ACCENT)]])
            yield self.line
            yield DialogFooter(self._question.enter)

    def on_mount(self) -> None:
        self.line.max_length = self._question.longest
        self.line.value = self._begun_with

    def _submit(self, typed: str) -> None:
        if typed.strip() or not self._question.required:
            self.dismiss(typed.strip())


class StarsScreen(Overlay[Subject], inherit_bindings=False):
    """Returns the chosen conversation of those with a star, or None."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,apostrophe", "close", "close")
    ]

    def __init__(self, stars: Sequence[Subject]) -> None:
        super().__init__()
        self._stars = stars

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines([[Piece("Conversations with a star", Ink.ACCENT)]], id="question")
            yield ChoiceList(list(map(_starred_line, self._stars)), id="found")
            yield DialogFooter("Enter opens it")

    def on_mount(self) -> None:
        self.query_one(ChoiceList).focus()

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._stars[message.index])

    def action_close(self) -> None:
        self.dismiss()


def _starred_line(subject: Subject) -> Line:
    return [
        Piece(" ★ ", Ink.WARN),
        Piece(one_line(str(subject.key)), Ink.STRONG),
        Piece(f"  {one_line(subject.benchmark)}", Ink.MUTED),
    ]
