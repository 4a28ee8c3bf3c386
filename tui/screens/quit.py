"""Asks what is to become of the run before the app is left."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.screens.watching import BREAKPOINTS_DOWN
from tui.widgets.ink import Ink, Line, Piece, pad
from tui.widgets.lines import Choices, Lines
from tui.wording import count


class Leaving(Enum):
    """What a person can decide; in the order in which it is offered."""

    AFTER_SPOKEN = "stop after what is being spoken"
    NOW = "stop now"
    STAY = "stay"


_MEANINGS = {
    Leaving.AFTER_SPOKEN: "nothing is cut off",
    Leaving.NOW: "what is being spoken is lost",
    Leaving.STAY: "the run goes on",
}


class QuitScreen(ModalScreen[Leaving], inherit_bindings=False):
    """Ends with the decision."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace", "stay", "stay"),
        Binding("s", "decide('AFTER_SPOKEN')", "stop after what is being spoken", show=False),
        Binding("n", "decide('NOW')", "stop now", show=False),
    ]

    def __init__(self, speaking: int) -> None:
        super().__init__()
        self._speaking = speaking

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield Lines(self._question(), id="question")
            yield Choices([_line(choice) for choice in Leaving], id="choices")

    def on_mount(self) -> None:
        self.query_one(Choices).focus()

    def action_stay(self) -> None:
        self.dismiss(Leaving.STAY)

    def action_decide(self, name: str) -> None:
        self.dismiss(Leaving[name])

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        self.dismiss(list(Leaving)[message.index])

    def _question(self) -> list[Line]:
        now = f"{count(self._speaking, 'message')} being spoken at this moment."
        return [
            [Piece("Leave Crosswind?", Ink.ACCENT)],
            [Piece(f"The run is not over: {now}")],
            [Piece("What is stored stays, and the next run goes on from there.", Ink.MUTED)],
        ]


def _line(choice: Leaving) -> Line:
    keys = {Leaving.AFTER_SPOKEN: "s", Leaving.NOW: "n", Leaving.STAY: "q"}
    return [
        Piece(f" {keys[choice]}  ", Ink.ACCENT),
        Piece(pad(choice.value, 33), Ink.STRONG),
        Piece(_MEANINGS[choice], Ink.MUTED),
    ]
