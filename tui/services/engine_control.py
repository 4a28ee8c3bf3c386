"""Asking the engine for work, and starting one where none is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.benchmark import ConversationKey, Stage
from engine.errors import StoreError
from engine.link import Command, Request, Row
from engine.pipeline.order import Order
from engine.store.records import FailedUnit
from tui.screens.watching import WatchingScreen
from tui.state.related import Subject


def judge_again(screen: WatchingScreen, subjects: Sequence[Subject]) -> None:
    """Ask by whom; then show the old verdicts and the new ones as they come."""
    # Imported here, since it is seldom the first thing that is needed.
    from tui.screens.rejudge import JudgeAgainScreen, JudgedAgainScreen

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
    from tui.screens.rejudge import JudgeAgainScreen

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


def order_for(request: Request, failed: Sequence[FailedUnit] = ()) -> Order | None:
    """The order that a request comes down to; None where it is about a run that there is not.
    `failed` is all that has failed, for a request to try it again."""
    names = tuple(dict.fromkeys(row.benchmark for row in request.rows))
    match request.command:
        case Command.RUN:
            return request.order
        case Command.RETRY:
            only = _failed_of(request, failed)
            return Order(tuple(only), only=only)
        case Command.EVALUATE | Command.SIMULATE:
            stages = {Stage.EVALUATE, Stage.AGGREGATE}
            if request.command is Command.SIMULATE:
                stages.add(Stage.SIMULATE)
            again = _keys(request.rows)
            return Order(names, frozenset(stages), again=again, evaluator=request.evaluator)
        case _:
            return None


def _failed_of(request: Request, failed: Sequence[FailedUnit]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in failed:
        named = not request.rows or Row(one.benchmark, one.unit) in request.rows
        if named and request.target in {None, one.target}:
            found[one.benchmark].add(one.unit)
    return {name: frozenset(units) for name, units in found.items()}


def _keys(rows: Sequence[Row]) -> dict[str, frozenset[ConversationKey]]:
    found: dict[str, set[ConversationKey]] = defaultdict(set)
    for row in rows:
        found[row.benchmark].add(ConversationKey.parse(row.unit))
    return {name: frozenset(keys) for name, keys in found.items()}
