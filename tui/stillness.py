"""Since when nothing has moved: so that what waits for an answer does not look as if it hung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import Speaker, Stage
from engine.facts import CallMade, Fact, MessageSpoken, StateChanged, VerdictGiven
from engine.link import Board
from engine.progress import Progress
from engine.watch import BenchmarkInfo
from tui.situation import Phase, Situation
from tui.wording import count

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
    names = ", ".join(f"{name} ({count(calls, 'call')})" for name, calls in waited.items())
    return f"waits for {what} of {names}"
