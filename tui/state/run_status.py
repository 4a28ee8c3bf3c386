"""Where a run stands, in words: what the header says and what an empty pane explains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from engine.benchmark import Stage
from engine.display import plural
from engine.facts import Fact, MessageSpoken, Noted, NoteKind, RunEnd, VerdictGiven
from engine.link import Board, EngineState
from engine.progress import Progress
from engine.watch import Watch
from tui.text.ink import Ink


class RunPhase(Enum):
    """What can be going on: a glyph, a word, an ink."""

    NOTHING = ("·", "nothing has run yet", Ink.MUTED)
    IMPORTED = ("·", "taken from files", Ink.MUTED)
    """Rows are there, and no run has made them."""
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
        """Whether nothing happens any more unless a person asks for it."""
        return self in {
            RunPhase.NOTHING,
            RunPhase.IMPORTED,
            RunPhase.STOPPED,
            RunPhase.ENDED,
            RunPhase.FAILED,
            RunPhase.LOST,
            RunPhase.CUT_OFF,
        }


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Where the run stands, and what to say about it."""

    phase: RunPhase
    failed: int = 0
    """Rows of work."""
    problem: str | None = None
    """Why it failed."""

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
    def _fell_short(self) -> bool:
        """Whether it has come to its end, but not all of its rows have."""
        return self.phase is RunPhase.ENDED and bool(self.failed)


def status_of(progress: Progress, board: Board | None, benchmark: str) -> RunStatus:
    """Of one benchmark; without a board, by what the store says of the run before."""
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
    """A moment, on the wall and on the clock that only goes forward."""

    at: datetime
    seconds: float


@dataclass(slots=True)
class RunClock:
    """When the run began and ended, by the notes that pass by. It stands still during a pause."""

    began: datetime | None = None
    ended: datetime | None = None
    paused: datetime | None = None
    """Since when, while it is."""
    rested: timedelta = timedelta()
    """How long it was paused before that."""

    def receive(self, notes: Sequence[Noted]) -> None:
        for note in notes:
            match note.kind:
                case NoteKind.RUN_STARTED:
                    self.began, self.ended = note.at, None
                    self.paused, self.rested = None, timedelta()
                case NoteKind.PAUSED:
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
        """How long the run took, or takes by `now`; None before one began."""
        if self.began is None:
            return None
        until = self.paused or self.ended or now
        return (until - self.began - self.rested).total_seconds()


@dataclass(slots=True)
class UnseenCounts:
    """Counts it, so that nobody takes what stands still for all there is."""

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
        told = " ".join(f"+{part}" for part in parts if part)
        return f"frozen  {told or f'+{self.others}'}"


def current_benchmark(watch: Watch) -> str:
    """The one that is being worked on; else the first; empty where there is none."""
    names = [info.name for info in watch.benchmarks]
    if watch.progress.benchmark in names:
        return watch.progress.benchmark or ""
    return names[0] if names else ""
