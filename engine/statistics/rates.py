"""Pass rates with intervals that never have zero width; and rates and differences of several
benchmarks combined with equal weights.

All intervals of rates put an effective number of independent rows into Wilson's interval with
Student's t. `python -m tests.benchmarks coverage` shows that they have their coverage from 3
scenarios on, where plain Wilson on n / deff with z does not.

Intervals for the scenarios of several benchmarks rest on the intervals and errors of each
benchmark. Intervals for other benchmarks like these rest on how far the benchmarks differ: each is
one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, hypot, sqrt
from typing import Final

from engine.statistics.clusters import (
    Cluster,
    Stratum,
    clustered_error,
    collapsed,
    design_effect,
    stratified_error,
)
from engine.statistics.distributions import Interval, critical, student_quantile, wilson
from engine.statistics.paired import Difference

_EXPECTED_FREEDOM: Final = 4
"""The weight, in clusters per metric, of the variance expected from the run's intra-class
correlation: steadier than that of few clusters, but only an estimate for a single metric."""
_ASTRAY: Final = 0.25
_ASTRAY_METRIC: Final = 0.1
"""The fraction of one imagined cluster that passes half the time. It stands for the rare bad
cluster that a high rate hides, and has no effect at a rate of one half."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A pass rate with its interval and sample sizes."""

    rate: float
    """0 to 1."""
    interval: Interval
    passed: int
    scored: int
    """Rows."""
    clusters: int
    """Base scenarios (for new metrics: metrics)."""
    effective: float
    """How many independent rows it is worth; for one metric never more than its rows."""
    freedom: float
    """Degrees of freedom of the quantile that replaces z."""

    def interval_at(self, level: float) -> Interval:
        """The interval that misses the truth with probability `level`."""
        quantile = student_quantile(1 - level / 2, max(1.0, self.freedom))
        return wilson(self.rate, self.effective, quantile)

    def with_counts(self, passed: int, scored: int) -> Rate:
        """An approximation for other counts, with `scored` above 0: the rate is exact, the interval
        assumes the same design effect."""
        rate, effective = passed / scored, self.effective * scored / self.scored
        interval = wilson(rate, effective, critical(self.freedom))
        return replace(
            self, rate=rate, interval=interval, passed=passed, scored=scored, effective=effective
        )


def metric_rate(clusters: Stratum, correlation: float | None) -> Rate | None:
    """The pass rate of one metric with one target; None without a row.

    `clusters` are its base scenarios. `correlation` is `intraclass_correlation` pooled over the
    run, as one metric has too few scenarios; where it is None, every base scenario counts as one
    row.

    Wilson on n / deff as `benchmark_rate` has it, which for a single stratum is E. L. Korn and B.
    I. Graubard, Survey Methodology 24 (1998) 193-201, with Wilson's interval for Clopper-Pearson's
    (Dean and Pagano 2015, see `wilson`).
    """
    return benchmark_rate([clusters], correlation)


def benchmark_rate(strata: Sequence[Stratum], correlation: float | None) -> Rate | None:
    """The pass rate over these metrics, each a stratum of base scenarios; None without a row.

    The variance is that of the clusters about their strata with C / (C - 1) (`stratified_error`),
    moderated by the one expected from the pooled correlation, each weighted by its degrees of
    freedom: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004),
    article 3, eq. 5. The expected one is p(1 - p) deff / n, without what the difference between
    metrics explains: Cochran (1977), eq. 5.6; each metric's rate is shrunk towards the overall one
    by one effective row, so that a metric that always passes is not taken for certain. A variance
    of the clusters above the expected one stands, as some metrics have a higher correlation than
    the run. The variance enters Wilson's interval as an effective number of rows, with Student's t
    for z: at most the number without correlation, since few clusters may vary less by chance.
    """
    ready = collapsed(strata)
    clusters = [cluster for stratum in ready for cluster in stratum]
    if not clusters:
        return None
    rate = _mean(clusters)
    effective = _effective_within(ready, rate, 1.0 if correlation is None else correlation)
    spread = stratified_error(ready)
    if spread is None:
        # a single cluster: only the expected variance is known
        return _rate(clusters, effective, 0)
    own, expected = spread.freedom, rate * (1 - rate) / effective
    weight = _EXPECTED_FREEDOM * len(ready)
    moderated = (own * spread.error**2 + weight * expected) / (own + weight)
    # never below its own: moderation only adds variance that few clusters may hide
    variance = max(moderated, spread.error**2) + _ASTRAY * ((rate - 0.5) / len(clusters)) ** 2
    if 0 < rate < 1:
        effective = min(rate * (1 - rate) / variance, _effective_within(ready, rate, 0.0))
    return _rate(clusters, effective, own + max(own, _EXPECTED_FREEDOM))


def new_metrics_rate(strata: Sequence[Stratum], correlation: float | None) -> Rate | None:
    """The pass rate with an interval for metrics drawn from many like these; None for fewer than
    two metrics with a row.

    Clustered by metric with M / (M - 1) and t with M - 1 degrees (`clustered_error`); the variance
    is at least half of that of the scenarios within the metrics, so that a small difference between
    metrics by chance does not narrow it. Where all pass or all fail, each metric counts as at most
    one row.
    """
    metrics = [_sum(clusters) for clusters in strata if any(cluster.size for cluster in clusters)]
    spread = clustered_error(metrics)
    within = benchmark_rate(strata, correlation)
    if spread is None or within is None:
        return None
    rate = within.rate
    # half the variance of the scenarios, as in the docstring
    effective = 2 * within.effective
    if 0 < rate < 1:
        variance = spread.error**2 + _ASTRAY_METRIC * ((rate - 0.5) / len(metrics)) ** 2
        effective = rate * (1 - rate) / max(variance, rate * (1 - rate) / effective)
    else:
        effective = min(effective, len(metrics))
    return _rate(metrics, effective, spread.freedom)


