"""Many differences on one page, and one promise about all that are marked there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.statistics.distributions import Interval
from engine.statistics.paired import Difference

ERROR_RATE: Final = 0.05
"""In how many pages at most anything is marked that is not so."""


class FamilyPart(StrEnum):
    """Of what one benchmark's results compare, or those of several together."""

    PAIRS = "pairs of targets, on all metrics"
    PAIRS_ON_TRACKS = "pairs of targets, on one track"
    GAPS = "demographic gaps, all targets together"
    GAPS_OF_TARGETS = "demographic gaps, single targets"
    PAIRS_ON_LIKE = "pairs of targets, for benchmarks like these"
    SHIFTS = "shifts of all targets together"
    SHIFTS_OF_TARGETS = "shifts of single targets"


SHARES: Final[Mapping[FamilyPart, float]] = {
    FamilyPart.PAIRS: 0.4,
    FamilyPart.PAIRS_ON_TRACKS: 0.3,
    FamilyPart.GAPS: 0.15,
    FamilyPart.GAPS_OF_TARGETS: 0.15,
}
"""Of `ERROR_RATE`, in one benchmark's results: most for what is read first. The share of a part in
which nothing is compared goes to the others in proportion."""
SHARES_OF_ALL: Final[Mapping[FamilyPart, float]] = {
    FamilyPart.PAIRS_ON_TRACKS: 0.5,
    FamilyPart.PAIRS_ON_LIKE: 0.5,
}
"""The same in the results of several benchmarks together, on each track: of these benchmarks'
scenarios, and of benchmarks like these."""
SHARES_OF_SHIFTS: Final[Mapping[FamilyPart, float]] = {
    FamilyPart.SHIFTS: 0.5,
    FamilyPart.SHIFTS_OF_TARGETS: 0.5,
}
"""The same in one validation run."""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """What is said of one difference among all of its family; None for both without an error."""

    interval: Interval | None
    p: float | None
    """At most `ERROR_RATE` where `interval` leaves 0 out, and above it where not: both come from
    one quantile."""


def levels(
    counts: Mapping[FamilyPart, int], shares: Mapping[FamilyPart, float] = SHARES
) -> dict[FamilyPart, float]:
    """By part, with what probability a single one of so many differences may be marked by chance.

    Weighted Bonferroni, in a single step so that each mark has its interval: R. G. Miller,
    Simultaneous Statistical Inference (1981), section 2.3.
    """
    shared = sum(shares[part] for part, count in counts.items() if count)
    return {
        part: ERROR_RATE * shares[part] / shared / count for part, count in counts.items() if count
    }


def simultaneous(
    family: Mapping[FamilyPart, Sequence[Difference]], shares: Mapping[FamilyPart, float] = SHARES
) -> list[Adjusted]:
    """Marks of which, in at most 5 % of such families, any is false, whatever is true: all
    intervals hold at once in at least 95 %. In the order given, part by part."""
    allowed = levels({part: _size(found) for part, found in family.items()}, shares)
    return [
        _adjusted(one, allowed[part]) if part in allowed else Adjusted(None, None)
        for part, found in family.items()
        for one in found
    ]


def _adjusted(one: Difference, allowed: float) -> Adjusted:
    p = None if one.level is None else min(1.0, one.level * ERROR_RATE / allowed)
    return Adjusted(one.interval_at(allowed), p)


def false_discovery(family: Sequence[Difference]) -> list[Adjusted]:
    """Marks of which 5 % on average may be false, with intervals of which 5 % of those that are
    marked may miss: for exploring.

    Y. Benjamini and Y. Hochberg, JRSS B 57 (1995) 289-300; intervals at 1 - R q / m, R of m being
    marked: Y. Benjamini and D. Yekutieli, JASA 100 (2005) 71-81, section 4.
    """
    ordered = sorted(one.level for one in family if one.level is not None)
    size = len(ordered)
    stepped: dict[float, float] = {}
    least = 1.0
    for rank in range(size, 0, -1):
        least = min(least, ordered[rank - 1] * size / rank)
        stepped.setdefault(ordered[rank - 1], least)
    marked = sum(stepped[level] <= ERROR_RATE for level in ordered)
    allowed = ERROR_RATE * max(1, marked) / max(1, size)
    return [
        Adjusted(one.interval_at(allowed), None if one.level is None else stepped[one.level])
        for one in family
    ]


def _size(found: Sequence[Difference]) -> int:
    return sum(one.error is not None for one in found)
