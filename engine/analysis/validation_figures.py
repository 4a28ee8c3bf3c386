"""What two sides of a validation run come to, as it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.benchmark import Role, Stance, Track
from engine.statistics.agreement import Agreement, Flips
from engine.statistics.distributions import Interval
from engine.statistics.ranks import Correlation

ALL_TARGETS: Final = "all targets"
"""No target is called so."""


@dataclass(frozen=True, slots=True)
class Swap:
    """What was swapped or played once more, and where."""

    benchmark: str
    role: Role
    name: str | None
    """Of the other model in the configuration; None for a replay by the same one, and for another
    stance."""
    stance: Stance | None = None
    """What the user model is after on the other side, where that is what was changed."""

    @property
    def is_replay(self) -> bool:
        return self.name is None and self.stance is None

    @property
    def same_scenarios(self) -> bool:
        """Whether both sides answer the same questions, so that rows can be paired."""
        return self.role is not Role.GENERATOR


class OrderChange(StrEnum):
    """What becomes of the order of two targets."""

    TURNS = "turns"
    LEVELS = "comes level"
    PARTS = "was level"


@dataclass(frozen=True, slots=True)
class ReorderedPair:
    """Two targets whose order is not what it was."""

    left: str
    right: str
    """Behind `left` before, or level with it."""
    turn: OrderChange


@dataclass(frozen=True, slots=True)
class RateShift:
    """How far a pass rate moves."""

    target: str
    """Or `ALL_TARGETS`."""
    before: float
    after: float
    shift: float
    """`after` less `before`, in rates; where rows are paired, over the pairs alone."""
    interval: Interval | None
    """Among all shifts of the run: in 95% of such runs all of them hold at once. None where there
    are fewer than two base scenarios."""
    p: float | None
    """Of no shift at all, two-sided, among all shifts of the run; None as for the interval, and
    where rows are not paired."""
    rows: int
    """Pairs of conversations; of the smaller side, where rows are not paired."""
    base_scenarios: int

    @property
    def sure(self) -> bool:
        return self.interval is not None and not self.interval.holds(0)


@dataclass(frozen=True, slots=True)
class DifferenceChange:
    """How far the difference between two targets is not what it was."""

    left: str
    right: str
    change: float
    """Of left less right, in rates."""
    interval: Interval | None
    """Of this change alone, as it is held against the bound; None where there is no error."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether the differences between targets stay what they were, within a bound."""

    bound: float
    """In rates, as it was stated before anything was played or judged."""
    outside: DifferenceChange | None
    """A difference that is not shown to stay within it; None where all are."""


@dataclass(frozen=True, slots=True)
class TrackReport:
    """One track's ranking on both sides."""

    track: Track
    tau_b: Correlation | None
    """Kendall's. None where all targets have one rate on a side."""
    rho: Correlation | None
    """Spearman's."""
    together: RateShift
    """Of all targets that were scored on both sides."""
    shifts: Sequence[RateShift]
    """Of each target that was scored on both sides, the highest rate before first."""
    changed: Sequence[ReorderedPair]
    pairs: int
    """Of targets, all there are."""
    equivalence: Equivalence | None
    """None where no bound was stated in advance."""
    order_holds: bool
    """Whether no pair turns, and every difference is shown to stay within the bound."""
    left_out: Sequence[str]
    """Targets that were scored on one side only."""

    @property
    def base_scenarios(self) -> int:
        """What the target with the fewest of them rests on."""
        return min(shift.base_scenarios for shift in self.shifts)


@dataclass(frozen=True, slots=True)
class ReplayFloor:
    """What a replay gives: the same model in the same role once more. Chance alone gives no less
    disagreement, so that a swap is held against it."""

    model: str
    conversations: int
    agreement: Agreement | None
    tracks: Sequence[TrackReport]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Both sides of a validation run, compared."""

    swap: Swap
    before: str
    """The model that had the role."""
    after: str
    """The model that took it."""
    tracks: Sequence[TrackReport]
    family: int
    """Shifts with an interval: all of them hold at once in 95% of such runs."""
    floor: ReplayFloor | None
    """None where there is no replay yet, and for a replay itself."""
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
