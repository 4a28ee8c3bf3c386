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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from math import hypot, sqrt
from operator import add
from typing import Final, NamedTuple

from engine.statistics.clusters import (
    Cluster,
    Stratum,
    clustered_error,
    collapsed,
    degrees_of_freedom,
    freedom_by_sums,
    whole_freedom,
)
from engine.statistics.distributions import Interval, critical, student_quantile, wilson
from engine.statistics.paired import Difference

_EXPECTED_FREEDOM: Final = 4
"""The weight, in clusters per metric, of the variance expected from the intra-class correlation:
steadier than that of few clusters, but only an estimate for a single metric."""
_EXPECTED_LIKENESS: Final = 0.3
_LIKENESS_FREEDOM: Final = 4
"""The intra-class correlation that is expected of any rows, and its weight in degrees of freedom:
the run's own may be that of other metrics, and of few clusters it is known badly."""
_ASTRAY: Final = 0.08
_ASTRAY_METRIC: Final = 0.1
"""The fraction of one imagined cluster that passes half the time. It stands for the rare bad
cluster that a high rate hides, and has no effect at a rate of one half."""
_WORST: Final = 16
_FINE: Final = 32
"""As many of the worst clusters are tried alone, and in a single stratum so many counts of failures
one by one (`_bound`)."""


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
    run, as one metric has too few scenarios; None where it cannot be estimated.

    Wilson on n / deff as `benchmark_rate` has it, which for a single stratum is E. L. Korn and B.
    I. Graubard, Survey Methodology 24 (1998) 193-201, with Wilson's interval for Clopper-Pearson's
    (Dean and Pagano 2015, see `wilson`).
    """
    return benchmark_rate([clusters], correlation)


def benchmark_rate(strata: Sequence[Stratum], correlation: float | None) -> Rate | None:
    """The pass rate over these metrics, each a stratum of base scenarios; None without a row.

    The variance is that of the clusters about their strata with C / (C - 1) (`stratified_error`),
    moderated by the one expected from the intra-class correlation, each weighted by its degrees of
    freedom: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004),
    article 3, eq. 5. The correlation is itself the run's, moderated by the one that is expected of
    any rows. The expected variance is p(1 - p) deff / n, without what the difference between
    metrics explains: Cochran (1977), eq. 5.6; each metric's rate is shrunk towards the overall one
    by one effective row, so that a metric that always passes is not taken for certain. A variance
    of the clusters above the expected one stands, as some metrics have a higher correlation than
    the run. The variance enters Wilson's interval as an effective number of rows, with Student's t
    for z: at most the number without correlation, since few clusters may vary less by chance.

    Either end is moved outward where that is needed for it to be monotone (`_bound`).
    """
    ready = collapsed(strata)
    clusters = [cluster for stratum in ready for cluster in stratum]
    if not clusters:
        return None
    whole = _estimated([_Sums.of(stratum).layer for stratum in ready], correlation)
    below = _bound(ready, correlation)
    above = 1 - _bound([[_failing(one) for one in stratum] for stratum in ready], correlation)
    rate = _rate(clusters, whole.effective, whole.freedom)
    ends = Interval(min(rate.interval.low, below), max(rate.interval.high, above))
    return replace(rate, interval=ends)


class _Sums(NamedTuple):
    """Sums over the clusters of a stratum, whatever their order."""

    clusters: int
    rows: int
    rows_squared: int
    """Sum of squared cluster sizes."""
    total: float
    squares: float
    """Sum of squared cluster totals."""
    crossed: float
    """Sum of cluster totals times sizes."""
    explained: float
    """Sum of squared cluster totals over sizes."""

    @classmethod
    def of(cls, stratum: Stratum) -> _Sums:
        return reduce(_Sums.plus, map(cls.of_cluster, stratum))

    @classmethod
    def of_cluster(cls, one: Cluster, times: int = 1) -> _Sums:
        """The sums of one cluster; `times` -1 to take it away."""
        size, total = one.size, one.total
        return cls(
            times,
            times * size,
            times * size**2,
            times * total,
            times * total**2,
            times * total * size,
            times * total**2 / size,
        )

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(*map(add, self, other))

    @property
    def layer(self) -> _Layer:
        rows, count, mean = self.rows, self.clusters, self.total / self.rows
        about = self.squares - 2 * mean * self.crossed + mean**2 * self.rows_squared
        return _Layer(
            count,
            rows,
            self.rows_squared / rows - 1,
            freedom_by_sums(rows, self.rows_squared),
            self.total,
            mean,
            max(0.0, about) * count / (count - 1) if count > 1 else 0.0,
            # differences of large numbers, which rounding may leave just below 0
            max(0.0, self.explained - rows * mean**2),
            max(0.0, self.total - self.explained),
        )


class _Layer(NamedTuple):
    """What the variance of a rate needs of a stratum."""

    clusters: int
    rows: int
    others: float
    """Size-weighted mean number of other rows in a row's cluster."""
    freedom: float
    total: float
    mean: float
    spread: float
    """Sum of squared residuals of cluster totals about the stratum's mean, C / (C - 1) times."""
    between: float
    within: float
    """Sums of squares between and within clusters, of rows that pass or fail."""


