"""Paired differences on the same scenarios: the interval and p value of one, and of many with one
error rate for the whole family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot, sqrt
from operator import sub
from typing import Final

from engine.statistics.clusters import (
    Cluster,
    StandardError,
    Stratum,
    WeightedCluster,
    collapsed,
    degrees_of_freedom,
    design_effect,
    effective_number,
    effective_size,
    intraclass_correlation,
    whole_freedom,
)
from engine.statistics.distributions import LEVEL, Interval, critical, student_quantile, two_sided

_EXPECTED_FREEDOM: Final = 6
_EXPECTED_DEPENDENCE: Final = 0.1
"""The weight of the expected variance (`expected_variance`) in the error, in degrees of freedom:
over the design effect of this correlation, as the more rows a base scenario has, the more of that
variance rests on what the same few base scenarios show."""
_SHARED_FREEDOM: Final = 40
"""The most weight of the overdispersion that all pairs of targets share, in degrees of freedom."""
_ABOUT_ZERO: Final = 0.6
_PSEUDO_PAIRS: Final = 0.33
# where no pair differs, the error is that of half a pair that does, and not 0
FEWEST_PAIRS: Final = 0.5
_LEAST_FREEDOM: Final = 0.5
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
    """Degrees of freedom of `error`, prior ones included; 0 where there is none."""
    pairs: int
    clusters: int
    """Base scenarios with at least one pair."""

    @property
    def interval(self) -> Interval | None:
        """The unadjusted 95% interval; None where there is no error."""
        return self.interval_at(1 - LEVEL)

    @property
    def p(self) -> float | None:
        """The unadjusted two-sided p value of no difference: the largest level at which
        `interval_at` contains 0. None where there is no error."""
        return None if self.error is None else two_sided(self.estimate / self.error, self.freedom)

    def interval_at(self, level: float) -> Interval | None:
        """The interval that misses the truth with probability `level`: Student's t."""
        if self.error is None:
            return None
        half = student_quantile(1 - level / 2, self.freedom) * self.error
        return Interval(max(-1.0, self.estimate - half), min(1.0, self.estimate + half))


@dataclass(frozen=True, slots=True)
class PairedCluster(Cluster):
    """Differences between two sides on one base scenario."""

    both: float
    """Sum of the values of both sides."""


def mean_difference(strata: Sequence[Stratum]) -> Difference | None:
    """The mean of differences (each from -1 to 1), with metrics as strata and base scenarios as
    clusters; None without a pair.

    The squared error is the clustered one (`drawn_error`), moderated by the expected variance of
    such differences, each weighted by its degrees of freedom: G. K. Smyth, Statistical Applications
    in Genetics and Molecular Biology 3 (2004), article 3, eq. 5. So the error depends less on the
    chance spread of a few clusters. It is at least that of half a pair that differs, over the
    squared effective number of pairs (n / deff), as even rates that never differ are uncertain: D.
    G. Bonett and R. M. Price, Journal of Educational and Behavioral Statistics 37 (2012) 479-488,
    add a whole one. The weights were chosen by `python -m tests.benchmarks claims`, `power` and
    `coverage`.
    """
    found = _Observed.of(strata)
    return None if found is None else found.moderated()


def pair_differences(pairs: Sequence[Sequence[Sequence[PairedCluster]]]) -> list[Difference | None]:
    """The mean difference of each of all pairs of targets on the same metrics; None where a pair
    has no shared row.

    As `mean_difference`, moderated also by the overdispersion that the pairs share: the sum of
    their clustered variances over that of their binomial ones, times the pair's own binomial
    variance, with both sides at their common rate. It weighs `_SHARED_FREEDOM` degrees of freedom,
    and at most what the other targets add. For each side, the squared distance of the common rate
    from one half, over the squared effective number of clusters, is added: a side that always
    passes may hide that it fails on kinds of base scenarios that are not among these.
    """
    found = [_Observed.of(strata) for strata in pairs]
    known = [one for one in found if one is not None and one.spread is not None]
    # n targets have n (n - 1) / 2 pairs
    targets = round((1 + sqrt(1 + 8 * len(known))) / 2)
    binomial = sum(one.binomial for one in known)
    seen = sum(one.spread.error**2 for one in known if one.spread is not None)
    overdispersion = seen / binomial if binomial else 0.0
    return [
        None if one is None else one.moderated(overdispersion, others=max(0, targets - 2))
        for one in found
    ]


