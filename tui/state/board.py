"""The contents of the stage strip and the target board, as text where possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.benchmark import Stage, Track
from engine.display import one_line
from engine.link import Board
from engine.progress import StateCounts, TargetProgress, TrackScore
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.format import STAGE_NAMES, UNKNOWN, amount, duration, money
from tui.state.feeds import Standings
from tui.state.run_status import (
    HEIGHTS,
    RunPhase,
    RunStatus,
    awaited_of,
    elapsed_words,
    limit_words,
    reason,
)
from tui.text.ink import Ink, Line, Piece

if TYPE_CHECKING:
    from engine.statistics.rates import Rate


class StageState(Enum):
    """The state of a stage: a glyph, a word and an ink."""

    WAITING = ("·", "waiting", Ink.MUTED)
    RUNNING = ("▸", "running", Ink.ACCENT)
    PAUSED = ("‖", "paused", Ink.WARN)
    DONE = ("✓", "done", Ink.GOOD)
    FAILED = ("!", "failed", Ink.BAD)

    def __init__(self, glyph: str, word: str, ink: Ink) -> None:
        self.glyph, self.word, self.ink = glyph, word, ink


def share(done: int, total: int) -> str:
    """` 5/64`, as wide as when all are done, so that what follows keeps its place."""
    return f"{done:>{len(str(total))}}/{total}"


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage as the strip shows it."""

    name: str
    state: StageState
    done: int
    total: int
    failed: int = 0
    at_once: int | None = None
    """The most rows worked on at once while it runs."""
    running: int = 0
    """Rows being worked on."""
    waiting: int = 0
    """Rows that are ready but not begun; only if worth mentioning."""
    noun: str = ""
    """What it counts, where that is not obvious."""

    @property
    def sign(self) -> Piece:
        """The sign of its state; one that is done with failed rows has that of a failed one."""
        ended_badly = self.state is StageState.DONE and self.failed
        state = StageState.FAILED if ended_badly else self.state
        return Piece(f"{state.glyph} ", state.ink)

    @property
    def count(self) -> str:
        """`40/64`; empty where nothing is planned yet."""
        return share(self.done, self.total) if self.total else ""

    @property
    def word(self) -> str:
        return f"{self.failed} failed" if self.failed else self.state.word

    def words(self, room: int) -> str:
        """The most detailed description of the stage that fits into `room` cells."""
        if self.at_once is None or self.state is not StageState.RUNNING:
            return self.word
        at_work, most = f"{self.running} at work", f"at most {self.at_once}"
        paces = [f"{at_work}, {most}", at_work]
        if self.waiting:
            waiting = f"{self.waiting} wait"
            paces = [f"{at_work}, {waiting}, {most}", f"{at_work}, {waiting}", waiting]
        failed = f"{self.failed} failed, " if self.failed else ""
        fitting = (words for pace in paces if len(words := failed + pace) <= room)
        return next(fitting, self.word)


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target as the board shows it, as text where possible."""

    name: str
    simulated: int
    to_simulate: int
    running: int
    failed: int
    judged: int
    to_judge: int
    positive: TrackScore = field(default_factory=TrackScore)
    negative: TrackScore = field(default_factory=TrackScore)
    rates: Mapping[Track, Rate] = field(default_factory=dict)
    """Pass rates with intervals, which are updated less often than scores."""
    tokens: str = UNKNOWN
    """Tokens per second."""
    spend: str = UNKNOWN
    left: str = UNKNOWN
    left_about: str = UNKNOWN
    """The remaining time as a range, if it can be estimated."""
    trend: str = ""
    """The recent speed as a row of block characters."""
    at_rest: bool = False
    """Whether no engine is at work, so that running conversations were cut off."""
    paused: bool = False
    """Whether nothing new begins, so that running conversations are held."""
    still: str | None = None
    """What the target has waited for and how long, if nothing moves."""
    held: str | None = None
    """Why the target is not called, or only later."""
    limited: str | None = None
    """A note that the server limits the number of calls."""
    others: str | None = None
    """How many replies came from another model than requested, and which."""
    problem: str | None = None
    """The last problem."""
    between: int = 0
    """The number of conversations that have begun and wait for their next message."""


EVERY: Final = timedelta(seconds=1)
TREND: Final = 16
"""The length of a trend in seconds."""
Still = Callable[[str], float | None]
"""How many seconds a target has been still, where that is worth mentioning."""


def stage_views(
    watch: Watch, benchmark: str, where: RunStatus, board: Board | None
) -> list[StageView]:
    """The views of all stages, in the order of a run."""
    at_once: Mapping[Stage, int] = {} if board is None else board.concurrency
    tallies = {stage: watch.progress.stage_tally(benchmark, stage) for stage in Stage}
    played, judged = tallies[Stage.SIMULATE], tallies[Stage.EVALUATE]
    behind = max(played.done - judged.settled - judged.running, 0)
    if behind <= at_once.get(Stage.EVALUATE, 0):
        behind = 0  # it can take up all of them next
    between = 0 if board is None else min(sum(board.between.values()), played.running)
    waiting = {Stage.SIMULATE: between, Stage.EVALUATE: behind}
    running = {stage: tally.running for stage, tally in tallies.items()}
    running[Stage.SIMULATE] -= between
    written = watch.written(benchmark)
    counts = {stage: (tally.done, tally.total, "") for stage, tally in tallies.items()}
    counts[Stage.GEN_METRICS] = written.metrics, written.metrics, ""
    counts[Stage.GEN_SCENARIOS] = written.variants.done, written.variants.total, "variants"
    return [
        StageView(
            STAGE_NAMES[stage],
            _stage_state(tally, where.phase),
            *counts[stage][:2],
            tally.failed,
            at_once.get(stage),
            running[stage],
            waiting.get(stage, 0),
            counts[stage][2],
        )
        for stage, tally in tallies.items()
        # what the run does not come to is not announced
        if tally.total or board is None or not board.stages or stage in board.stages
    ]


def _stage_state(tally: StateCounts, phase: RunPhase) -> StageState:
    if not tally.total:
        return StageState.WAITING
    if tally.settled == tally.total:
        return StageState.FAILED if tally.failed == tally.total else StageState.DONE
    if phase is RunPhase.PAUSED:
        return StageState.PAUSED
    begun = tally.running or tally.settled
    return StageState.RUNNING if begun and not phase.over else StageState.WAITING


class TargetSpeeds:
    """Speed and remaining time of the targets, updated once a second: figures that change with each
    frame cannot be read."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], SpeedSample] = {}
        self._speeds: dict[tuple[str, str], deque[float]] = {}

    def of(
        self, info: BenchmarkInfo, target: str, progress: TargetProgress, at: datetime
    ) -> SpeedSample:
        """The speed as it was worked out within the last second, or anew; `at` is now."""
        benchmark = info.name
        known = self._known.get((benchmark, target))
        # in both directions, since a wall clock may be set back
        if known is None or not known.at <= at < known.at + EVERY:
            time_left = progress.time_to_end(at, info.turns)
            speed = progress.tokens.per_second(at)
            speeds = self._speeds.setdefault((benchmark, target), deque(maxlen=TREND))
            speeds.append(speed)
            left = UNKNOWN if time_left is None else duration(time_left.likely)
            known = SpeedSample(
                at,
                amount(speed) if speed else UNKNOWN,
                left,
                left if time_left is None else _range_words(time_left.low, time_left.high),
                sparkline(speeds),
            )
            self._known[benchmark, target] = known
        return known

    def whole(self, benchmark: str) -> Line:
        """`312 tok/s ▁▃▅█`: all targets of a benchmark together, as they were looked at last;
        nothing where nothing was said lately."""
        lately = [speeds for (name, _), speeds in self._speeds.items() if name == benchmark]
        # aligned at the newest second: a target that started later has fewer seconds
        sums = [sum(counts) for counts in zip_longest(*map(reversed, lately), fillvalue=0.0)][::-1]
        if not any(sums):
            return ()
        return [Piece(f"{amount(sums[-1])} tok/s ", Ink.MUTED), Piece(sparkline(sums), Ink.ACCENT)]