def _effective_within(strata: Sequence[Stratum], rate: float, correlation: float) -> float:
    """Effective rows of strata whose clusters have this intra-class correlation."""
    clusters = [cluster for stratum in strata for cluster in stratum]
    count = sum(cluster.size for cluster in clusters)
    effective = count / design_effect([cluster.size for cluster in clusters], correlation)
    if not 0 < rate < 1:
        return effective
    left = 0.0
    for stratum in strata:
        rows = sum(cluster.size for cluster in stratum)
        worth = rows / design_effect([cluster.size for cluster in stratum], correlation)
        # towards the overall rate by one effective row
        drawn = (worth * _mean(stratum) + rate) / (worth + 1)
        left += rows / count * drawn * (1 - drawn)
    # rounding may leave more variance within the metrics than there is in all
    return effective / min(1.0, left / (rate * (1 - rate)))


def _rate(clusters: Stratum, effective: float, freedom: float) -> Rate:
    whole = _sum(clusters)
    return Rate(
        whole.mean,
        wilson(whole.mean, effective, critical(freedom)),
        round(whole.total),
        whole.size,
        len(clusters),
        effective,
        freedom,
    )


def _mean(clusters: Stratum) -> float:
    return _sum(clusters).mean


def _sum(clusters: Stratum) -> Cluster:
    return Cluster(
        sum(cluster.size for cluster in clusters),
        sum(cluster.total for cluster in clusters),
        sum(cluster.squares for cluster in clusters),
    )


def no_signal(counts: Mapping[str, Iterable[tuple[int, int]]]) -> dict[str, bool]:
    """The metrics whose scored rows all pass (True) or all fail (False), from each metric's
    (passed, scored) by target. A metric without a scored row is not among them."""
    passes: dict[str, bool] = {}
    for metric, pairs in counts.items():
        listed = list(pairs)
        passed, scored = (
            sum(passed_of_target for passed_of_target, _ in listed),
            sum(of for _, of in listed),
        )
        if scored and passed in {0, scored}:
            passes[metric] = passed > 0
    return passes


ENOUGH_BENCHMARKS: Final = 5
"""The fewest benchmarks for an interval over others like them: fewer hardly show how far benchmarks
differ."""


def mean_interval(rates: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """The interval of the mean of at least one independent rate, from each rate's own interval; it
    lies within 0 and 1, as they do.

    On either side, the squared distances from each rate to the end of its interval are added: G. Y.
    Zou and A. Donner, Statistics in Medicine 27 (2008) 1693-1702, section 2.
    """
    mean, count = sum(rates) / len(rates), len(rates)
    pairs = list(zip(rates, intervals, strict=True))
    below = hypot(*(rate - interval.low for rate, interval in pairs)) / count
    above = hypot(*(interval.high - rate for rate, interval in pairs)) / count
    return Interval(mean - below, mean + above)


def like_these_interval(rates: Sequence[float], effective: float) -> Interval | None:
    """The interval of the mean rate for benchmarks drawn from many like these; None for fewer than
    `ENOUGH_BENCHMARKS`.

    `effective` is how many independent rows the mean is worth for the scenarios of these alone.
    The variance is that of the benchmarks about their mean (`clustered_error`), and at least that
    of their scenarios; it enters Wilson's interval as in `new_metrics_rate`.
    """
    spread = clustered_error([Cluster.of([rate]) for rate in rates])
    if spread is None or len(rates) < ENOUGH_BENCHMARKS:
        return None
    mean = sum(rates) / len(rates)
    if not 0 < mean < 1:
        return wilson(mean, min(effective, len(rates)), critical(spread.freedom))
    rows = min(effective, mean * (1 - mean) / spread.error**2) if spread.error else effective
    return wilson(mean, rows, critical(spread.freedom))


def mean_of(differences: Sequence[Difference]) -> Difference | None:
    """The mean difference over these benchmarks; None where none of them has an error.

    Differences without an error (fewer than two shared scenarios) are left out. Degrees of freedom:
    F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.
    """
    known = [
        (difference, difference.error) for difference in differences if difference.error is not None
    ]
    if not known:
        return None
    variances = [error**2 for _, error in known]
    shares = sum(
        v**2 / difference.freedom for (difference, _), v in zip(known, variances, strict=True)
    )
    return Difference(
        estimate=sum(difference.estimate for difference, _ in known) / len(known),
        error=sqrt(sum(variances)) / len(known),
        # 1e-9, so that rounding does not cost a whole degree of freedom
        freedom=max(1, floor(sum(variances) ** 2 / shares + 1e-9)),
        pairs=sum(difference.pairs for difference, _ in known),
        clusters=sum(difference.clusters for difference, _ in known),
    )


def like_these(differences: Sequence[Difference]) -> Difference | None:
    """The mean difference for benchmarks drawn from many like these, each being one cluster; None
    for fewer than `ENOUGH_BENCHMARKS` with an error.

    The error is that of the benchmarks' differences about their mean, with Student's t on one
    degree less than there are benchmarks; it is at least that of the mean over these alone
    (`mean_of`), so that chance agreement between benchmarks does not narrow it.
    """
    known = [difference for difference in differences if difference.error is not None]
    within, spread = mean_of(known), clustered_error([Cluster.of([o.estimate]) for o in known])
    if within is None or within.error is None or spread is None or len(known) < ENOUGH_BENCHMARKS:
        return None
    return Difference(
        estimate=within.estimate,
        error=max(within.error, spread.error),
        freedom=spread.freedom,
        pairs=within.pairs,
        clusters=within.clusters,
        moderated=False,
    )
