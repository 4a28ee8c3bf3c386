"""What the live screen shows of a run: its strip and board, who is followed, what waits and for
what."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from engine.benchmark import ConversationKey, Speaker, Stage, Track
from engine.display import one_line, plural
from engine.facts import CallMade, Fact, MessageSpoken, Speech, StateChanged, VerdictGiven
from engine.link import Board, EngineState, ModelLimit, Wait
from engine.progress import FEWEST_TO_JUDGE, Progress, Tally, TargetProgress
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tui.format import STAGE_NAMES, UNKNOWN, amount, duration, money
from tui.state.board import Spending, StageState, StageView, TargetView
from tui.state.feeds import Standings
from tui.state.run_status import Phase, Situation
from tui.text.ink import Ink, Line, Piece, fitted

PATIENCE: Final = 5.0
"""Seconds without a sign of life, until it is said what is waited for."""
_WRITES: Final = {
    Phase.METRICS: "the model that writes the metrics has not answered yet",
    Phase.SCENARIOS: "the model that writes the scenarios has not answered yet",
    Phase.ADDING_UP: "the results are being added up",
    Phase.STARTING: "the engine is finding out what is missing",
}


@dataclass(slots=True)
class _Pulse:
    """The last sign of life, and when it came."""

    said: int
    at: float


@dataclass(slots=True)
class Stillness:
    """Hears facts and looks at boards; all times are of the watcher's clock."""

    _pulses: dict[str, _Pulse] = field(default_factory=dict)
    _moved: set[str | None] = field(default_factory=set)
    """Targets of which a fact told since the last look; None for what has no target."""
    _at: float | None = None
    """When anything moved last."""

    def hear(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case StateChanged() | CallMade():
                    self._moved.add(fact.target)
                case MessageSpoken() | VerdictGiven():
                    self._moved.add(fact.key.target_id)
                case _:
                    self._moved.add(None)

    def look(self, board: Board | None, now: float) -> None:
        """As long as nobody looks, nothing stands still."""
        said = dict(board.said) if board is not None else {}
        for target in {*said, *self._pulses, *(each for each in self._moved if each)}:
            pulse = self._pulses.setdefault(target, _Pulse(0, now))
            if target in self._moved or said.get(target, 0) != pulse.said:
                pulse.said, pulse.at = said.get(target, 0), now
                self._moved.add(target)
        if self._moved or self._at is None:
            self._at = now
        self._moved.clear()

    def begin_anew(self, now: float) -> None:
        """As after a pause, in which nothing is expected to move."""
        self._at = now
        for pulse in self._pulses.values():
            pulse.at = now

    def of(self, target: str, now: float) -> float | None:
        """Seconds for which this target has been still, where they are worth a word."""
        pulse = self._pulses.get(target)
        return None if pulse is None else _worth(now - pulse.at)

    def of_all(self, now: float) -> float | None:
        """The same, of everything."""
        return None if self._at is None else _worth(now - self._at)


def _worth(seconds: float) -> float | None:
    return seconds if seconds >= PATIENCE else None


def awaited_of(target: str, board: Board, *, judging: int) -> str:
    """What a target that stands still waits for: `the first token, 8 s` without the seconds."""
    speaking = [speech for speech in board.speaking if speech.key.target_id == target]
    if speaking and board.said.get(target, 0):
        return "silent"
    if any(speech.speaker is Speaker.TARGET for speech in speaking):
        return "no token yet"
    if speaking:
        return "user model silent"
    return "no verdict yet" if judging else "no answer yet"


def awaited(board: Board, progress: Progress, info: BenchmarkInfo, where: Situation) -> str | None:
    """What everything waits for where nothing moves; None where nothing is to be expected."""
    if where.phase in _WRITES:
        return _WRITES[where.phase]
    if where.phase not in {Phase.RUNNING, Phase.DRAINING}:
        return None
    labels = {target.id: target.label for target in info.targets}
    waited: dict[str, int] = {}
    for speech in board.speaking:
        of_user = speech.speaker is Speaker.USER
        name = "the user model" if of_user else labels.get(speech.key.target_id, "a target")
        waited[name] = waited.get(name, 0) + 1
    judged = progress.stage_tally(info.name, Stage.EVALUATE).running
    if judged:
        waited["the evaluator"] = judged
    if not waited:
        return "the engine has nothing in the air; it says why when it knows"
    what = "an answer"
    if board.speaking:
        what = "the next words" if any(board.said.values()) else "the first token"
    names = ", ".join(f"{name} ({plural(calls, 'call')})" for name, calls in waited.items())
    return f"waits for {what} of {names}"


AT_MOST: Final = 4
"""Lines."""
MINUTE: Final = 60
_HELD: Final = {EngineState.PAUSED, EngineState.RUNNING, EngineState.DRAINING}
"""States in which a problem is no end."""


class Quiet(NamedTuple):
    """Nothing moves."""

    awaited: str
    """What for, in words."""
    seconds: float
    """For how long."""


def holdups(
    board: Board | None,
    width: int,
    quiet: Quiet | None = None,
    most: int = AT_MOST,
    targets: Collection[str] = (),
) -> list[Line]:
    """What a person must do something about comes first; at most so many lines. The limits of
    `targets` are told elsewhere."""
    if board is None:
        return []
    lines: list[Line] = []
    if board.problem is not None and board.state in _HELD:
        on = "  it goes on by itself when that is over"
        lines.append(_line("! held", one_line(board.problem), on, Ink.BAD))
    lines += [
        _line("‖ parked", f"{one_line(target)}: {one_line(why)}", "  U calls it again")
        for target, why in board.parked.items()
    ]
    lines += [_line("! note", one_line(notice)) for notice in board.notices]
    lines += [_line("… waits", waiting(wait)) for wait in board.waits]
    lines += [
        _line("· limit", f"{one_line(limit.model)}: {limited(limit)}", ink=Ink.MUTED)
        for limit in board.limits
        if limit.model not in targets
    ]
    if quiet is not None and not lines:
        lines.append(_line("… quiet", f"{quiet.awaited}, {since(quiet.seconds)}"))
    if len(lines) > most:
        left = len(lines) - most + 1
        lines = [*lines[: most - 1], _line("…", f"and {left} more; 5 lists what is parked")]
    return [fitted(line, width) for line in lines]


def waiting(wait: Wait) -> str:
    """`gpt: 429, again in 12 s (3 calls)`."""
    return f"{one_line(wait.model)}: {reason(wait)}"


def reason(wait: Wait) -> str:
    """The same of a model that is named already."""
    return one_line(wait.words)


def limited(limit: ModelLimit) -> str:
    """`8 calls let through at once, 42 wait`."""
    return f"{plural(limit.at_once, 'call')} let through at once, {limit.waiting} wait"


def since(seconds: float) -> str:
    """`8 s`, `2:05`."""
    return f"{seconds:.0f} s" if seconds < MINUTE else duration(seconds)


def _line(sign: str, text: str, hint: str = "", ink: Ink = Ink.WARN) -> Line:
    return [Piece(f" {sign}  ", ink), Piece(text), Piece(hint, Ink.MUTED)]


EVERY: Final = timedelta(seconds=1)
TREND: Final = 16
"""Seconds that a trend shows."""
HEIGHTS: Final = "▁▂▃▄▅▆▇█"
Still = Callable[[str], float | None]
"""For how many seconds a target has been still, where that is worth a word."""


def stage_views(
    watch: Watch, benchmark: str, where: Situation, board: Board | None
) -> list[StageView]:
    at_once: Mapping[Stage, int] = {} if board is None else board.concurrency
    tallies = {stage: watch.progress.stage_tally(benchmark, stage) for stage in Stage}
    played, judged = tallies[Stage.SIMULATE], tallies[Stage.EVALUATE]
    behind = max(played.done - judged.settled - judged.running, 0)
    if behind <= at_once.get(Stage.EVALUATE, 0):
        behind = 0  # it can take up all of them next
    between = 0 if board is None else sum(board.between.values())
    waiting = {Stage.SIMULATE: between, Stage.EVALUATE: behind}
    return [
        _stage(
            stage,
            tally,
            where.phase,
            at_once.get(stage),
            waiting.get(stage, 0),
        )
        for stage, tally in tallies.items()
    ]


def _stage(
    stage: Stage, tally: Tally, phase: Phase, at_once: int | None, waiting: int
) -> StageView:
    return StageView(
        STAGE_NAMES[stage],
        _stage_state(tally, phase),
        tally.done,
        tally.total,
        tally.failed,
        at_once,
        waiting,
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
        self._speeds: dict[tuple[str, str], deque[float]] = {}

    def of(self, info: BenchmarkInfo, target: str, progress: TargetProgress, at: datetime) -> _Pace:
        benchmark = info.name
        known = self._known.get((benchmark, target))
        if known is None or not known.at <= at < known.at + EVERY:
            found = progress.time_left(at, info.turns)
            speed = progress.tokens.per_second(at)
            speeds = self._speeds.setdefault((benchmark, target), deque(maxlen=TREND))
            speeds.append(speed)
            left = UNKNOWN if found is None else duration(found.likely)
            known = _Pace(
                at,
                amount(speed) if speed else UNKNOWN,
                left,
                left if found is None else _between(found.low, found.high),
                trend(speeds),
            )
            self._known[benchmark, target] = known
        return known


class _Pace(NamedTuple):
    at: datetime
    tokens: str
    left: str
    left_about: str
    """Between what and what, where that can be told."""
    trend: str
    """How fast it was, the last second at the right."""


def trend(speeds: Collection[float]) -> str:
    """`▁▃▅█`, the highest of them being the measure."""
    most = max(speeds, default=0.0)
    if not most:
        return ""
    return "".join(HEIGHTS[round(speed / most * (len(HEIGHTS) - 1))] for speed in speeds)


def _between(*seconds: float) -> str:
    low, high = map(duration, seconds)
    return low if low == high else f"{low}-{high}"


def target_views(
    watch: Watch,
    info: BenchmarkInfo,
    board: Board | None,
    at: datetime,
    paces: Paces,
    still: Still | None,
    standings: Standings,
) -> list[TargetView]:
    """`still` says for how many seconds a target stands still; None where nothing is at work."""
    progress = watch.progress
    return [
        _target(
            target,
            progress.target(info.name, target.id),
            board,
            paces.of(info, target.id, progress.target(info.name, target.id), at),
            still,
            standings,
        )
        for target in info.targets
    ]


def _target(
    target: TargetInfo,
    progress: TargetProgress,
    board: Board | None,
    pace: _Pace,
    still: Still | None,
    standings: Standings,
) -> TargetView:
    failed = progress.simulate.failed + progress.evaluate.failed
    return TargetView(
        name=one_line(target.id),
        simulated=progress.simulate.done,
        to_simulate=progress.simulate.total,
        running=_running(target, progress, board),
        failed=failed,
        judged=progress.evaluate.done,
        to_judge=progress.evaluate.total,
        positive=replace(progress.scores[Track.POSITIVE]),
        negative=replace(progress.scores[Track.NEGATIVE]),
        rates={track: rate for track in Track if (rate := standings.get((target.id, track)))},
        tokens=UNKNOWN if still is None else pace.tokens,
        spend=money(progress.usage.cost_usd, scripted=target.scripted),
        left=UNKNOWN if still is None else pace.left,
        left_about=UNKNOWN if still is None else pace.left_about,
        trend="" if still is None else pace.trend,
        at_rest=still is None,
        still=_stands_still(target, progress, board, still),
        held=_held(target, board),
        limited=_limited(target, board),
        others=_others(progress),
        problem=one_line(progress.last_problem) if failed and progress.last_problem else None,
    )


def _running(target: TargetInfo, progress: TargetProgress, board: Board | None) -> int:
    """Without those that wait for their next message's turn."""
    between = 0 if board is None else board.between.get(target.id, 0)
    return max(progress.simulate.running - between, 0)


def _others(progress: TargetProgress) -> str | None:
    words = progress.served_by_others
    return None if words is None else one_line(words)


def _held(target: TargetInfo, board: Board | None) -> str | None:
    """Why it is not called at the moment."""
    if board is None:
        return None
    parked = board.parked.get(target.id)
    if parked is not None:
        return f"‖ parked: {one_line(parked)}"
    waits = [reason(wait) for wait in board.waits if wait.model == target.label]
    return f"… waits: {waits[0]}" if waits else None


def _limited(target: TargetInfo, board: Board | None) -> str | None:
    limits = () if board is None else board.limits
    return next((limited(limit) for limit in limits if limit.model == target.label), None)


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


def spending(board: Board | None, progresses: Iterable[TargetProgress] = ()) -> Spending | None:
    """Where the run has a budget or was quoted at something; with what the rest will cost, by what
    the engine expects, or if the conversations that are left cost what the others did."""
    if board is None or board.spent_usd is None:
        return None
    most, limit = board.budget_usd, "the budget"
    if most is None:
        quoted = None if board.quote is None else board.quote.high_usd
        most, limit = board.agreed_usd or quoted, "the quote"
    if most is None:
        return None
    left = _cost_left(list(progresses)) if board.rest_usd is None else board.rest_usd
    return Spending(
        f"${board.spent_usd:.2f}",
        f"${most:.2f}" if limit == "the budget" else f"at most ${most:.2f}",
        board.spent_usd / most,
        f"about {money(left, scripted=False)}" if left else None,
        enough=left is None or board.spent_usd + left <= most,
        limit=limit,
    )


def _cost_left(progresses: Sequence[TargetProgress]) -> float | None:
    """None where it cannot be told yet."""
    left = 0.0
    for progress in progresses:
        played, cost = progress.simulate, progress.usage.cost_usd
        missing = played.total - played.settled
        if missing and (cost is None or played.done < FEWEST_TO_JUDGE):
            return None
        left += (cost or 0.0) / max(played.done, 1) * missing
    return left or None


DWELL: Final = 1.5
"""Seconds for which the end of a conversation stays."""
SILENCE: Final = 10.0
"""Seconds after which one that says nothing is left for one that speaks."""
ROUND: Final = 8.0
"""Seconds for each, where it goes round."""
GLANCE: Final = 3.0
"""Seconds after which it goes on at the end of a turn, where it goes round."""


class Mode(Enum):
    """What the spotlight does by itself: a word, and a sentence about it."""

    FOLLOW = ("following", "goes to the newest conversation when this one has ended")
    PINNED = ("pinned", "stays with this conversation")
    ROUND = ("going round", f"goes to the next conversation every {ROUND:.0f} seconds")

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def meaning(self) -> str:
        return self.value[1]

    @property
    def next(self) -> Mode:
        modes = list(Mode)
        return modes[(modes.index(self) + 1) % len(modes)]


class Shown(NamedTuple):
    """One playing of one conversation."""

    benchmark: str
    key: ConversationKey
    take: int


def shown_by(speech: Speech) -> Shown:
    return Shown(speech.benchmark, speech.key, speech.take)


class Spotlight:
    """Decides on its own clock, which is given to it."""

    def __init__(self) -> None:
        self.shown: Shown | None = None
        self.mode = Mode.FOLLOW
        self._ended_at: float | None = None
        self._heard_at = 0.0
        self._came_at = 0.0
        self._turn: int | None = None
        """The one that was being played when it came to this conversation."""

    @property
    def pinned(self) -> bool:
        return self.mode is Mode.PINNED

    def look(
        self, speaking: Sequence[Speech], ended: Collection[Shown], now: float
    ) -> Shown | None:
        """The conversation to show, after these have ended while those are being spoken."""
        if self.shown in ended and self._ended_at is None:
            self._ended_at = now
        speech = self._speech(speaking)
        if self.shown is None or speech is not None:
            self._heard_at = now
        if not speaking or self.pinned:
            return self.shown
        if self._may_leave(now):
            self._turn_to(max(speaking, key=lambda each: each.began), now)
        elif self.mode is Mode.ROUND and self._has_had_its_turn(speech, now):
            self.step(speaking, 1, now)
        return self.shown

    def step(self, speaking: Sequence[Speech], step: int, now: float) -> Shown | None:
        """The next conversation being spoken, or the one before; a pin goes with it."""
        order = sorted(speaking, key=lambda speech: str(shown_by(speech)))
        if order:
            places = [place for place, each in enumerate(order) if shown_by(each) == self.shown]
            place = places[0] + step if places else min(step, 0)
            self._turn_to(order[place % len(order)], now)
        return self.shown

    @property
    def ended(self) -> bool:
        return self._ended_at is not None

    def rested(self, now: float) -> bool:
        """Whether what is shown has ended, and long enough ago."""
        return self._ended_at is not None and now - self._ended_at >= DWELL

    def _speech(self, speaking: Sequence[Speech]) -> Speech | None:
        """What is being said in the conversation that is shown."""
        if self.shown is None:
            return None
        key = self.shown.key  # most are of another, and to make what is shown of each takes long
        return next(
            (each for each in speaking if each.key == key and shown_by(each) == self.shown), None
        )

    def _may_leave(self, now: float) -> bool:
        return self.shown is None or self.rested(now) or now - self._heard_at >= SILENCE

    def _has_had_its_turn(self, speech: Speech | None, now: float) -> bool:
        if self.ended:
            return False
        another_turn = speech is not None and self._turn not in {None, speech.turn}
        return now - self._came_at >= (GLANCE if another_turn else ROUND)

    def _turn_to(self, speech: Speech, now: float) -> None:
        shown = shown_by(speech)
        if shown != self.shown:
            self.shown = shown
            self._ended_at = None
        self._heard_at = self._came_at = now
        self._turn = speech.turn


@dataclass(slots=True)
class Missed:
    """Counts it, so that nobody takes what stands still for all there is."""

    messages: int = 0
    verdicts: int = 0
    others: int = 0

    def hear(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            match fact:
                case MessageSpoken():
                    self.messages += 1
                case VerdictGiven():
                    self.verdicts += 1
                case _:
                    self.others += 1

    @property
    def words(self) -> str:
        """`frozen  +3 messages +1 verdict`."""
        parts = [
            plural(self.messages, "message") if self.messages else "",
            plural(self.verdicts, "verdict") if self.verdicts else "",
        ]
        told = " ".join(f"+{part}" for part in parts if part)
        return f"frozen  {told or f'+{self.others}'}"
