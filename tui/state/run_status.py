"""The status of a run in words, the progress of its conversations, and what delays it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from engine.benchmark import Speaker, Stage
from engine.display import one_line, plural
from engine.facts import (
    CallMade,
    Fact,
    MessageSpoken,
    Noted,
    NoteKind,
    RunEnd,
    Speech,
    StateChanged,
    VerdictGiven,
    Writing,
)
from engine.link import Board, EngineState, ModelLimit, Wait, workers_words
from engine.progress import Progress
from engine.watch import BenchmarkInfo, Watch
from tui.format import duration
from tui.text.ink import MEANINGFUL, Ink, Line, Piece, fitted_line, length, shorten
from tui.text.wrap import wrap


class RunPhase(Enum):
    """The phase of a run: a glyph, a word, an ink."""

    NOTHING = ("·", "nothing has run yet", Ink.MUTED)
    IMPORTED = ("·", "taken from files", Ink.MUTED)
    """There are rows that no run has made."""
    STARTING = ("·", "starting", Ink.ACCENT)
    METRICS = ("▸", "writing metrics", Ink.ACCENT)
    SCENARIOS = ("▸", "writing scenarios", Ink.ACCENT)
    RUNNING = ("▸", "running", Ink.ACCENT)
    ADDING_UP = ("▸", "adding up the results", Ink.ACCENT)
    PAUSED = ("‖", "paused, P goes on", Ink.WARN)
    DRAINING = ("▸", "stopping: finishing what is being spoken", Ink.WARN)
    STOPPED = ("·", "stopped", Ink.WARN)
    ENDED = ("✓", "ended", Ink.GOOD)
    FAILED = ("✗", "failed", Ink.BAD)
    LOST = ("✗", "the engine was killed, P goes on", Ink.BAD)
    CUT_OFF = ("·", "was cut off, P goes on", Ink.WARN)

    def __init__(self, glyph: str, words: str, ink: Ink) -> None:
        self.glyph, self.words, self.ink = glyph, words, ink

    @property
    def over(self) -> bool:
        """Whether nothing more happens unless a user asks for it."""
        return self in {
            RunPhase.NOTHING,
            RunPhase.IMPORTED,
            RunPhase.STOPPED,
            RunPhase.ENDED,
            RunPhase.FAILED,
            RunPhase.LOST,
            RunPhase.CUT_OFF,
        }


_ENDINGS: Final = {RunPhase.ENDED: "has", RunPhase.FAILED: "has", RunPhase.STOPPED: "was"}


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of a run."""

    phase: RunPhase
    failed: int = 0
    """The number of failed rows of work."""
    problem: str | None = None
    """The reason of the failure."""

    @property
    def words(self) -> str:
        if self._fell_short:
            return f"ended with {self.failed:,} failed"
        return self.phase.words

    @property
    def glyph(self) -> str:
        return "!" if self._fell_short else self.phase.glyph

    @property
    def ink(self) -> Ink:
        return Ink.BAD if self._fell_short else self.phase.ink

    @property
    def end_sentence(self) -> str:
        """`The run has ended.`"""
        return f"The run {_ENDINGS.get(self.phase, 'is over:')} {self.words}."

    @property
    def _fell_short(self) -> bool:
        """Whether the run has ended without completing all of its rows."""
        return self.phase is RunPhase.ENDED and bool(self.failed)


def status_of(progress: Progress, board: Board | None, benchmark: str) -> RunStatus:
    """The status of one benchmark's run; without a board, that of the last run in the store."""
    failed = sum(progress.stage_tally(benchmark, stage).failed for stage in Stage)
    if board is None:
        return RunStatus(_without_engine(progress, benchmark), failed)
    if board.state is EngineState.STOPPED and board.problem is not None:
        return RunStatus(RunPhase.FAILED, failed, board.problem)
    return RunStatus(_with_engine(progress, board, benchmark), failed)


