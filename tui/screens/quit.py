"""Asks what is to become of the run, before the app is left or when it is to be stopped."""

from __future__ import annotations

import os
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.link import Board
from tui.screens.overlay import Overlay
from tui.screens.watching import BREAKPOINTS_DOWN
from tui.widgets.ink import Ink, Line, Piece, pad
from tui.widgets.lines import Choices, Lines
from tui.wording import count


class Leaving(Enum):
    """What a person can decide; in the order in which it is offered."""

    RUNNING = "leave it running"
    AFTER_SPOKEN = "stop after what is being spoken"
    NOW = "stop now"
    STAY = "stay"


class Offer(NamedTuple):
    key: str
    meaning: str


_OFFERS: Final = {
    Leaving.RUNNING: Offer("l", "you can come back to it at any time"),
    Leaving.AFTER_SPOKEN: Offer("s", "nothing is cut off"),
    Leaving.NOW: Offer("n", "what is being spoken is lost"),
    Leaving.STAY: Offer("q", "the run goes on"),
}


class QuitScreen(Overlay[Leaving], inherit_bindings=False):
    """Ends with the decision."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace", "stay", "stay"),
        Binding("l", "decide('RUNNING')", "leave it running", show=False),
        Binding("s", "decide('AFTER_SPOKEN')", "stop after what is being spoken", show=False),
        Binding("n", "decide('NOW')", "stop now", show=False),
    ]

    title_text = "Leave Crosswind?"

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._speaking = len(board.speaking)
        self._choices = [choice for choice in Leaving if self.offers(choice, board)]

    def offers(self, choice: Leaving, board: Board) -> bool:
        return choice is not Leaving.RUNNING or _lives_on(board)

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._question(), id="question")
            yield Choices([_line(choice) for choice in self._choices], id="choices")

    def on_mount(self) -> None:
        self.query_one(Choices).focus()

    def action_stay(self) -> None:
        self.dismiss(Leaving.STAY)

    def action_decide(self, name: str) -> None:
        if Leaving[name] in self._choices:
            self.dismiss(Leaving[name])

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        self.dismiss(self._choices[message.index])

    def _question(self) -> list[Line]:
        now = f"{count(self._speaking, 'message')} being spoken at this moment."
        return [
            [Piece(self.title_text, Ink.ACCENT)],
            [Piece(f"The run is not over: {now}")],
            [Piece("What is stored stays, and the next run goes on from there.", Ink.MUTED)],
        ]


class StopScreen(QuitScreen, inherit_bindings=False):
    """The same without leaving."""

    BINDINGS: ClassVar[list[BindingType]] = QuitScreen.BINDINGS
    title_text = "Stop the run?"

    def offers(self, choice: Leaving, board: Board) -> bool:
        del board
        return choice is not Leaving.RUNNING


def _line(choice: Leaving) -> Line:
    key, meaning = _OFFERS[choice]
    return [
        Piece(f" {key}  ", Ink.ACCENT),
        Piece(pad(choice.value, 33), Ink.STRONG),
        Piece(meaning, Ink.MUTED),
    ]


def _lives_on(board: Board) -> bool:
    """Whether the engine is a process of its own, which goes on without this one."""
    return board.engine is not None and board.engine.pid != os.getpid()
