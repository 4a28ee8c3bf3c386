"""Clustered rows: their intra-class correlation, design effect, standard errors and resampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from random import Random
from typing import Final, Protocol, TypeVar

from engine.statistics.distributions import LEVEL, Interval


@dataclass(frozen=True, slots=True)
class Cluster:
    """The sums over the rows of one base scenario (for one metric)."""

    size: int
    """Rows."""
    total: float
    """Sum of their values: for a rate, how many passed; for differences, their sum."""
    squares: float
    """Sum of the squared values; equals `total` for values of 0 and 1."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Cluster:
        return cls(len(values), sum(values), sum(value * value for value in values))

    @classmethod
    def passing(cls, passed: int, size: int) -> Cluster:
        return cls(size, passed, passed)

    @property
    def mean(self) -> float:
        return self.total / self.size


class WeightedCluster(Protocol):
    """The part of a cluster that the error of a mean needs."""

    @property
    def size(self) -> float: ...

    @property
    def total(self) -> float: ...


Stratum = Sequence[Cluster]
"""The clusters of one metric. The strata of a benchmark are its metrics."""
_AnyCluster = TypeVar("_AnyCluster", bound=Cluster)

_ROUNDING: Final = 1e-9
"""So that rounding does not cost a whole degree of freedom."""
_SHARED: Final = "\0"
"""The stratum of transcripts that belong to several metrics; not the id of any metric."""


@dataclass(frozen=True, slots=True)
class SharedTranscripts:
    """Base scenarios whose rows are not independent, as they share transcripts."""

    names: Mapping[str, str]
    """By base scenario, the first of all transcripts that are connected through base scenarios."""

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str | None]]) -> SharedTranscripts:
        """`rows` are base scenarios, each with the transcript that it shares, or None."""
        of_base: dict[str, str] = {}
        before: dict[str, str] = {}
        for base, transcript in rows:
            if transcript is not None:
                first = _root_of(before, transcript)
                other = _root_of(before, of_base.setdefault(base, transcript))
                # the smaller name stands for both, so that the order of rows does not matter
                before[max(first, other)] = min(first, other)
        return cls({base: _root_of(before, name) for base, name in of_base.items()})

    def place(self, metric: str, base: str) -> tuple[str, str]:
        """The stratum and cluster of a base scenario in figures over several metrics. Metrics with
        the same transcripts do not vary independently: they are one stratum, in which each
        transcript is a cluster."""
        name = self.names.get(base)
        return (metric, base) if name is None else (_SHARED, name)

    def cluster(self, base: str) -> str:
        """The cluster of a base scenario in figures of its metric alone."""
        return self.names.get(base, base)


NOTHING_SHARED: Final = SharedTranscripts({})


def _root_of(before: dict[str, str], name: str) -> str:
    while before.setdefault(name, name) != name:
        # union-find with path halving: many connected transcripts stay cheap
        before[name] = name = before[before[name]]
    return name


def intraclass_correlation(cells: Iterable[Stratum]) -> float | None:
    """The intra-class correlation of rows in one cluster, from 0 (unrelated) to 1.

    A cell contains clusters whose rows have the same expected value (a metric and a target); sums
    of squares and degrees of freedom are pooled over the cells, so that differences between cells
    do not count as correlation. The ANOVA estimator with m0 for unequal clusters, floored at 0:
    A. Donner and J. J. Koval, Biometrics 36 (1980) 19-25. None where it is not defined: no cell
    with two clusters, no cluster with two rows, or no different values within a cell.
    """
    between = within = sizes = 0.0
    between_df = within_df = 0
    for cell in cells:
        filled = [cluster for cluster in cell if cluster.size]
        count = sum(cluster.size for cluster in filled)
        if not count:
            continue
        mean = sum(cluster.total for cluster in filled) / count
        explained = sum(cluster.total * cluster.mean for cluster in filled)
        # both sums are differences of large numbers, which rounding may leave just below 0
        between += max(0.0, explained - count * mean * mean)
        within += max(0.0, sum(cluster.squares for cluster in filled) - explained)
        between_df += len(filled) - 1
        within_df += count - len(filled)
        sizes += count - sum(cluster.size**2 for cluster in filled) / count
    if not between_df or not within_df:
        return None
    between_square, within_square = between / between_df, within / within_df
    spread = between_square + (sizes / between_df - 1) * within_square
    # only rounding is left, and its quotient would be noise
    if spread < 1e-12:
        return None
    return max(0.0, (between_square - within_square) / spread)


