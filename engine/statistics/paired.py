"""Paired differences on the same scenarios: the interval and p value of one, and of many with one
error rate for the whole family."""

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
"""The weight of the expected variance (`expected_variance`) in the error, in degrees of freedom."""
FAR_OUT: Final = 2
"""The degrees of freedom that it adds for quantiles beyond 95%: there it matters more that the true
variance may be another one (`python -m tests.benchmarks claims`)."""
_EXPECTED_LIKENESS: Final = 0.5
"""The fraction of the observed intra-class correlation that is expected: in few clusters much of it
is chance."""
_ABOUT_ZERO: Final = 0.6
_PSEUDO_PAIRS: Final = 0.33
# where no pair differs, the error is that of half a pair that does, and not 0
_FEWEST_PAIRS: Final = 0.5
_BORROWED: Final = 2
"""The weight, in clusters, of the mean over all strata when a stratum's own mean is shrunk."""

Answers = Mapping[str, Mapping[str, Mapping[str, float]]]
"""One target's scores: metric -> base scenario -> thing (a variant) -> value from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference of rates over pairs, in rates: 0.1 is ten points."""

    estimate: float
    error: float | None
    """Its standard error; None for fewer than two shared clusters."""
    freedom: int
    """Degrees of freedom of `error`; 0 where there is none."""
    pairs: int
    clusters: int
    """Base scenarios with at least one pair."""
    moderated: bool = True
    """Whether `error` also rests on an expected variance, which adds degrees of freedom."""

    @property
    def interval(self) -> Interval | None:
        """The unadjusted 95% interval; None where there is no error.

        Student's t on the degrees of the clusters and of the expected variance together, which has
        its coverage at this quantile (`python -m tests.benchmarks coverage`); `interval_at` is for
        quantiles further out.
        """
        return self._interval_within(self.quantile)

    @property
    def quantile(self) -> float:
        """The quantile that replaces z in `interval`."""
        return critical(self._near)

    @property
    def p(self) -> float | None:
        """The unadjusted two-sided p value of no difference: below 5% where `interval` excludes 0.
        None where there is no error."""
        return None if self.error is None else self._level_beyond(self.error, self._near)

    def interval_at(self, level: float) -> Interval | None:
        """The interval that misses the truth with probability at most `level`; None where there is
        no error."""
        return self._interval_within(student_quantile(1 - level / 2, self._far))

    @property
    def level(self) -> float | None:
        """The largest `level` at which `interval_at` contains 0: the p value for one of many."""
        return None if self.error is None else self._level_beyond(self.error, self._far)

    @property
    def _near(self) -> int:
        return self.freedom + _EXPECTED_FREEDOM * self.moderated

    @property
    def _far(self) -> int:
        return self.freedom + FAR_OUT * self.moderated

    def _interval_within(self, quantile: float) -> Interval | None:
        if self.error is None:
            return None
        half = quantile * self.error
        return Interval(max(-1.0, self.estimate - half), min(1.0, self.estimate + half))

    def _level_beyond(self, error: float, freedom: int) -> float:
        return two_sided(self.estimate / error, freedom)


def mean_difference(strata: Sequence[Stratum]) -> Difference | None:
    """The mean of differences (each from -1 to 1), with metrics as strata and base scenarios as
    clusters; None without a pair.

    The squared error is the clustered one with C / (C - 1) (`drawn_error`), moderated by the
    expected variance of such differences, each weighted by its degrees of freedom: G. K. Smyth,
    Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, eq. 5. So the
    error depends less on the chance spread of a few clusters. It is at least that of half a pair
    that differs, over the squared effective number of pairs (n / deff), as even rates that never
    differ are uncertain: D. G. Bonett and R. M. Price, Journal of Educational and Behavioral
    Statistics 37 (2012) 479-488, add a whole one. The weights were chosen by
    `python -m tests.benchmarks coverage`.
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
    error = moderated_error(spread, expected, effective_size(sizes, likeness))
    return Difference(estimate, error, spread.freedom, pairs, len(clusters))


def moderated_error(spread: StandardError, expected: float, effective: float) -> float:
    """The error that `mean_difference` describes, from its clustered error, the expected variance,
    and the effective number of pairs."""
    weighed = spread.freedom * spread.error**2 + _EXPECTED_FREEDOM * expected
    return sqrt(max(weighed / (spread.freedom + _EXPECTED_FREEDOM), _FEWEST_PAIRS / effective**2))


def expected_variance(squares: float, pairs: float, mean: float) -> float:
    """The variance of the mean of independent differences with the spread of all pairs; `squares`
    is the sum of their squares. The spread is taken about a point between their mean and 0, and a
    fraction of one more pair is added: few pairs say little about the mean, and less about the
    spread."""
    about = squares - (1 - _ABOUT_ZERO) * pairs * mean**2
    return (about + _PSEUDO_PAIRS) / (pairs + _PSEUDO_PAIRS) / pairs


def drawn_error(
    strata: Sequence[Sequence[WeightedCluster]], mean: float, rows: float
) -> StandardError | None:
    """The standard error of the mean over all rows, from the clusters' variation about their
    stratum's mean, which is shrunk towards that of all; with C / (C - 1) in each. None without a
    stratum of two clusters.

    A stratum of two or three clusters often has no variance by chance alone, and one far from all
    others would then count as certain: shrunk means give it some. With many clusters they are the
    stratum's own (Cochran (1977), eq. 5.6 and 11.30).

    Where a few strata have most of the variance, the degrees of freedom are theirs: F. E.
    Satterthwaite, Biometrics Bulletin 2 (1946) 110-114, as estimated by B. L. Welch, Biometrika 34
    (1947) 28-35: S^2 / sum(v^2 / (f + 2)) - 2, with S the sum of the variances v.
    """
    freedoms = [len(clusters) - 1 for clusters in strata]
    freedom = sum(freedoms)
    if not freedom:
        return None
    variances = [_drawn_spread(clusters, mean) for clusters in strata]
    total = sum(variances)
    if total > 0:
        shares = ((v / total) ** 2 / (f + 2) for v, f in zip(variances, freedoms, strict=True))
        # 1e-9, so that rounding does not cost a whole degree of freedom
        freedom = max(1, min(freedom, floor(1 / sum(shares) - 2 + 1e-9)))
    return StandardError(sqrt(total) / rows, freedom)


def _drawn_spread(clusters: Sequence[WeightedCluster], mean: float) -> float:
    count = len(clusters)
    own = sum(cluster.total for cluster in clusters) / sum(cluster.size for cluster in clusters)
    drawn = (count * own + _BORROWED * mean) / (count + _BORROWED)
    residuals = sum((cluster.total - drawn * cluster.size) ** 2 for cluster in clusters)
    return count / (count - 1) * residuals


def differences(left: Answers, right: Answers) -> list[Stratum]:
    """Left minus right on every thing that both have, by metric, clustered by base scenario."""
    strata: list[Stratum] = []
    for metric, bases in left.items():
        others = right.get(metric, {})
        strata.append(
            [
                _differences(answers_of_base, other)
                for base, answers_of_base in bases.items()
                if (other := others.get(base))
            ]
        )
    return strata


def _differences(left: Mapping[str, float], right: Mapping[str, float]) -> Cluster:
    # mostly the same keys, and then no list is needed
    both = left if left.keys() == right.keys() else [key for key in left if key in right]
    return Cluster.of(list(map(sub, map(left.__getitem__, both), map(right.__getitem__, both))))


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """One target's answers in a run, and in the run that is compared with it."""

    before: Answers
    after: Answers