class _Estimated(NamedTuple):
    rate: float
    effective: float
    """Effective rows."""
    freedom: int

    @property
    def low(self) -> float:
        return wilson(self.rate, self.effective, critical(self.freedom)).low


def _estimated(strata: Sequence[_Layer], correlation: float | None) -> _Estimated:
    rows, own = sum(one.rows for one in strata), sum(one.freedom for one in strata)
    rate = sum(one.total for one in strata) / rows
    seen = 0.0 if correlation is None else own
    expected = seen * (correlation or 0.0) + _LIKENESS_FREEDOM * _EXPECTED_LIKENESS
    effective = _effective_within(strata, rate, expected / (seen + _LIKENESS_FREEDOM))
    if max(one.clusters for one in strata) < 2:
        # a single cluster: only the expected variance is known
        return _Estimated(rate, effective, 1)
    freedom = whole_freedom(own + max(own, _EXPECTED_FREEDOM))
    if not 0 < rate < 1:
        return _Estimated(rate, effective, freedom)
    spread = sum(one.spread for one in strata) / rows**2
    weight = _EXPECTED_FREEDOM * len(strata)
    moderated = (own * spread + weight * rate * (1 - rate) / effective) / (own + weight)
    # never below its own: moderation only adds variance that few clusters may hide
    variance = max(moderated, spread) + _ASTRAY * ((rate - 0.5) / (own + len(strata))) ** 2
    most = _effective_within(strata, rate, 0.0)
    return _Estimated(rate, min(rate * (1 - rate) / variance, most), freedom)


def _bound(strata: Sequence[Stratum], correlation: float | None) -> float:
    """The least lower end of all tables that keep some of these failures, as many of them as can be
    on the same base scenarios: without it, a failure more could raise the lower end, where it shows
    that clusters vary less than it seemed. Such a table has the correlation of the run, or the
    largest of those that keep as many failures; where all pass, none may be known."""
    tables = list(_worst_first(strata) if len(strata) > 1 else _concentrated(strata[0]))
    least, alike = 1.0 if len(tables) == 1 else _estimated(tables[-1], None).low, correlation
    for layers in tables:
        if alike is not None:
            alike = max(alike, _correlation(layers) or 0.0)
        least = min(least, _estimated(layers, alike).low)
    return least


