"""What two sides of a validation run come to, as it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.benchmark import Role, Track
from engine.statistics.agreement import Agreement, Flips
from engine.statistics.distributions import Interval
from engine.statistics.ranks import Correlation


@dataclass(frozen=True, slots=True)
class Swap:
    """What was swapped, and where."""

    benchmark: str
    role: Role
    name: str
    """Of the other model in the configuration."""

    @property
    def same_scenarios(self) -> bool:
        """Whether both sides answer the same questions, so that rows can be paired."""
        return self.role is not Role.GENERATOR


class Turn(StrEnum):
    """What becomes of the order of two targets."""

    TURNS = "turns"
    LEVELS = "comes level"
    PARTS = "was level"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two targets whose order is not what it was."""

    left: str
    right: str
    """Behind `left` before, or level with it."""
    turn: Turn


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one target's pass rate moves."""

    target: str
    before: float
    after: float
    shift: float
    """`after` less `before`, in rates; where rows are paired, over the pairs alone."""
    interval: Interval | None
    """None where there are fewer than two base scenarios."""
    p: float | None
    """Of no shift at all, two-sided; None as for the interval, and where rows are not paired."""
    rows: int
    """Pairs of conversations; of the smaller side, where rows are not paired."""
    base_scenarios: int


@dataclass(frozen=True, slots=True)
class TrackReport:
    """One track's ranking on both sides."""

    track: Track
    tau_b: Correlation | None
    """Kendall's. None where all targets have one rate on a side."""
    rho: Correlation | None
    """Spearman's."""
    shifts: Sequence[Shift]
    """Of each target that was scored on both sides, the highest rate before first."""
    changed: Sequence[Pair]
    pairs: int
    """Of targets, all there are."""
    left_out: Sequence[str]
    """Targets that were scored on one side only."""

    @property
    def base_scenarios(self) -> int:
        """What the target with the fewest of them rests on."""
        return min(shift.base_scenarios for shift in self.shifts)


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Both sides of a validation run, compared."""

    swap: Swap
    before: str
    """The model that had the role."""
    after: str
    """The model that took it."""
    tracks: Sequence[TrackReport]
    conversations: int
    """Scored on both sides and so compared one by one; 0 where they are not the same."""
    agreement: Agreement | None
    """Of both sides over the same conversations; None where there are none."""
    flips: Flips | None
    """`left` is before."""
    unscored_before: int
    unscored_after: int
    says: Sequence[str]
    """What this shows and what it does not, in sentences."""
