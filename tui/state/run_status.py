"""The status of a run in words, for the header, an empty pane and the sentence on Live; and the
progress of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from engine.benchmark import Stage
from engine.display import plural
from engine.facts import Fact, MessageSpoken, Noted, NoteKind, RunEnd, Speech, VerdictGiven
from engine.link import Board, EngineState
from engine.progress import Progress
from engine.watch import BenchmarkInfo, Watch
from tui.text.ink import Ink, Line, Piece


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

    @property
    def glyph(self) -> str:
        return self.value[0]

    @property
    def words(self) -> str:
        return self.value[1]

    @property
    def ink(self) -> Ink:
        return self.value[2]

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
