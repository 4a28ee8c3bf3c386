"""Differences measured on the same scenarios: one, how surely it is known and what speaks
against chance; and many on one page, with one promise about all that are marked there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import floor, hypot, sqrt
from operator import sub
from typing import Final

from engine.statistics.clusters import (
    Cluster,
    StandardError,
    Stratum,
    WeightedCluster,
    collapsed,
    design_effect,
    effective_size,
    intraclass_correlation,
)
from engine.statistics.distributions import Interval, critical, student_quantile, two_sided

_EXPECTED_FREEDOM: Final = 6
"""Clusters' worth that the expected variance (`_expected_variance`) weighs in the error."""
FAR_OUT: Final = 2
"""How many degrees of freedom it is worth where a quantile lies further out than 95%: there it
matters more that the true variance may be another one (`python -m tests.benchmarks.coverage
--claims`)."""
_EXPECTED_LIKENESS: Final = 0.5
"""Part of the likeness that was seen: much of it is chance where it is seen in few clusters."""
_ABOUT_ZERO: Final = 0.6
_PSEUDO_PAIRS: Final = 0.33
_FEWEST_PAIRS: Final = 0.5
_BORROWED: Final = 2
"""Clusters' worth of the mean over all strata that a stratum's own mean is drawn towards."""

Answers = Mapping[str, Mapping[str, Mapping[str, float]]]
"""What one target scored: metric -> base scenario -> thing (a variant) -> value from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of rates over pairs, in rates: 0.1 is ten points."""

    estimate: float
    error: float | None
    """Its standard error; None where fewer than two clusters were shared."""
    freedom: int
    """Degrees of freedom that `error` has; 0 where there is none."""
    pairs: int
    clusters: int
    """Base scenarios with at least one pair."""
    moderated: bool = True
    """Whether `error` rests on an expected variance too, which is worth degrees of freedom."""

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of this difference looked at alone; None where there is no error.

        Student's t on the degrees of the clusters and of the expected variance together, which
        holds at this quantile (`python -m tests.benchmarks.coverage`); one that lies further out is
        to be taken with `freedom`.
        """
        return self._within(self.quantile)

    @property
    def quantile(self) -> float:
        """What takes the place of z in `interval`."""
        return critical(self._near)

    @property
    def p(self) -> float | None:
        """The p value of no difference at all, two-sided, looked at alone: below 5% where
        `interval` leaves 0 out. None where there is no error."""
        return None if self.error is None else self._beyond(self.error, self._near)

    def interval_at(self, level: float) -> Interval | None:
        """What misses the truth with probability `level` at most, however small that is; None where
        there is no error."""
        return self._within(student_quantile(1 - level / 2, self._far))

    @property
    def level(self) -> float | None:
        """The largest `level` at which `interval_at` holds 0: the p value for one of many."""
        return None if self.error is None else self._beyond(self.error, self._far)

    @property
    def _near(self) -> int:
        return self.freedom + _EXPECTED_FREEDOM * self.moderated

    @property
    def _far(self) -> int:
        return self.freedom + FAR_OUT * self.moderated

    def _within(self, quantile: float) -> Interval | None:
        if self.error is None:
            return None
        half = quantile * self.error
        return Interval(max(-1.0, self.estimate - half), min(1.0, self.estimate + half))

    def _beyond(self, error: float, freedom: int) -> float:
        return two_sided(self.estimate / error, freedom)


def mean_difference(strata: Sequence[Stratum]) -> Difference | None:
    """The mean of differences (each from -1 to 1), by metric, clustered by base scenario; None
    without a pair.

    The squared error is the clustered one with C / (C - 1) (`drawn_error`), moderated by the
    variance that such differences are expected to have, each weighted by its degrees of freedom: G.
    K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, eq. 5.
    So a few clusters that happen to be alike are not taken for certain, nor a few that happen to
    differ for all there is. It is at least that of half a pair that differs over the squared
    effective number of pairs (n / deff), as of rates that never differ there still is doubt: D. G.
    Bonett and R. M. Price, Journal of Educational and Behavioral Statistics 37 (2012) 479-488, add
    a whole one. How much of each is enough was found by `python -m tests.benchmarks.coverage`.
    """
    ready = collapsed(strata)
    clusters = [cluster for stratum in ready for cluster in stratum]
    pairs = sum(cluster.size for cluster in clusters)
    if not pairs:
        return None
    estimate = sum(cluster.total for cluster in clusters) / pairs
    spread = drawn_error(ready, estimate, pairs)
    if spread is None:
        return Difference(estimate, None, 0, pairs, len(clusters))
    seen = intraclass_correlation(ready)
    likeness = 1.0 if seen is None else seen
    sizes = [cluster.size for cluster in clusters]
    squares = sum(cluster.squares for cluster in clusters)
    expected = expected_variance(squares, pairs, estimate)
    expected *= design_effect(sizes, _EXPECTED_LIKENESS * likeness)
    error = moderated(spread, expected, effective_size(sizes, likeness))
    return Difference(estimate, error, spread.freedom, pairs, len(clusters))


def moderated(spread: StandardError, expected: float, effective: float) -> float:
    """The error of a mean difference, as `mean_difference` says, from its clustered error, the
    variance that is expected of it, and the effective number of pairs."""
    weighed = spread.freedom * spread.error**2 + _EXPECTED_FREEDOM * expected
    return sqrt(max(weighed / (spread.freedom + _EXPECTED_FREEDOM), _FEWEST_PAIRS / effective**2))


def expected_variance(squares: float, pairs: float, mean: float) -> float:
    """The variance of the mean of independent differences that are spread as all pairs are,
    wherever they come from; `squares` is the sum of their squares. They are spread about a point
    between their mean and none, and one pair more differs in part: few pairs say little about the
    mean, and less about the spread."""
    about = squares - (1 - _ABOUT_ZERO) * pairs * mean**2
    return (about + _PSEUDO_PAIRS) / (pairs + _PSEUDO_PAIRS) / pairs


def drawn_error(
    strata: Sequence[Sequence[WeightedCluster]], mean: float, rows: float
) -> StandardError | None:
    """The standard error of the mean over all rows, each stratum's clusters varying about its own
    mean, which is drawn towards that of all; with C / (C - 1) in each. None for no stratum of two
    clusters.

    A stratum of two or three clusters often has no variance by chance alone, and one that stands
    apart from all others would then count as certain: drawn means give it some. With many clusters
    they are the stratum's own (Cochran (1977), eq. 5.6 and 11.30).

    The strata's variances differ, and where a few carry all of it, the degrees of freedom are
    theirs: F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114, as B. L. Welch, Biometrika 34
    (1947) 28-35, estimates them: S^2 / sum(v^2 / (f + 2)) - 2, S the sum of the variances v.
    """
    freedoms = [len(clusters) - 1 for clusters in strata]
    freedom = sum(freedoms)
    if not freedom:
        return None
    variances = [_drawn_spread(clusters, mean) for clusters in strata]
    total = sum(variances)
    if total > 0:
        shares = ((v / total) ** 2 / (f + 2) for v, f in zip(variances, freedoms, strict=True))
        # 1e-9 against rounding, as a whole degree hangs on it
        freedom = max(1, min(freedom, floor(1 / sum(shares) - 2 + 1e-9)))
    return StandardError(sqrt(total) / rows, freedom)


def _drawn_spread(clusters: Sequence[WeightedCluster], mean: float) -> float:
    count = len(clusters)
    own = sum(cluster.total for cluster in clusters) / sum(cluster.size for cluster in clusters)
    drawn = (count * own + _BORROWED * mean) / (count + _BORROWED)
    residuals = sum((cluster.total - drawn * cluster.size) ** 2 for cluster in clusters)
    return count / (count - 1) * residuals


def differences(left: Answers, right: Answers) -> list[Stratum]:
    """Left less right on every thing that both have, by metric, clustered by base scenario."""
    strata: list[Stratum] = []
    for metric, bases in left.items():
        others = right.get(metric, {})
        strata.append(
            [
                _differences(things, other)
                for base, things in bases.items()
                if (other := others.get(base))
            ]
        )
    return strata


def _differences(left: Mapping[str, float], right: Mapping[str, float]) -> Cluster:
    # mostly so, and then no list has to be made
    both = left if left.keys() == right.keys() else [one for one in left if one in right]
    return Cluster.of(list(map(sub, map(left.__getitem__, both), map(right.__getitem__, both))))


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """What one thing scored in a run, and in the run that it is held against."""

    before: Answers
    after: Answers


def change_of_difference(
    left: BeforeAndAfter, right: BeforeAndAfter, *, paired: bool
) -> Difference | None:
    """How the difference left less right changed: what it is after less what it was before; None
    without a pair.

    `paired`: both runs are of the same rows, and each row's change counts, on the rows that both
    things have in both runs. Otherwise the runs share nothing, and their squared errors add up,
    with the degrees of freedom of the one that has fewer.
    """
    if paired:
        return mean_difference(differences(_shifts(left), _shifts(right)))
    before = mean_difference(differences(left.before, right.before))
    after = mean_difference(differences(left.after, right.after))
    if before is None or after is None:
        return None
    pairs, clusters = min(before.pairs, after.pairs), min(before.clusters, after.clusters)
    estimate = after.estimate - before.estimate
    if before.error is None or after.error is None:
        return Difference(estimate, None, 0, pairs, clusters)
    error, freedom = hypot(before.error, after.error), min(before.freedom, after.freedom)
    return Difference(estimate, error, freedom, pairs, clusters)


def _shifts(run: BeforeAndAfter) -> Answers:
    """After less before of each row that both have."""
    return {
        metric: {
            base: {
                thing: value - earlier
                for thing, value in things.items()
                if (earlier := run.before.get(metric, {}).get(base, {}).get(thing)) is not None
            }
            for base, things in bases.items()
        }
        for metric, bases in run.after.items()
    }


def interval_for(found: Difference, bound: float) -> Interval | None:
    """What a change is held against `bound` with: shown to lie within it where this 95% interval
    does. None where there is no error.

    Two one-sided tests at 2.5%: D. J. Schuirmann, Journal of Pharmacokinetics and
    Biopharmaceutics 15 (1987) 657-680. The error is at least the one that a change of the size of
    the bound would have if it came from few base scenarios, each changing as a whole (as J.-M. Nam,
    Biometrics 53 (1997) 1422-1430, takes it under the hypothesis): such are not met in a few. Where
    several must all lie within it, none is to be tested at less: R. L. Berger, Technometrics 24
    (1982) 295-300.
    """
    if found.error is None:
        return None
    error = max(found.error, sqrt(bound * (1 - bound) / found.clusters))
    half = found.quantile * error
    return Interval(max(-2.0, found.estimate - half), min(2.0, found.estimate + half))


def is_within(interval: Interval | None, bound: float) -> bool:
    return interval is not None and -bound < interval.low and interval.high < bound


ERROR_RATE: Final = 0.05
"""In how many pages at most anything is marked that is not so."""


class FamilyPart(StrEnum):
    """A part of what one benchmark's results compare, or those of several together."""

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
    """Marks of which, in at most 5% of such families, any is false, whatever is true: all
    intervals hold at once in at least 95%. In the order given, part by part."""
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
    """Marks of which 5% on average may be false, with intervals of which 5% of those that are
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
