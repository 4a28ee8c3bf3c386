"""Dialogs that ask what should happen to the run, on leaving or stopping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from engine.link import Board
from tui.screens.dialogs import DialogFooter, Overlay, TypingScreen
from tui.services.engine_control import QuitChoice
from tui.text.ink import Ink, Line, Piece, pad
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import ChoiceList, Lines


class LeaveOption(NamedTuple):
    """One way to leave: its key, and what happens to the run."""

    key: str
    meaning: str


_OFFERS: Final = {
    QuitChoice.RUNNING: LeaveOption("l", "come back to it at any time"),
    QuitChoice.AFTER_SPOKEN: LeaveOption("s", "nothing is cut off"),
    QuitChoice.NOW: LeaveOption("n", "what is being spoken is lost"),
    QuitChoice.STAY: LeaveOption("q", "the run goes on"),
}
_STOPPING: Final = frozenset({QuitChoice.AFTER_SPOKEN, QuitChoice.NOW})
WORDS: Final = {"stop": QuitChoice.AFTER_SPOKEN, "stop now": QuitChoice.NOW}
"""The words that stop a run started elsewhere, when typed."""


class QuitScreen(Overlay[QuitChoice], inherit_bindings=False):
    """Returns the decision. A run started elsewhere can only be left running."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace", "stay", "stay"),
        Binding("l", "decide('RUNNING')", "leave it running", show=False),
        Binding("s", "decide('AFTER_SPOKEN')", "stop after what is being spoken", show=False),
        Binding("n", "decide('NOW')", "stop now", show=False),
    ]

    title_text = "Leave Crosswind?"

    def __init__(self, board: Board, *, own: bool = True) -> None:
        super().__init__()
        self._board = board
        self._own = own
        self._choices = [choice for choice in QuitChoice if self.offers(choice)]
        self._list = ChoiceList(list(map(_line, self._choices)), id="choices")
        self._footer = DialogFooter()

    def offers(self, choice: QuitChoice) -> bool:
        """Whether this choice is offered: only a run started here can be stopped with one key."""
        return self._own or choice not in _STOPPING

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._question(), id="question")
            yield self._list
            yield self._footer

    def on_mount(self) -> None:
        self._list.focus()
        self.on_cursor_view_moved()

    def on_cursor_view_moved(self) -> None:
        self._footer.say([Piece(f"Enter: {self._choices[self._list.cursor].value}", Ink.MUTED)])

    def action_stay(self) -> None:
        self.dismiss(QuitChoice.STAY)

    def action_decide(self, name: str) -> None:
        if QuitChoice[name] in self._choices:
            self.dismiss(QuitChoice[name])

    def on_choice_list_chosen(self, message: ChoiceList.Chosen) -> None:
        self.dismiss(self._choices[message.index])

    def _question(self) -> list[Line]:
        return [
            [Piece(self.title_text, Ink.ACCENT)],
            _state(self._board),
            [Piece(_KEPT if self._own else _ELSEWHERE, Ink.MUTED)],
        ]


class StopScreen(QuitScreen, inherit_bindings=False):
    """Stops a run that was started here, without leaving the app."""

    BINDINGS: ClassVar[list[BindingType]] = QuitScreen.BINDINGS
    title_text = "Stop the run?"

    def offers(self, choice: QuitChoice) -> bool:
        return choice is not QuitChoice.RUNNING


class StopOthersScreen(TypingScreen[QuitChoice], inherit_bindings=False):
    """Returns how to stop a run started elsewhere, for which a word must be typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]

    def __init__(self, board: Board) -> None:
        super().__init__("stop, or stop now", self._submit)
        self._board = board
        self._note = DialogFooter()

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._question())
            yield self.line
            yield self._note

    def on_mount(self) -> None:
        self._say("")

    def on_input_changed(self, message: Input.Changed) -> None:
        self._say(message.value)

    def _submit(self, typed: str) -> None:
        decision = _decision(typed)
        if decision is not None:
            self.dismiss(decision)

    def action_close(self) -> None:
        self.dismiss(QuitChoice.STAY)

    def _say(self, typed: str) -> None:
        decision = _decision(typed)
        words = "Type `stop` and press Enter." if decision is None else f"Enter: {decision.value}"
        self._note.say([Piece(words, Ink.MUTED if decision is None else Ink.WARN)])

    def _question(self) -> Sequence[Line]:
        return [
            [Piece("Stop a run that was started elsewhere?", Ink.ACCENT)],
            _state(self._board),
            [Piece("It ends for everybody who watches it.", Ink.WARN)],
        ]


_KEPT: Final = "What is stored stays, and the next run goes on from there."
_ELSEWHERE: Final = "It was started elsewhere, and only `x` stops it."


def _decision(typed: str) -> QuitChoice | None:
    return WORDS.get(" ".join(typed.split()).casefold())


def _state(board: Board) -> Line:
    now = f": {board.spoken_words}" if board.speaking else ""
    return [Piece(f"The run is not over{now}.")]


def _line(choice: QuitChoice) -> Line:
    key, meaning = _OFFERS[choice]
    return [
        Piece(f" {key}  ", Ink.ACCENT),
        Piece(pad(choice.value, 33), Ink.STRONG),
        Piece(meaning, Ink.MUTED),
    ]
