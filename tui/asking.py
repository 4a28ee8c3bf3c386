"""Having conversations judged or played again: asks who and at what price, then the engine."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import StoreError
from engine.link import Command, Request, Row
from tui.among import Subject
from tui.screens.watching import WatchingScreen


def judge_again(screen: WatchingScreen, subjects: Sequence[Subject]) -> None:
    """Ask by whom; then show the old verdicts and the new ones as they come."""
    # Imported here, since it is seldom the first thing that is needed.
    from tui.screens.judge_again import JudgeAgainScreen
    from tui.screens.judged_again import JudgedAgainScreen

    if not subjects:
        return

    def decided(request: Request | None) -> None:
        if request is None:
            return
        try:
            watching = JudgedAgainScreen(screen.watched, subjects, request.evaluator)
        except StoreError as error:
            screen.shell.tell(str(error), bad=True)
            return
        screen.app.push_screen(watching)
        screen.shell.ask(request, watching.answered)

    screen.app.push_screen(
        JudgeAgainScreen(screen.watched, screen.shell, Command.EVALUATE, rows_of(subjects)), decided
    )


def play_again(screen: WatchingScreen, subjects: Sequence[Subject]) -> None:
    """Ask whether to; the playings that are there stay."""
    # Imported here, since it is seldom the first thing that is needed.
    from tui.screens.judge_again import JudgeAgainScreen

    if not subjects:
        return

    def decided(request: Request | None) -> None:
        if request is not None:
            screen.shell.ask(request)

    screen.app.push_screen(
        JudgeAgainScreen(screen.watched, screen.shell, Command.SIMULATE, rows_of(subjects)), decided
    )


def rows_of(subjects: Sequence[Subject]) -> tuple[Row, ...]:
    return tuple(Row.of(subject.benchmark, subject.key) for subject in subjects)
