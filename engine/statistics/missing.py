"""What is not known because no verdict was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class Scored:
    """How many conversations have a verdict, and what the others could change."""

    passed: int
    scored: int
    of: int
    unscored: Mapping[str, int]
    """By reason, the most frequent first."""
    bounds: Interval | None
    """The rate had all missing ones failed, and had they all passed; not a confidence interval.
    None where nothing was asked for."""


def scored_of(passed: int, scored: int, reasons: Iterable[str]) -> Scored:
    """`reasons`: one for each conversation without a verdict. C. F. Manski, Annual Review of
    Economics 80 (1990) 319-323: worst-case bounds."""
    unscored = Counter(reasons)
    missing = unscored.total()
    of = scored + missing
    return Scored(passed, scored, of, dict(unscored.most_common()), bounds(passed, scored, of))


def bounds(passed: int, scored: int, of: int) -> Interval | None:
    """The rate over all `of` had every missing one failed, and had every one passed."""
    return Interval(passed / of, (passed + of - scored) / of) if of else None