def _concentrated(stratum: Stratum) -> Iterator[list[_Layer]]:
    """For numbers of failures from all to none, the most that the sums of a table can be that keeps
    so many of these. None of them is less with one failure more to choose from, so the lower end of
    a single stratum never rises: up to `_FINE` failures each number is tried, of more those next
    to all, as the least is hardly ever elsewhere.

    Clusters of one size are filled from the one with most failures on. Of unlike sizes, one that is
    filled in part counts as that part of a whole one: a convex sum is at most its chord."""
    whole = _Sums.of(stratum)
    layer, rows, count = whole.layer, whole.rows, whole.clusters
    equal = len({one.size for one in stratum}) == 1
    failures = [(round(one.size - one.total), one.size) for one in stratum]
    failures = sorted((one for one in failures if one[0]), key=lambda one: -one[0] / one[1])
    for failed in _numbers_tried([number for number, _ in failures]):
        rate = failed / rows
        furthest = (
            failures if equal else sorted(failures, key=lambda one: 2 * rate * one[1] - one[0])
        )
        about = rate**2 * whole.rows_squared + sum(
            kept * (of - 2 * rate * size)
            for kept, of, size in _filled(failed, furthest, equal=equal)
        )
        explained = sum(
            kept * of / size for kept, of, size in _filled(failed, failures, equal=equal)
        )
        yield [
            layer._replace(
                total=rows - failed,
                mean=1 - rate,
                spread=max(0.0, about) * count / (count - 1) if count > 1 else 0.0,
                between=max(0.0, explained - failed * rate),
                within=max(0.0, failed - explained),
            )
        ]


def _numbers_tried(failures: Sequence[int]) -> list[int]:
    """Of failures to keep: those next to all, all of the worst clusters, one and none."""
    every = sum(failures)
    fine = range(max(0, every - _FINE), every + 1)
    return sorted({0, min(1, every), *accumulate(failures[:_WORST]), *fine}, reverse=True)


def _filled(
    failed: int, failures: Sequence[tuple[int, int]], *, equal: bool
) -> Iterator[tuple[int, int, int]]:
    """How many failures each cluster keeps, the number that stands for its kind, and its size,
    until so many are kept."""
    for most, size in failures:
        kept = min(most, failed)
        yield kept, kept if equal else most, size
        failed -= kept
        if not failed:
            return


def _worst_first(strata: Sequence[Stratum]) -> Iterator[list[_Layer]]:
    """The tables in which only some of the worst clusters keep their failures, and all others pass
    throughout, from many to none."""
    places = [(place, one) for place, stratum in enumerate(strata) for one in stratum]
    worst = sorted(places, key=lambda placed: placed[1].mean)[:_WORST]
    sums = [_Sums.of([Cluster.passing(one.size, one.size) for one in each]) for each in strata]
    tables = [[one.layer for one in sums]]
    for place, one in worst:
        if one.total == one.size:
            break
        full = Cluster.passing(one.size, one.size)
        sums[place] = sums[place].plus(_Sums.of_cluster(full, -1)).plus(_Sums.of_cluster(one))
        layers = list(tables[-1])
        layers[place] = sums[place].layer
        tables.append(layers)
    return reversed(tables)


def _correlation(strata: Sequence[_Layer]) -> float | None:
    """`intraclass_correlation` of rows that pass or fail."""
    between_df = sum(one.clusters - 1 for one in strata)
    within_df = sum(one.rows - one.clusters for one in strata)
    if not between_df or not within_df:
        return None
    between = sum(one.between for one in strata) / between_df
    within = sum(one.within for one in strata) / within_df
    size = sum(one.rows - one.others - 1 for one in strata) / between_df
    spread = between + (size - 1) * within
    return None if spread < 1e-12 else max(0.0, (between - within) / spread)


def _failing(one: Cluster) -> Cluster:
    return Cluster(one.size, one.size - one.total, one.size - one.total)


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


def _effective_within(strata: Sequence[_Layer], rate: float, correlation: float) -> float:
    """Effective rows of strata whose clusters have this intra-class correlation."""
    rows = sum(one.rows for one in strata)
    others = sum(one.rows * one.others for one in strata) / rows
    effective = rows / (1 + others * correlation)
    if not 0 < rate < 1:
        return effective
    left = 0.0
    for one in strata:
        worth = one.rows / (1 + one.others * correlation)
        # towards the overall rate by one effective row
        drawn = (worth * one.mean + rate) / (worth + 1)
        left += one.rows * drawn * (1 - drawn)
    # rounding may leave more variance within the metrics than there is in all
    return effective / min(1.0, left / rows / (rate * (1 - rate)))


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
        freedom=whole_freedom(sum(variances) ** 2 / shares),
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
        freedom=whole_freedom(degrees_of_freedom(1 for _ in known)),
        pairs=within.pairs,
        clusters=within.clusters,
    )