def _without_engine(progress: Progress, benchmark: str) -> RunPhase:
    match progress.run_end:
        case RunEnd.DONE:
            return RunPhase.ENDED
        case RunEnd.STOPPED:
            return RunPhase.STOPPED
        case RunEnd.BROKEN:
            return RunPhase.FAILED
        case None:
            if progress.run_state is not None:
                return RunPhase.CUT_OFF
            there = any(progress.stage_tally(benchmark, stage).total for stage in Stage)
            return RunPhase.IMPORTED if there else RunPhase.NOTHING


def _with_engine(progress: Progress, board: Board, benchmark: str) -> RunPhase:
    match board.state:
        case EngineState.STARTING:
            return RunPhase.STARTING
        case EngineState.PAUSED:
            return RunPhase.PAUSED
        case EngineState.DRAINING:
            return RunPhase.DRAINING
        case EngineState.IDLE:
            return RunPhase.ENDED
        case EngineState.LOST:
            return RunPhase.LOST
        case EngineState.STOPPED:
            return _without_engine(progress, benchmark)
        case EngineState.RUNNING:
            return _at_work(progress, board, benchmark)


def _at_work(progress: Progress, board: Board, benchmark: str) -> RunPhase:
    # before the stage, as conversations are judged while others are played
    if board.speaking or progress.stage_tally(benchmark, Stage.EVALUATE).running:
        return RunPhase.RUNNING
    match progress.stage:
        case Stage.GEN_METRICS:
            return RunPhase.METRICS
        case Stage.GEN_SCENARIOS:
            return RunPhase.SCENARIOS
        case Stage.AGGREGATE:
            return RunPhase.ADDING_UP
        case None:
            return RunPhase.STARTING
        case _:
            return RunPhase.RUNNING


class Instant(NamedTuple):
    """A moment, on the wall clock and on the monotonic clock."""

    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of the run at a moment. One is made for each tick; what screens say of the run
    follows from it."""

    at: datetime
    seconds: float
    """The same moment on the monotonic clock."""
    board: Board | None
    """None where no engine is known."""
    progress: Progress
    benchmarks: Sequence[BenchmarkInfo]
    current: str
    """The benchmark in progress, else the first one; empty if there is none."""
    status: RunStatus
    """Of the benchmark in progress."""

    @classmethod
    def of(cls, watch: Watch, board: Board | None, moment: Instant) -> Snapshot:
        current, progress = current_benchmark(watch), watch.progress
        status = status_of(progress, board, current)
        return cls(*moment, board, progress, watch.benchmarks, current, status)

    @property
    def info(self) -> BenchmarkInfo | None:
        """The benchmark in progress."""
        return next((info for info in self.benchmarks if info.name == self.current), None)

    @property
    def speaking(self) -> Sequence[Speech]:
        """The messages being spoken."""
        return () if self.board is None else self.board.speaking

    def status_of(self, benchmark: str) -> RunStatus:
        """The status of a benchmark's run."""
        return status_of(self.progress, self.board, benchmark)


@dataclass(slots=True)
class RunClock:
    """Measures how long a run takes, without pauses, from the notes it receives."""

    began: datetime | None = None
    ended: datetime | None = None
    paused: datetime | None = None
    """The start of the current pause; None without one."""
    rested: timedelta = timedelta()
    """The total of earlier pauses."""

    def receive(self, notes: Sequence[Noted]) -> None:
        for note in notes:
            match note.kind:
                case NoteKind.RUN_STARTED:
                    self.began, self.ended = note.at, None
                    self.paused, self.rested = None, timedelta()
                case NoteKind.PAUSED:
                    # a question of the engine may pause a run that is paused already
                    self.paused = self.paused or note.at
                case NoteKind.RESUMED:
                    if self.paused is not None:
                        self.rested += note.at - self.paused
                    self.paused = None
                case NoteKind.RUN_ENDED:
                    self.ended = note.at
                case _:
                    pass

    def seconds(self, now: datetime) -> float | None:
        """The duration of the run, up to `now` if it is on; None before one began."""
        if self.began is None:
            return None
        until = self.paused or self.ended or now
        return (until - self.began - self.rested).total_seconds()


@dataclass(slots=True)
class UnseenCounts:
    """Counts what arrives while the display is frozen, so that users know it is incomplete."""

    messages: int = 0
    verdicts: int = 0
    others: int = 0

    def receive(self, facts: Iterable[Fact]) -> None:
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
        counts = " ".join(f"+{part}" for part in parts if part)
        return f"frozen  {counts or f'+{self.others}'}"


