"""What lies over a screen goes once, however often it is answered."""

from __future__ import annotations

from textual.app import App

from tests.tui.idle import hurried
from tui.screens.dialogs import Overlay


class Question(Overlay[str]):
    """Has no line of its own."""


def test_a_second_answer_takes_nothing_else_away() -> None:
    answers: list[str | None] = []

    async def play() -> None:
        app = App[None]()
        async with app.run_test() as pilot:
            beneath = app.screen
            question = Question()
            app.push_screen(question, answers.append)
            await pilot.pause()

            question.dismiss("first")
            question.dismiss("second")
            await pilot.pause()

            assert app.screen is beneath

    hurried(play())
    assert answers == ["first"]
