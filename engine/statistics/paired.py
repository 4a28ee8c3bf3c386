"""Two things measured on the same scenarios: their difference, and tests of many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Final

from engine.statistics.clusters import (
    Cluster,
    Stratum,
    collapsed,
    design_effect,
    effective_size,
    intraclass_correlation,
    stratified_error,
)
from engine.statistics.distributions import Interval, binomial_tail, critical, two_sided

_EXPECTED_FREEDOM: Final = 6
"""Clusters' worth that the expected variance (`_expected_variance`) weighs in the error."""
_EXPECTED_LIKENESS: Final = 0.5
"""Part of the likeness that was seen: much of it is chance where it is seen in few clusters."""
_ABOUT_ZERO: Final = 0.6
_PSEUDO_PAIRS: Final = 0.33
_FEWEST_PAIRS: Final = 0.5

Answers = Mapping[str, Mapping[str, Mapping[str, float]]]
"""What one target scored: metric -> base scenario -> thing (a variant) -> value from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of rates over pairs, in rates: 0.1 is ten points."""

    estimate: float
    error: float | None
    """Its standard error; None where fewer than two clusters were shared."""
    freedom: int
    """Degrees of freedom that `error` has: clusters less strata; 0 where there is none."""
    p: float | None
    """Of no difference at all, two-sided; None as above."""
    pairs: int
    clusters: int
    """Base scenarios with at least one pair."""
    exact: bool = False
    """Whether `p` is McNemar's exact one; the interval is not, and the two may differ."""

    @property
    def interval(self) -> Interval | None:
        """Of this difference looked at alone; None where there is no error.

        Student's t on the degrees of the clusters and of the expected variance together, which
        holds at this quantile (`python -m tests.benchmarks.coverage`); one that lies further out is
        to be taken with `freedom`.
        """
        if self.error is None:
            return None
        half = critical(self.freedom + _EXPECTED_FREEDOM) * self.error
        return Interval(max(-1.0, self.estimate - half), min(1.0, self.estimate + half))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One target less another."""

    left: str
    right: str
    difference: Difference
    adjusted: float | None
    """The p value after Holm over all pairs that have one."""


def mean_difference(strata: Sequence[Stratum]) -> Difference | None:
    """The mean of differences (each from -1 to 1), by metric, clustered by base scenario; None
    without a pair.

    The squared error is the clustered one with C / (C - 1) (`stratified_error`), moderated by the
    variance that such differences are expected to have, each weighted by its degrees of freedom: G.
    K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, eq. 5.
    So a few clusters that happen to be alike are not taken for certain, nor a few that happen to
    differ for all there is. It is at least that of half a pair that differs over the squared
    effective number of pairs (n / deff), as of rates that never differ there still is doubt: D. G.
    Bonett and R. M. Price, Journal of Educational and Behavioral Statistics 37 (2012) 479-488, add
    a whole one. How much of each is enough was found by `python -m tests.benchmarks.coverage`.
    Where every base scenario has one pair of plain answers, the p value is McNemar's exact one.
    """
    ready = collapsed(strata)
    clusters = [cluster for stratum in ready for cluster in stratum]
    pairs = sum(cluster.size for cluster in clusters)
    if not pairs:
        return None
    estimate = sum(cluster.total for cluster in clusters) / pairs
    spread = stratified_error(ready)
    if spread is None:
        return Difference(estimate, None, 0, None, pairs, len(clusters))
    seen = intraclass_correlation(ready)
    likeness = 1.0 if seen is None else seen
    effective = effective_size([cluster.size for cluster in clusters], likeness)
    expected = _EXPECTED_FREEDOM * _expected_variance(clusters, _EXPECTED_LIKENESS * likeness)
    moderated = (spread.freedom * spread.error**2 + expected) / (spread.freedom + _EXPECTED_FREEDOM)
    error = sqrt(max(moderated, _FEWEST_PAIRS / effective**2))
    exact = _exact(clusters)
    return Difference(
        estimate,
        error,
        spread.freedom,
        two_sided(estimate / error, spread.freedom) if exact is None else exact,
        pairs,
        len(clusters),
        exact=exact is not None,
    )


def _expected_variance(clusters: Stratum, likeness: float) -> float:
    """Of the mean of differences that are spread as all pairs are, wherever they come from, and so
    alike within a base scenario. They are spread about a point between their mean and none, and
    one pair more differs in part: few pairs say little about the mean, and less about the spread.
    """
    sizes = [cluster.size for cluster in clusters]
    pairs = sum(sizes)
    mean = sum(cluster.total for cluster in clusters) / pairs
    squares = sum(cluster.squares for cluster in clusters)
    about = squares - (1 - _ABOUT_ZERO) * pairs * mean**2
    spread = (about + _PSEUDO_PAIRS) / (pairs + _PSEUDO_PAIRS)
    return spread * design_effect(sizes, likeness) / pairs


def _exact(clusters: Stratum) -> float | None:
    """McNemar's p value; None where pairs share a base scenario or are not of plain answers."""
    if any(one.size != 1 or one.total not in {-1, 0, 1} for one in clusters):
        return None
    values = [one.total for one in clusters]
    return mcnemar_exact(values.count(1), values.count(-1))


def differences(left: Answers, right: Answers) -> list[Stratum]:
    """Left less right on every thing that both have, by metric, clustered by base scenario."""
    strata: list[Stratum] = []
    for metric, bases in left.items():
        others = right.get(metric, {})
        strata.append(
            [
                Cluster.of(
                    [value - other[thing] for thing, value in things.items() if thing in other]
                )
                for base, things in bases.items()
                if (other := others.get(base))
            ]
        )
    return strata


def compare_all(answers: Mapping[str, Answers]) -> list[Comparison]:
    """Every pair of targets that share a scenario, in the order given."""
    found = [
        (left, right, difference)
        for left, right in combinations(answers, 2)
        if (difference := mean_difference(differences(answers[left], answers[right])))
    ]
    adjusted = holm([difference.p for _, _, difference in found])
    return [Comparison(*one, p) for one, p in zip(found, adjusted, strict=True)]


def mcnemar_exact(left_only: int, right_only: int) -> float:
    """The p value that discordant pairs fall as unevenly as these by chance, two-sided.

    Only for pairs that are independent: one row for each base scenario. 1 where none differ.
    Q. McNemar, Psychometrika 12 (1947) 153-157, in its exact binomial form.
    """
    return min(1.0, 2 * binomial_tail(min(left_only, right_only), left_only + right_only))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Each p value adjusted for all of them being looked at, in the same order; None stays None
    and is not counted. S. Holm, Scandinavian Journal of Statistics 6 (1979) 65-70."""
    known = [(p, place) for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, (p, place) in enumerate(sorted(known)):
        reached = max(reached, min(1.0, (len(known) - rank) * p))
        adjusted[place] = reached
    return adjusted