def current_benchmark(watch: Watch) -> str:
    """The benchmark in progress, else the first one; empty if there is none."""
    names = [info.name for info in watch.benchmarks]
    if watch.progress.benchmark in names:
        return watch.progress.benchmark or ""
    return names[0] if names else ""


def benchmarks_to_come(watch: Watch, board: Board | None) -> Sequence[str]:
    """The benchmarks that the engine comes to after the one in progress."""
    goes_on = board is not None and board.state in {EngineState.RUNNING, EngineState.PAUSED}
    names = board.benchmarks if board is not None and goes_on else ()
    current = watch.progress.benchmark
    # of one that is not among them, an order before was about
    return names[names.index(current) + 1 :] if current in names else names


HEIGHTS: Final = "▁▂▃▄▅▆▇█"
MOST_TURNS: Final = 20
"""The most turns that have a cell each."""
_FIRST: Final = {
    RunPhase.STARTING: "the engine finds out what is missing",
    RunPhase.METRICS: "a model writes the metrics",
    RunPhase.SCENARIOS: "a model writes the scenarios",
    RunPhase.ADDING_UP: "the results are being added up",
    RunPhase.PAUSED: "nothing new begins",
    RunPhase.DRAINING: "nothing new begins",
}


_MAKES: Final = {RunPhase.STARTING, RunPhase.METRICS, RunPhase.SCENARIOS, RunPhase.ADDING_UP}
"""Phases in which something is made before anything is said."""


def run_sentence(
    status: RunStatus,
    watch: Watch,
    info: BenchmarkInfo,
    board: Board | None,
    *,
    brief: bool = False,
) -> str:
    """`17 conversations with 2 targets, turn 1 of 5; 4 being judged; 40 to come`. Of a run that is
    over, how far it came. Where it is to be `brief`, it counts neither targets nor who speaks."""
    if status.phase.over:
        return _how_far(watch, info)
    played = watch.progress.stage_tally(info.name, Stage.SIMULATE)
    judged = watch.progress.stage_tally(info.name, Stage.EVALUATE)
    parts = [_FIRST.get(status.phase, ""), _going_on(watch, info, board, brief=brief)]
    if judged.running:
        parts.append(f"{judged.running:,} being judged")
    if board is not None and board.waits:
        waiting_calls = sum(wait.calls for wait in board.waits)
        parts.append(f"{plural(waiting_calls, 'call')} held up")
    if played.queued:
        parts.append(f"{played.queued:,} to come")
    whole = "; ".join(filter(None, parts)) or "nothing is being said at this moment"
    return whole[0].upper() + whole[1:]


def _going_on(watch: Watch, info: BenchmarkInfo, board: Board | None, *, brief: bool) -> str:
    """The number of conversations in progress, their targets, and the turns of those speaking."""
    progresses = watch.progress.targets_of(info.name).values()
    counts = [progress.simulate.running for progress in progresses if progress.simulate.running]
    if not counts:
        return ""
    begun = sum(counts)
    whole = plural(begun, "conversation")
    if not brief:
        whole += f" with {plural(len(counts), 'target')}"
    turns = turns_of(board, info.name)
    speaking = turns.total()
    if not speaking:
        return f"{whole}, none speaking now"
    doing = "waiting" if board is not None and not board.spoken else "speaking"
    share = "" if brief or speaking >= begun else f"{speaking:,} {doing} in "
    return f"{whole}, {share}{_turn_words(turns, info.turns)}"


def _turn_words(turns: Counter[int], last: int) -> str:
    low, high = min(turns), max(turns)
    words = f"turn {low}" if low == high else f"turns {low} to {high}"
    return f"{words} of {last}" if last >= high else words


