"""Dialogs that ask what should happen to the run, on leaving or stopping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from engine.link import Board
from tui.screens.dialogs import (
    ChoiceOption,
    ChoiceScreen,
    LineQuestion,
    LineScreen,
    Overlay,
    TypedReading,
)
from tui.services.engine_control import QuitChoice
from tui.text.ink import Ink, Piece

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