class SpeedSample(NamedTuple):
    at: datetime
    tokens: str
    left: str
    left_about: str
    """The remaining time as a range, if it can be estimated."""
    trend: str
    """The speed of recent seconds, the latest at the right."""


def sparkline(speeds: Collection[float]) -> str:
    """`▁▃▅█`, scaled to the highest value."""
    most = max(speeds, default=0.0)
    if not most:
        return ""
    return "".join(HEIGHTS[round(speed / most * (len(HEIGHTS) - 1))] for speed in speeds)


def _range_words(*seconds: float) -> str:
    low, high = map(duration, seconds)
    return low if low == high else f"{low}-{high}"


def target_view(
    target: TargetInfo,
    progress: TargetProgress,
    board: Board | None,
    pace: SpeedSample,
    still: Still | None,
    standings: Standings,
    counts: Mapping[tuple[str, Track], TrackScore] | None,
    *,
    paused: bool,
) -> TargetView:
    """A target. `still` gives the seconds a target has been still, None without an engine; `counts`
    what passed and was scored, None if that was not computed yet."""
    moves = still is not None and not (paused and not _is_speaking(target, board))
    failed = progress.simulate.failed + progress.evaluate.failed
    waiting = 0 if board is None else board.between.get(target.id, 0)
    between = min(waiting, progress.simulate.running)
    # rows alone do not say what the files ask for
    scores = {
        track: progress.scores[track]
        if counts is None
        else counts.get((target.id, track), TrackScore())
        for track in Track
    }
    return TargetView(
        name=one_line(target.id),
        simulated=progress.simulate.done,
        to_simulate=progress.simulate.total,
        running=progress.simulate.running - between,
        between=between,
        failed=failed,
        judged=progress.evaluate.done,
        to_judge=progress.evaluate.total,
        positive=replace(scores[Track.POSITIVE]),
        negative=replace(scores[Track.NEGATIVE]),
        rates={track: rate for track in Track if (rate := standings.get((target.id, track)))},
        tokens=pace.tokens if moves else UNKNOWN,
        spend=money(progress.usage.cost_usd, scripted=target.scripted),
        left=pace.left if moves else UNKNOWN,
        left_about=pace.left_about if moves else UNKNOWN,
        trend=pace.trend if moves else "",
        at_rest=still is None,
        paused=paused,
        still=_stands_still(target, progress, board, still),
        held=_held_reason(target, board),
        limited=_limit_words(target, board),
        others=_other_models(progress),
        problem=one_line(progress.last_problem) if failed and progress.last_problem else None,
    )