def _how_far(watch: Watch, info: BenchmarkInfo) -> str:
    """What remains of a run that is over."""
    played = watch.progress.stage_tally(info.name, Stage.SIMULATE)
    judged = watch.progress.stage_tally(info.name, Stage.EVALUATE)
    if not played.total:
        return "No conversation has been planned yet"
    targets = [
        progress
        for progress in watch.progress.targets_of(info.name).values()
        if progress.simulate.total
    ]
    parts = [
        f"{played.done:,} of {plural(played.total, 'conversation')} with "
        f"{plural(len(targets), 'target')} played",
        f"{judged.done:,} judged",
    ]
    failed = played.failed + judged.failed
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{played.running:,} in the middle"] if played.running else []
    return ", ".join(parts)


def turns_of(board: Board | None, benchmark: str) -> Counter[int]:
    """The number of speaking conversations of a benchmark, by turn."""
    speaking: Sequence[Speech] = () if board is None else board.speaking
    return Counter(speech.turn for speech in speaking if speech.benchmark == benchmark)


def turn_strip(turns: Counter[int], last: int) -> Line:
    """`turns ▂█▄··`: a cell per turn, whose height is the number of conversations speaking in it.
    Empty if nobody speaks or there are too many turns."""
    if not turns or not 1 < last <= MOST_TURNS:
        return ()
    most = max(turns.values())
    line = [Piece("turns ", Ink.MUTED)]
    for turn in range(1, last + 1):
        count = turns[turn]
        height = HEIGHTS[round(count / most * (len(HEIGHTS) - 1))] if count else "·"
        line.append(Piece(height, Ink.ACCENT if count else Ink.FAINT))
    return line


PATIENCE: Final = 5.0
"""Seconds without activity after which the cause of the wait is shown."""