def design_effect(sizes: Iterable[float], correlation: float) -> float:
    """The factor by which clusters of these sizes inflate the variance of a mean: 1 + (m' - 1) *
    correlation, with m' the size-weighted mean size. 1 for no rows.

    L. Kish, Survey Sampling (1965), section 8.2.
    """
    sizes = list(sizes)
    count = sum(sizes)
    if count == 0:
        return 1.0
    weighted = sum(size**2 for size in sizes) / count
    return 1 + (weighted - 1) * correlation


def effective_number(weights: Iterable[float]) -> float:
    """How many equal weights these are worth; 0 for none. L. Kish, Survey Sampling (1965), section
    11.7; of clusters: A. V. Carter, K. T. Schnepel and D. G. Steigerwald, Review of Economics and
    Statistics 99 (2017) 698-709, for rows that are all alike within a cluster."""
    weights = list(weights)
    squares = sum(weight * weight for weight in weights)
    return sum(weights) ** 2 / squares if squares else 0.0


def degrees_of_freedom(sizes: Iterable[float]) -> float:
    """Degrees of freedom of a variance over clusters of these sizes: their effective number less
    one. A variance that rests on one large cluster and many small ones is hardly known."""
    sizes = list(sizes)
    return freedom_by_sums(sum(sizes), sum(size * size for size in sizes))


def freedom_by_sums(total: float, squares: float) -> float:
    """`degrees_of_freedom` from the sum of the sizes and that of their squares."""
    return max(0.0, total**2 / squares - 1) if squares else 0.0


def whole_freedom(freedom: float) -> int:
    """Whole degrees of freedom, as quantiles are kept by them; at least 1."""
    return max(1, floor(freedom + _ROUNDING))


def effective_size(sizes: Sequence[int], correlation: float) -> float:
    """How many independent rows clusters of these sizes are worth: n / deff (`design_effect`)."""
    return sum(sizes) / design_effect(sizes, correlation)


@dataclass(frozen=True, slots=True)
class StandardError:
    """The standard error of a mean over rows, in their unit."""

    error: float
    freedom: float
    """`degrees_of_freedom` of the clusters, summed over strata."""


def clustered_error(clusters: Stratum) -> StandardError | None:
    """The standard error of the mean over all rows, clustered; with C / (C - 1).

    None for fewer than two clusters. W. G. Cochran, Sampling Techniques (1977), eq. 9A.7 and
    11.30 (ratio to size); K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13-22.
    """
    return stratified_error([clusters])


def stratified_error(strata: Sequence[Stratum]) -> StandardError | None:
    """The standard error of the mean over the rows of all strata, from the clusters' variation
    about their stratum's mean; with C / (C - 1) in each stratum.

    Strata of a single cluster have no variance of their own and are `collapsed`.
    None for fewer than two clusters in all. Cochran (1977), eq. 5.6 and 11.30; K. M. Wolter,
    Introduction to Variance Estimation (2007), section 2.5.
    """
    ready = collapsed(strata)
    if max(map(len, ready), default=0) < 2:
        return None
    count = sum(cluster.size for clusters in ready for cluster in clusters)
    freedom = sum(degrees_of_freedom(one.size for one in clusters) for clusters in ready)
    return StandardError(sqrt(sum(map(_spread, ready))) / count, freedom)