@dataclass(frozen=True, slots=True)
class _Observed:
    """A mean difference before its error is moderated."""

    estimate: float
    pairs: int
    clusters: int
    spread: StandardError | None
    expected: float = 0.0
    """Its expected variance."""
    least: float = 0.0
    """The least variance."""
    prior: float = 0.0
    """`expected_freedom`."""
    binomial: float = 0.0
    """The variance if all rows were independent and both sides had the same rates."""
    hidden: float = 0.0
    """What base scenarios that are not among these may add to the variance."""

    @classmethod
    def of(cls, strata: Sequence[Stratum]) -> _Observed | None:
        ready = collapsed(strata)
        clusters = [cluster for stratum in ready for cluster in stratum]
        pairs = sum(cluster.size for cluster in clusters)
        if not pairs:
            return None
        estimate = sum(cluster.total for cluster in clusters) / pairs
        spread = drawn_error(ready, estimate, pairs)
        if spread is None:
            return cls(estimate, pairs, len(clusters), None)
        seen = intraclass_correlation(ready)
        # where nothing tells, each base scenario counts as one row
        likeness = 1.0 if seen is None else seen
        sizes = [cluster.size for cluster in clusters]
        squares = sum(cluster.squares for cluster in clusters)
        expected = expected_variance(squares, pairs, estimate)
        effective = _effective_clusters(ready)
        binomial, hidden = _of_rates(ready, pairs, effective)
        return cls(
            estimate,
            pairs,
            len(clusters),
            spread,
            expected * design_effect(sizes, likeness),
            FEWEST_PAIRS / effective_size(sizes, likeness) ** 2,
            expected_freedom(sizes),
            binomial,
            hidden,
        )

    def moderated(self, overdispersion: float | None = None, *, others: int = 0) -> Difference:
        """`overdispersion` is that of all pairs of targets; None where there are no pairs."""
        if self.spread is None:
            return Difference(self.estimate, None, 0, self.pairs, self.clusters)
        own, shared, hidden = self.spread.freedom, 0.0, 0.0
        weighed = own * self.spread.error**2 + self.prior * self.expected
        if overdispersion is not None:
            shared, hidden = shared_freedom(own, others), self.hidden
            weighed += shared * overdispersion * self.binomial
        freedom = own + self.prior + shared
        error = sqrt(max(weighed / freedom, self.least) + hidden)
        return Difference(self.estimate, error, whole_freedom(freedom), self.pairs, self.clusters)


def shared_freedom(own: float, others: int) -> float:
    """The weight of the overdispersion that all pairs share, where there are `others` besides the
    two targets of the pair."""
    return min(_SHARED_FREEDOM, others * own)


def expected_freedom(sizes: Iterable[float]) -> float:
    """The weight of the expected variance for base scenarios of these sizes."""
    return _EXPECTED_FREEDOM / design_effect(sizes, _EXPECTED_DEPENDENCE)


def _effective_clusters(strata: Sequence[Stratum]) -> float:
    return sum(effective_number(cluster.size for cluster in stratum) for stratum in strata)


def hidden_variance(rate: float, clusters: float) -> float:
    """What base scenarios that are not among these may add to the variance of a difference of two
    sides with this common rate."""
    return 2 * ((rate - 0.5) / clusters) ** 2


