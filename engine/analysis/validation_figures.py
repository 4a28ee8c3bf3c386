"""The results of a validation run as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.benchmark import Track
from engine.branches import Branch
from engine.statistics.agreement import Agreement, Flips
from engine.statistics.distributions import Interval
from engine.statistics.ranks import Correlation

ALL_TARGETS: Final = "all targets"
"""Not the id of any target."""


class OrderChange(StrEnum):
    """How the order of two targets changes."""

    TURNS = "turns"
    LEVELS = "comes level"
    PARTS = "was level"


@dataclass(frozen=True, slots=True)
class ReorderedPair:
    """Two targets whose order changed."""

    left: str
    right: str
    """Was behind `left` before, or level with it."""
    turn: OrderChange


@dataclass(frozen=True, slots=True)
class RateShift:
    """How far a pass rate moves."""

    target: str
    """A target's id, or `ALL_TARGETS`."""
    before: float
    after: float
    shift: float
    """`after` minus `before`, in rates; where rows are paired, over the pairs alone."""
    interval: Interval | None
    """Adjusted for all shifts of the run: in 95% of such runs all intervals hold at once. None for
    fewer than two base scenarios."""
    p: float | None
    """Two-sided, for no shift, adjusted as the interval; None where that is, and where rows are not
    paired."""
    rows: int
    """Pairs of conversations; where rows are not paired, those of the smaller side."""
    base_scenarios: int

    @property
    def sure(self) -> bool:
        return self.interval is not None and not self.interval.holds(0)


@dataclass(frozen=True, slots=True)
class DifferenceChange:
    """How far the difference between two targets changed."""

    left: str
    right: str
    change: float
    """The change of left minus right, in rates; for `validation.json`."""
    interval: Interval | None
    """The 95% interval of this change alone, to compare with the bound; None where there is no
    error."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether the differences between targets change by less than a bound."""

    bound: float
    """In rates, as stated before anything was played or judged."""
    outside: DifferenceChange | None
    """A difference whose change is not shown to be within the bound; None where all are."""


@dataclass(frozen=True, slots=True)
class TrackReport:
    """One track's ranking on both sides."""

    track: Track
    tau_b: Correlation | None
    """Kendall's tau-b; None where all targets have the same rate on a side."""
    rho: Correlation | None
    """Spearman's rho; None as for `tau_b`."""
    together: RateShift
    """The shift of all targets that were scored on both sides."""
    shifts: Sequence[RateShift]
    """The shift of each target that was scored on both sides, the highest rate before first."""
    changed: Sequence[ReorderedPair]
    pairs: int
    """The number of pairs of these targets."""
    equivalence: Equivalence | None
    """None where no bound was stated in advance."""
    order_holds: bool
    """Whether no pair changes order, and every difference is shown to stay within the bound."""
    left_out: Sequence[str]
    """Targets of either side that were not scored on both sides of this track."""

    @property
    def base_scenarios(self) -> int:
        """The smallest number of base scenarios that a target rests on."""
        return min(shift.base_scenarios for shift in self.shifts)


@dataclass(frozen=True, slots=True)
class ReplayFloor:
    """The results of a replay: the same model in the same role once more. It shows the disagreement
    that chance alone makes, to compare a swap with."""

    model: str
    conversations: int
    """Both for `validation.json`, like all fields."""
    agreement: Agreement | None
    tracks: Sequence[TrackReport]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Both sides of a validation run, compared."""

    swap: Branch
    """What was changed, or that nothing was: a replay."""
    before: str
    """The model that had the role."""
    after: str
    """The model that took it."""
    tracks: Sequence[TrackReport]
    family: int
    """The number of shifts with an interval: in 95% of such runs all of them hold at once."""
    floor: ReplayFloor | None
    """None where there is no replay yet, and for a replay itself."""
    conversations: int
    """Conversations scored on both sides; 0 where the sides do not share scenarios."""
    agreement: Agreement | None
    """Between both sides on the same conversations; None where there are none."""
    flips: Flips | None
    """`left` is before."""
    unscored_before: int
    unscored_after: int
    says: Sequence[str]
    """Sentences on what this shows and what it does not."""
