"""What the stage strip and the target board show, in words where it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from engine.benchmark import Track
from engine.progress import Score
from tui.format import UNKNOWN
from tui.text.ink import Ink

if TYPE_CHECKING:
    from engine.statistics.rates import Rate


class StageState(Enum):
    """A glyph, a word and an ink."""

    WAITING = ("·", "waiting", Ink.MUTED)
    RUNNING = ("▸", "running", Ink.ACCENT)
    PAUSED = ("‖", "paused", Ink.WARN)
    DONE = ("✓", "done", Ink.GOOD)
    FAILED = ("!", "failed", Ink.BAD)

    @property
    def glyph(self) -> str:
        return self.value[0]

    @property
    def word(self) -> str:
        return self.value[1]

    @property
    def ink(self) -> Ink:
        return self.value[2]


@dataclass(frozen=True, slots=True)
class StageView:
    """What the strip shows of a stage."""

    name: str
    state: StageState
    done: int
    total: int
    failed: int = 0
    at_once: int | None = None
    """How many rows of it are worked on at once, at most, while it runs."""
    waiting: int = 0
    """Rows that could be worked on and are not yet, where that is worth a word."""

    @property
    def count(self) -> str:
        return f"{self.done}/{self.total}" if self.total else ""

    @property
    def word(self) -> str:
        return f"{self.failed} failed" if self.failed else self.state.word

    def words(self, room: int) -> str:
        """As many as there is room for."""
        if self.at_once is None or self.state is not StageState.RUNNING:
            return self.word
        paces = [f"{self.at_once} at once"]
        if self.waiting:
            waiting = f"{self.waiting} wait"
            paces = [f"{paces[0]}, {waiting}", waiting]
        wholes = [f"{self.word}, {pace}" for pace in paces]
        shortest = [] if self.failed else [paces[-1]]
        fitting = (words for words in (*wholes, *shortest) if len(words) <= room)
        return next(fitting, self.word)


@dataclass(frozen=True, slots=True)
class TargetView:
    """What the board shows of a target, in words where it can be."""

    name: str
    simulated: int
    to_simulate: int
    running: int
    failed: int
    judged: int
    to_judge: int
    positive: Score = field(default_factory=Score)
    negative: Score = field(default_factory=Score)
    rates: Mapping[Track, Rate] = field(default_factory=dict)
    """With their intervals, which are worked out less often than scores come."""
    tokens: str = UNKNOWN
    """A second."""
    spend: str = UNKNOWN
    left: str = UNKNOWN
    left_about: str = UNKNOWN
    """Between what and what."""
    trend: str = ""
    """How fast it was lately, in signs of rising height."""
    at_rest: bool = False
    """Whether nothing is at work: what runs was cut off."""
    still: str | None = None
    """What it has waited for, and how long, where nothing moves."""
    held: str | None = None
    """Why it is not called, or called later."""
    limited: str | None = None
    """That more calls would be made if its server took them."""
    others: str | None = None
    """How many replies came from which other model than the one that was asked."""
    problem: str | None = None
    """The last one."""

    @property
    def is_done(self) -> bool:
        return self.simulated == self.to_simulate


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run has cost of what it may."""

    spent: str
    budget: str
    share: float
    """0 to 1, or beyond."""
    left: str | None = None
    """What the rest will cost, as far as it can be told."""
    enough: bool = True
    """Whether that fits into the limit."""
    limit: str = "the budget"
    """What the run is kept to."""
