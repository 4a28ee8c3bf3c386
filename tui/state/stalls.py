"""What delays a run: what it waits for, what has stalled, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import Speaker, Stage
from engine.display import one_line, plural
from engine.facts import CallMade, Fact, MessageSpoken, StateChanged, VerdictGiven, Writing
from engine.link import Board, EngineState, ModelLimit, Wait, workers_words
from engine.progress import Progress
from engine.watch import BenchmarkInfo
from tui.format import duration
from tui.state.run_status import RunPhase, RunStatus
from tui.text.ink import MEANINGFUL, Ink, Line, Piece, fitted_line, length, shorten
from tui.text.wrap import wrap

PATIENCE: Final = 5.0
"""Seconds without activity after which the cause of the wait is shown."""
_WRITES: Final = {
    RunPhase.METRICS: "the model that writes the metrics has not answered yet",
    RunPhase.SCENARIOS: "the model that writes the scenarios has not answered yet",
    RunPhase.ADDING_UP: "the results are being added up",
    RunPhase.STARTING: "the engine is finding out what is missing",
}


@dataclass(slots=True)
class _LastSign:
    """The last sign of activity, and its time."""

    said: int
    at: float


@dataclass(slots=True)
class StallDetector:
    """Detects stalls from facts and boards; all times are on the watcher's clock."""

    _pulses: dict[str, _LastSign] = field(default_factory=dict)
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
            pulse = self._pulses.setdefault(target, _LastSign(0, now))
            if target in self._moved or lengths.get(target, 0) != pulse.said:
                pulse.said, pulse.at = lengths.get(target, 0), now
                self._moved.add(target)
        written, self._written = self._written, () if board is None else board.writing
        # counting starts at the first look: earlier activity was not seen
        if self._moved or self._at is None or self._written != written:
            self._at = now
        self._moved.clear()

    def begin_anew(self, now: float) -> None:
        """Restart the count, as after a pause, when no activity is expected."""
        self._at = now
        for pulse in self._pulses.values():
            pulse.at = now

    def of(self, target: str, now: float) -> float | None:
        """Seconds for which this target has been still; None if too few to mention."""
        pulse = self._pulses.get(target)
        return None if pulse is None else _threshold(now - pulse.at)

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
    if where.phase in _WRITES:
        return _WRITES[where.phase]
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


def worker_lines(board: Board | None, width: int) -> list[Line]:
    """One line for all workers that make the calls in place of the engine; none without any."""
    if board is None or not board.agents:
        return []
    line = [Piece(" ⇄  ", Ink.MUTED), Piece(workers_words(board.agents))]
    return [fitted_line([*line, Piece("  `crosswind status` lists them", Ink.MUTED)], width)]


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