def change_of_difference(
    left: BeforeAndAfter, right: BeforeAndAfter, *, paired: bool
) -> Difference | None:
    """How the difference left minus right changed, after minus before; None without a pair.

    With `paired`, both runs have the same rows, and the changes of single rows are compared, on the
    rows that both targets have in both runs. Otherwise the runs share nothing, and their squared
    errors add up, with the smaller of their degrees of freedom.
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
    """After minus before, for each row in both runs."""
    return {
        metric: {
            base: {
                conversation: value - earlier
                for conversation, value in values.items()
                if (earlier := run.before.get(metric, {}).get(base, {}).get(conversation))
                is not None
            }
            for base, values in bases.items()
        }
        for metric, bases in run.after.items()
    }


def interval_for(difference: Difference, bound: float) -> Interval | None:
    """The 95% interval of a change for an equivalence test: the change is shown to be within
    `bound` where the interval is. None where there is no error.

    Two one-sided tests at 2.5%: D. J. Schuirmann, Journal of Pharmacokinetics and
    Biopharmaceutics 15 (1987) 657-680. The error is at least that of a change of the size of the
    bound that comes from few base scenarios, each changing as a whole (under the hypothesis, as in
    J.-M. Nam, Biometrics 53 (1997) 1422-1430): a few scenarios may miss those. Where several
    changes must all be within it, no level needs adjustment: R. L. Berger, Technometrics 24 (1982)
    295-300.
    """
    if difference.error is None:
        return None
    error = max(difference.error, sqrt(bound * (1 - bound) / difference.clusters))
    half = difference.quantile * error
    return Interval(max(-2.0, difference.estimate - half), min(2.0, difference.estimate + half))


def is_within(interval: Interval | None, bound: float) -> bool:
    return interval is not None and -bound < interval.low and interval.high < bound


ERROR_RATE: Final = 0.05
"""The most families in which anything is falsely marked, as a share."""


class FamilyPart(StrEnum):
    """A part of the comparisons in the results of one benchmark, or of several together."""

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
"""The parts' shares of `ERROR_RATE` in one benchmark's results: most for what is read first. The
share of a part without comparisons goes to the others in proportion."""
SHARES_OF_ALL: Final[Mapping[FamilyPart, float]] = {
    FamilyPart.PAIRS_ON_TRACKS: 0.5,
    FamilyPart.PAIRS_ON_LIKE: 0.5,
}
"""The same in the results of several benchmarks together: for their scenarios, and for benchmarks
like these."""
SHARES_OF_SHIFTS: Final[Mapping[FamilyPart, float]] = {
    FamilyPart.SHIFTS: 0.5,
    FamilyPart.SHIFTS_OF_TARGETS: 0.5,
}
"""The same in one validation run."""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A difference's interval and p value, adjusted for its family; both None without an error."""

    interval: Interval | None
    p: float | None
    """At most `ERROR_RATE` exactly where `interval` excludes 0: both come from one quantile."""


def levels(
    counts: Mapping[FamilyPart, int], shares: Mapping[FamilyPart, float] = SHARES
) -> dict[FamilyPart, float]:
    """By part, the significance level of each of its differences, given their number.

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
    """Adjusted differences, part by part in the order given: all intervals hold at once in at least
    95% of such families, so that at most 5% have any false mark, whatever is true."""
    allowed = levels({part: _size(of_part) for part, of_part in family.items()}, shares)
    return [
        _adjust(difference, allowed[part]) if part in allowed else Adjusted(None, None)
        for part, of_part in family.items()
        for difference in of_part
    ]


def _adjust(difference: Difference, allowed: float) -> Adjusted:
    p = None if difference.level is None else min(1.0, difference.level * ERROR_RATE / allowed)
    return Adjusted(difference.interval_at(allowed), p)


def _size(differences: Sequence[Difference]) -> int:
    return sum(difference.error is not None for difference in differences)