def _of_rates(strata: Sequence[Stratum], pairs: int, effective: float) -> tuple[float, float]:
    """`binomial` and `hidden`; both 0 for what has no rates. A stratum's rate
    is shrunk towards that of all by one effective cluster."""
    layers = [[one for one in stratum if isinstance(one, PairedCluster)] for stratum in strata]
    if not any(layers):
        return 0.0, 0.0
    rate = sum(one.both for layer in layers for one in layer) / (2 * pairs)
    binomial = 0.0
    for layer in layers:
        size = sum(one.size for one in layer)
        worth = effective_number(one.size for one in layer)
        own = (worth * sum(one.both for one in layer) / (2 * size) + rate) / (worth + 1)
        binomial += 2 * size * own * (1 - own)
    return binomial / pairs**2, hidden_variance(rate, effective)


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
    stratum's own (Cochran (1977), eq. 5.6 and 11.30). A cluster's residual is divided by the share
    of rows outside it, as with the jackknife, since a large one pulls the mean towards itself: J.
    G. MacKinnon, M. Nielsen and M. D. Webb, Journal of Applied Econometrics 38 (2023) 671-694, CV3;
    equal clusters keep their C / (C - 1).

    Where a few strata have most of the variance, the degrees of freedom are theirs: F. E.
    Satterthwaite, Biometrics Bulletin 2 (1946) 110-114, as estimated by B. L. Welch, Biometrika 34
    (1947) 28-35: S^2 / sum(v^2 / (f + 2)) - 2, with S the sum of the variances v, and f of
    `degrees_of_freedom`.
    """
    if max(map(len, strata), default=0) < 2:
        return None
    freedoms = [degrees_of_freedom(one.size for one in clusters) for clusters in strata]
    freedom = sum(freedoms)
    variances = [_drawn_spread(clusters, mean) for clusters in strata]
    total = sum(variances)
    if total > 0:
        shares = ((v / total) ** 2 / (f + 2) for v, f in zip(variances, freedoms, strict=True))
        freedom = min(freedom, max(_LEAST_FREEDOM, 1 / sum(shares) - 2))
    return StandardError(sqrt(total) / rows, freedom)


def _drawn_spread(clusters: Sequence[WeightedCluster], mean: float) -> float:
    count, size = len(clusters), sum(cluster.size for cluster in clusters)
    own = sum(cluster.total for cluster in clusters) / size
    drawn = (count * own + _BORROWED * mean) / (count + _BORROWED)
    # 1 for equal clusters
    jackknifed = (
        (cluster.total - drawn * cluster.size) * (1 - 1 / count) / (1 - cluster.size / size)
        for cluster in clusters
    )
    return count / (count - 1) * sum(residual**2 for residual in jackknifed)


def differences(left: Answers, right: Answers) -> list[Sequence[PairedCluster]]:
    """Left minus right on every thing that both have, by metric, clustered by base scenario."""
    strata: list[Sequence[PairedCluster]] = []
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


def _differences(left: Mapping[str, float], right: Mapping[str, float]) -> PairedCluster:
    # mostly the same keys, and then no list is needed
    both = left if left.keys() == right.keys() else [key for key in left if key in right]
    ours, theirs = [left[key] for key in both], [right[key] for key in both]
    apart = list(map(sub, ours, theirs))
    return PairedCluster(
        len(apart), sum(apart), sum(one * one for one in apart), sum(ours) + sum(theirs)
    )


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
    half = critical(difference.freedom) * error
    # a difference of shares is within ±1, and a change of one within ±2
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
    """By part, the significance level of each of its differences if none is marked yet, given
    their number: weighted Bonferroni."""
    shared = sum(shares[part] for part, count in counts.items() if count)
    return {
        part: ERROR_RATE * shares[part] / shared / count for part, count in counts.items() if count
    }


def simultaneous(
    family: Mapping[FamilyPart, Sequence[Difference]], shares: Mapping[FamilyPart, float] = SHARES
) -> list[Adjusted]:
    """Adjusted differences, part by part in the order given: at most 5% of such families have any
    false mark, whatever is true.

    Weighted step-down: S. Holm, Scandinavian Journal of Statistics 6 (1979) 65-70, section 4. An
    interval is at the level at which its difference was tested.
    """
    allowed = levels({part: _size(of_part) for part, of_part in family.items()}, shares)
    placed = [(part, difference) for part, of_part in family.items() for difference in of_part]
    weighed = sorted(
        (difference.p / (allowed[part] / ERROR_RATE), number)
        for number, (part, difference) in enumerate(placed)
        if difference.p is not None
    )
    adjusted = [Adjusted(None, None)] * len(placed)
    left, p, tested = 1.0, 0.0, 1.0
    for ratio, number in weighed:
        part, difference = placed[number]
        if p <= ERROR_RATE:  # once one is not marked, those after it are tested as it was
            tested = left
        p = max(p, min(1.0, ratio * left))
        adjusted[number] = Adjusted(difference.interval_at(allowed[part] / tested), p)
        left -= allowed[part] / ERROR_RATE
    return adjusted


def _size(differences: Sequence[Difference]) -> int:
    return sum(difference.error is not None for difference in differences)