def _is_speaking(target: TargetInfo, board: Board | None) -> bool:
    """Whether the target still speaks: a pause lets messages under way end."""
    return board is not None and any(speech.key.target_id == target.id for speech in board.speaking)


def _other_models(progress: TargetProgress) -> str | None:
    words = progress.served_by_others
    return None if words is None else one_line(words)


def _held_reason(target: TargetInfo, board: Board | None) -> str | None:
    """Why the target is not called at the moment."""
    if board is None:
        return None
    parked = board.parked.get(target.id)
    if parked is not None:
        return f"‖ parked: {one_line(parked)}"
    waits = [reason(wait) for wait in board.waits if target.id in wait.targets]
    return f"… waits: {waits[0]}" if waits else None


def _limit_words(target: TargetInfo, board: Board | None) -> str | None:
    limits = () if board is None else board.limits
    return next((limit_words(limit) for limit in limits if target.id in limit.targets), None)


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
    return f"{awaited}, {elapsed_words(seconds)}"


def spending_words(board: Board | None) -> Line:
    """`spent $0.42 of about $1.90, at most $5.00`: what the run has cost, what the engine expects
    it to cost in all, and its limit; empty where no price is known."""
    if board is None or board.spent_usd is None:
        return ()
    spent = board.spent_usd
    most, limit = board.budget_usd, "the budget"
    if most is None:
        most, limit = board.agreed_usd, "the quote"
    if most is None and board.quote is not None:
        # with `--yes`, a run may cost more than it was quoted at
        most, limit = board.quote.high_usd, "quoted"
    if most is None and not spent and not board.rest_usd:
        return ()
    whole = None if board.rest_usd is None else spent + board.rest_usd
    line = [Piece(f"spent ${spent:.2f}", Ink.WARN if most and spent >= 0.9 * most else Ink.TEXT)]
    if whole is not None:
        line.append(Piece(f" of about ${whole:.2f}", Ink.TEXT))
    if most is not None and limit == "quoted":
        line.append(Piece(f", quoted ${most:.2f}", Ink.MUTED))
    elif most is not None and whole is not None and whole > most:
        line.append(Piece(f": over {limit} of ${most:.2f}", Ink.WARN))
    elif most is not None:
        line.append(Piece(f", at most ${most:.2f}", Ink.MUTED))
    return [*line, Piece(" ")]