@dataclass(slots=True)
class StallDetector:
    """Detects stalls from facts and boards; all times are on the watcher's clock."""

    _pulses: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By target: how much it had said at the last sign of activity, and when that was."""
    _moved: set[str | None] = field(default_factory=set)
    """Targets with a fact since the last look; None stands for facts without a target."""
    _written: Sequence[Writing] = ()
    _at: float | None = None
    """The time of the last activity."""

    def receive(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case StateChanged() | CallMade():
                    self._moved.add(fact.target)
                case MessageSpoken() | VerdictGiven():
                    self._moved.add(fact.key.target_id)
                case _:
                    self._moved.add(None)

    def look(self, board: Board | None, now: float) -> None:
        """Note activity since the last look. Before the first look, nothing counts as stalled."""
        lengths = dict(board.said) if board is not None else {}
        for target in {*lengths, *self._pulses, *(target for target in self._moved if target)}:
            said, _ = self._pulses.setdefault(target, (0, now))
            if target in self._moved or lengths.get(target, 0) != said:
                self._pulses[target] = lengths.get(target, 0), now
                self._moved.add(target)
        written, self._written = self._written, () if board is None else board.writing
        # counting starts at the first look: earlier activity was not seen
        if self._moved or self._at is None or self._written != written:
            self._at = now
        self._moved.clear()

    def begin_anew(self, now: float) -> None:
        """Restart the count, as after a pause, when no activity is expected."""
        self._at = now
        self._pulses = {target: (said, now) for target, (said, _) in self._pulses.items()}

    def of(self, target: str, now: float) -> float | None:
        """Seconds for which this target has been still; None if too few to mention."""
        pulse = self._pulses.get(target)
        return None if pulse is None else _threshold(now - pulse[1])

    def of_all(self, now: float) -> float | None:
        """Seconds without activity anywhere; None if too few to mention."""
        return None if self._at is None else _threshold(now - self._at)


def _threshold(seconds: float) -> float | None:
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
    return "judging" if judging else "no answer yet"


def awaited_words(
    board: Board, progress: Progress, info: BenchmarkInfo, where: RunStatus
) -> str | None:
    """What the whole run waits for when it is still; None if no activity is expected."""
    if where.phase in _MAKES:
        return _FIRST[where.phase]
    if where.phase not in {RunPhase.RUNNING, RunPhase.DRAINING}:
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
"""The most lines shown."""
MINUTE: Final = 60
_HELD: Final = {EngineState.PAUSED, EngineState.RUNNING, EngineState.DRAINING}
"""States in which a problem is not final."""


SILENT: Final = 5.0
"""Seconds without a report after which a worker is marked."""


def worker_lines(board: Board | None, width: int, most: int) -> list[Line]:
    """A line for all workers that make the calls in place of the engine, and one each for the first
    `most` of them, the silent ones first; none without any."""
    if board is None or not board.agents:
        return []
    heading = [Piece(" ⇄  ", Ink.MUTED), Piece(workers_words(board.agents))]
    if len(board.agents) > most:
        heading.append(Piece("  `crosswind status` lists them", Ink.MUTED))
    silent_first = sorted(board.agents, key=lambda one: (-int(one.heard_s), one.host, one.name))
    # the name last: what a worker does is not to be cut for a long one
    each = [
        [
            Piece(f"    {one_line(one.words)}  ", Ink.WARN if one.heard_s >= SILENT else Ink.MUTED),
            Piece(f"{one_line(one.name)} on {one_line(one.host)}"),
        ]
        for one in silent_first[:most]
    ]
    return [fitted_line(line, width) for line in [heading, *each]]


def wait_line(board: Board | None, stall: str | None, targets: Collection[str]) -> Line:
    """What the run waits for, in one line whatever there is of it, so that nothing below it moves;
    empty if it waits for nothing. `stall` says what a whole run that stands still waits for, and
    for how long; limits of `targets` are shown elsewhere."""
    if board is None:
        return ()
    if board.waits:
        return _line("… waits", " · ".join(map(wait_words, board.waits)))
    limits = [
        f"{one_line(limit.model)}: {limit_words(limit)}"
        for limit in board.limits
        if not set(limit.targets).intersection(targets)
    ]
    if limits:
        return _line("· limit", " · ".join(limits), ink=Ink.MUTED)
    if stall is not None:
        return _line("… quiet", stall)
    return ()


def blocker_lines(board: Board | None, width: int, most: int = AT_MOST) -> list[Line]:
    """What holds the run up until a user acts, in a limited number of lines."""
    if board is None:
        return []
    lines: list[Line] = []
    lines += [
        _line("‖ parked", f"{one_line(target)}: {one_line(why)}", "  U calls it again")
        for target, why in board.parked.items()
    ]
    lines += [_line("! note", one_line(notice)) for notice in board.notices]
    if board.problem is not None and board.state in _HELD:
        lines[:0] = _problem_lines(one_line(board.problem), width, most - bool(lines))
    if len(lines) > most:
        left = len(lines) - most + 1
        lines = [*lines[: most - 1], _line("…", f"and {left} more; 3 X lists what is parked")]
    return [fitted_line(line, width) for line in lines]


def _problem_lines(problem: str, width: int, most: int) -> list[Line]:
    """Wrapped rather than cut, as the remedy comes last."""
    sign = Piece(" ! held  ", Ink.BAD)
    room = max(width - length([sign]), MEANINGFUL)
    rows = wrap(problem, room)[: max(most, 1)]
    ends = [*(row.end for row in rows[:-1]), len(problem)]
    margin = Piece(" " * length([sign]))
    lines: list[Line] = [
        [sign if number == 0 else margin, Piece(shorten(problem[row.start : end], room))]
        for number, (row, end) in enumerate(zip(rows, ends, strict=True))
    ]
    lines[-1] = [*lines[-1], Piece("  it goes on by itself when that is over", Ink.MUTED)]
    return lines


def wait_words(wait: Wait) -> str:
    """`gpt: 429, again in 12 s (3 calls)`."""
    return f"{one_line(wait.model)}: {reason(wait)}"


def reason(wait: Wait) -> str:
    """`429, again in 12 s (3 calls)`, for use where the model is named already."""
    return one_line(wait.words)


def limit_words(limit: ModelLimit) -> str:
    """`8 calls let through at once, 42 wait`."""
    return f"{plural(limit.at_once, 'call')} let through at once, {limit.waiting} wait"


def elapsed_words(seconds: float) -> str:
    """`8 s`, `2:05`."""
    return f"{seconds:.0f} s" if seconds < MINUTE else duration(seconds)


def _line(sign: str, text: str, hint: str = "", ink: Ink = Ink.WARN) -> Line:
    return [Piece(f" {sign}  ", ink), Piece(text), Piece(hint, Ink.MUTED)]