def jackknife_error(values: Sequence[float]) -> float:
    """The standard error of a figure, from its values with each cluster left out in turn: B. Efron,
    The Jackknife, the Bootstrap and Other Resampling Plans (1982), eq. 3.13."""
    n = len(values)
    mean = sum(values) / n
    return sqrt((n - 1) / n * sum((value - mean) ** 2 for value in values))


def _spread(clusters: Stratum) -> float:
    mean = sum(cluster.total for cluster in clusters) / sum(cluster.size for cluster in clusters)
    residuals = sum((cluster.total - mean * cluster.size) ** 2 for cluster in clusters)
    return len(clusters) / (len(clusters) - 1) * residuals


def collapsed(strata: Sequence[Sequence[_AnyCluster]]) -> list[Sequence[_AnyCluster]]:
    """Strata of at least two clusters each, by `merged_strata`, unless there is only one cluster in
    all; clusters without rows are left out."""
    return list(
        merged_strata([[cluster for cluster in clusters if cluster.size] for clusters in strata])
    )


_Thing = TypeVar("_Thing")


def merged_strata(strata: Sequence[Sequence[_Thing]]) -> list[Sequence[_Thing]]:
    """Strata with a single cluster are merged; if there is only one, it joins the smallest other
    stratum."""
    ready = [list(clusters) for clusters in strata if len(clusters) > 1]
    single = [cluster for clusters in strata if len(clusters) == 1 for cluster in clusters]
    if len(single) > 1 or (single and not ready):
        ready.append(single)
    elif single:
        min(ready, key=len).extend(single)
    return list(ready)


# a sum is at most twice `_SCALE` times all rows, which even for a billion rows has 44 bits
_BITS: Final = 64
_FIELD: Final = (1 << _BITS) - 1
_SCALE: Final = 5040
"""Divisible by all small numbers, so that most weights C / (C - 1) are integers."""

ValueCounts = Sequence[int]
"""One cluster's non-negative integers, one for each field; all clusters have the same fields."""


def resampled_sums(
    strata: Sequence[Sequence[ValueCounts]], *, resamples: int, seed: int
) -> Iterator[list[int]]:
    """For each resample, the sum of every field, in an arbitrary unit (only ratios have a meaning).

    In each stratum C - 1 of its C clusters are drawn with replacement and weighted C / (C - 1),
    which makes the variance unbiased for few clusters: J. N. K. Rao and C. F. J. Wu, JASA 83 (1988)
    231-241. A stratum of one cluster does not vary; collapse strata before.
    """
    fields = max((len(counts) for stratum in strata for counts in stratum), default=0)
    if not fields:
        return
    chance = Random(seed)
    packed = [
        ([_pack(counts) for counts in stratum], max(1, len(stratum) - 1))
        for stratum in strata
        if stratum
    ]
    # a cluster's fields are packed into one integer, with room for their sums: a resample of a
    # stratum is then one sum instead of one for each field
    weights = [round(_SCALE * len(clusters) / draws) for clusters, draws in packed]
    for _ in range(resamples):
        total = 0
        for (clusters, draws), weight in zip(packed, weights, strict=True):
            total += weight * sum(chance.choices(clusters, k=draws))
        yield _unpack(total, fields)


def percentile_interval(values: Sequence[float]) -> Interval:
    """Between the 2.5% and 97.5% quantiles, rounded outward to values that occur."""
    ordered = sorted(values)
    tail = (1 - LEVEL) / 2 * (len(ordered) - 1)
    return Interval(ordered[floor(tail)], ordered[ceil(len(ordered) - 1 - tail)])


def _pack(counts: ValueCounts) -> int:
    packed = 0
    for count in reversed(counts):
        packed = packed << _BITS | count
    return packed


def _unpack(packed: int, fields: int) -> list[int]:
    return [packed >> _BITS * field & _FIELD for field in range(fields)]
