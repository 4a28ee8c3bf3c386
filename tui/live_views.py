"""What the live screen's strip and board show of a run: plain functions from a watch to views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from engine.benchmark import Stage, Track
from engine.display import one_line
from engine.link import Board
from engine.progress import Tally, TargetProgress
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.holdups import reason, since
from tui.situation import Phase, Situation
from tui.stillness import awaited_of
from tui.widgets.stage_strip import StageState, StageView
from tui.widgets.target_board import Spending, TargetView
from tui.wording import STAGE_NAMES, UNKNOWN, amount, duration, money

EVERY: Final = timedelta(seconds=1)
Still = Callable[[str], float | None]
"""For how many seconds a target has been still, where that is worth a word."""


def stage_views(
    watch: Watch, benchmark: str, where: Situation, board: Board | None
) -> list[StageView]:
    at_once: Mapping[Stage, int] = {} if board is None else board.concurrency
    return [
        _stage(stage, watch.progress.stage_tally(benchmark, stage), where.phase, at_once.get(stage))
        for stage in Stage
    ]


def _stage(stage: Stage, tally: Tally, phase: Phase, at_once: int | None) -> StageView:
    return StageView(
        STAGE_NAMES[stage],
        _stage_state(tally, phase),
        tally.done,
        tally.total,
        tally.failed,
        at_once,
    )


def _stage_state(tally: Tally, phase: Phase) -> StageState:
    if not tally.total:
        return StageState.WAITING
    if tally.settled == tally.total:
        return StageState.FAILED if tally.failed == tally.total else StageState.DONE
    if phase is Phase.PAUSED:
        return StageState.PAUSED
    begun = tally.running or tally.settled
    return StageState.RUNNING if begun and not phase.over else StageState.WAITING


class Paces:
    """How fast targets are and what is left, renewed once a second: figures that change with each
    frame cannot be read."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Pace] = {}

    def of(self, benchmark: str, target: str, progress: TargetProgress, at: datetime) -> _Pace:
        known = self._known.get((benchmark, target))
        if known is None or not known.at <= at < known.at + EVERY:
            left = progress.seconds_left(at)
            speed = progress.tokens.per_second(at)
            known = _Pace(
                at,
                amount(speed) if speed else UNKNOWN,
                UNKNOWN if left is None else duration(left),
            )
            self._known[benchmark, target] = known
        return known


class _Pace(NamedTuple):
    at: datetime
    tokens: str
    left: str


def target_views(
    watch: Watch,
    info: BenchmarkInfo,
    board: Board | None,
    at: datetime,
    paces: Paces,
    still: Still | None,
) -> list[TargetView]:
    """`still` says for how many seconds a target stands still; None where nothing is at work."""
    progress = watch.progress
    return [
        _target(
            target,
            progress.target(info.name, target.id),
            board,
            paces.of(info.name, target.id, progress.target(info.name, target.id), at),
            still,
        )
        for target in info.targets
    ]


def _target(
    target: TargetInfo,
    progress: TargetProgress,
    board: Board | None,
    pace: _Pace,
    still: Still | None,
) -> TargetView:
    failed = progress.simulate.failed + progress.evaluate.failed
    return TargetView(
        name=one_line(target.id),
        simulated=progress.simulate.done,
        to_simulate=progress.simulate.total,
        running=progress.simulate.running,
        failed=failed,
        judged=progress.evaluate.done,
        to_judge=progress.evaluate.total,
        positive=replace(progress.scores[Track.POSITIVE]),
        negative=replace(progress.scores[Track.NEGATIVE]),
        tokens=UNKNOWN if still is None else pace.tokens,
        spend=money(progress.usage.cost_usd, scripted=target.scripted),
        left=UNKNOWN if still is None else pace.left,
        at_rest=still is None,
        still=_stands_still(target, progress, board, still),
        held=_held(target, board),
        problem=one_line(progress.last_problem) if failed and progress.last_problem else None,
    )


def _held(target: TargetInfo, board: Board | None) -> str | None:
    """Why it is not called at the moment."""
    if board is None:
        return None
    parked = board.parked.get(target.id)
    if parked is not None:
        return f"‖ parked: {one_line(parked)}"
    waits = [reason(wait) for wait in board.waits if wait.model == target.label]
    return f"… waits: {waits[0]}" if waits else None


def _stands_still(
    target: TargetInfo, progress: TargetProgress, board: Board | None, still: Still | None
) -> str | None:
    at_work = progress.simulate.running or progress.evaluate.running
    if board is None or still is None or not at_work:
        return None
    seconds = still(target.id)
    if seconds is None:
        return None
    awaited = awaited_of(target.id, board, judging=progress.evaluate.running)
    return f"{awaited}, {since(seconds)}"


def spending(board: Board | None) -> Spending | None:
    """Where the run has a budget."""
    if board is None or board.budget_usd is None or board.spent_usd is None:
        return None
    return Spending(
        f"${board.spent_usd:.2f}", f"${board.budget_usd:.2f}", board.spent_usd / board.budget_usd
    )
