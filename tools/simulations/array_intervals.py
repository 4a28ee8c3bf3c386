"""Intervals of many worlds at once, on arrays, as `engine.statistics` works them out for one."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from engine.statistics import agreement, rates
from engine.statistics.distributions import critical

Array = NDArray[Any]


class Ends(NamedTuple):
    """Of an interval in each world."""

    low: Array
    high: Array


def wilson(rate: Array, n: Array, quantile: float) -> Ends:
    square, n = quantile**2, np.maximum(n, 1e-12)
    shrink = 1 + square / n
    middle = (rate + square / (2 * n)) / shrink
    half = quantile / shrink * np.sqrt(rate * (1 - rate) / n + square / (4 * n**2))
    low = np.where(rate <= 0, 0.0, np.maximum(0.0, middle - half))
    return Ends(low, np.where(rate >= 1, 1.0, np.minimum(1.0, middle + half)))


class _Sums(NamedTuple):
    """Sums over the clusters of each stratum; those that depend on what passed are by world and
    stratum."""

    clusters: int
    rows: Array
    rows_squared: Array
    total: Array
    squares: Array
    crossed: Array
    explained: Array

    @classmethod
    def of(cls, sizes: Array, totals: Array) -> Self:
        """`sizes` are by stratum and cluster, `totals` by world, stratum and cluster."""
        squares = totals**2
        return cls(
            sizes.shape[1],
            sizes.sum(1),
            (sizes**2).sum(1),
            totals.sum(2),
            squares.sum(2),
            (totals * sizes).sum(2),
            (squares / sizes).sum(2),
        )

    @property
    def mean(self) -> Array:
        return np.asarray(self.total / self.rows)

    def correlation(self, squared: Array | None = None) -> Array:
        """`intraclass_correlation` of each world, NaN where there is none; `squared` is the sum of
        the squared values of each stratum, where they are not 0 and 1."""
        between_df = len(self.rows) * (self.clusters - 1)
        within_df = self.rows.sum() - len(self.rows) * self.clusters
        between = np.maximum(0, self.explained - self.rows * self.mean**2).sum(1) / between_df
        squared = self.total if squared is None else squared
        within = np.maximum(0, squared - self.explained).sum(1) / max(1, within_df)
        size = (self.rows - self.rows_squared / self.rows).sum() / between_df
        spread = between + (size - 1) * within
        known = (spread >= 1e-12) & (within_df > 0)
        found = np.maximum(0, (between - within) / np.where(known, spread, 1))
        return np.where(known, found, np.nan)


class _Estimated(NamedTuple):
    rate: Array
    effective: Array
    freedom: int

    @property
    def ends(self) -> Ends:
        return wilson(self.rate, self.effective, critical(self.freedom))


def _estimated(sums: _Sums, correlation: Array) -> _Estimated:
    """`rates._estimated`."""
    rows, strata = sums.rows.sum(), len(sums.rows)
    own = float((sums.rows**2 / sums.rows_squared - 1).sum())
    rate = sums.total.sum(1) / rows
    seen = np.where(np.isnan(correlation), 0, own)
    expected = (
        seen * np.nan_to_num(correlation) + rates._LIKENESS_FREEDOM * rates._EXPECTED_LIKENESS
    )
    effective = _effective_within(sums, rate, expected / (seen + rates._LIKENESS_FREEDOM))
    freedom = max(1, floor(own + max(own, rates._EXPECTED_FREEDOM) + 1e-9))
    about = sums.squares - 2 * sums.mean * sums.crossed + sums.mean**2 * sums.rows_squared
    spread = np.maximum(0, about).sum(1) * sums.clusters / (sums.clusters - 1) / rows**2
    weight = rates._EXPECTED_FREEDOM * strata
    moderated = (own * spread + weight * rate * (1 - rate) / effective) / (own + weight)
    variance = np.maximum(moderated, spread) + rates._ASTRAY * ((rate - 0.5) / (own + strata)) ** 2
    most = _effective_within(sums, rate, np.zeros(len(rate)))
    drawn = np.minimum(rate * (1 - rate) / variance, most)
    return _Estimated(rate, np.where(_between(rate), drawn, effective), freedom)


def _between(rate: Array) -> Array:
    return np.asarray((rate > 0) & (rate < 1))


def _effective_within(sums: _Sums, rate: Array, correlation: Array) -> Array:
    rows, others = sums.rows.sum(), sums.rows_squared / sums.rows - 1
    effective = rows / (1 + (sums.rows * others).sum() / rows * correlation)
    worth = sums.rows / (1 + others * correlation[:, None])
    drawn = (worth * sums.mean + rate[:, None]) / (worth + 1)
    left = (sums.rows * drawn * (1 - drawn)).sum(1) / rows
    between = _between(rate)
    share = left / np.where(between, rate * (1 - rate), 1)
    drawn_in = effective / np.where(between, np.minimum(1.0, share), 1.0)
    return np.asarray(np.where(between, drawn_in, effective))


def rate_ends(sizes: Array, totals: Array, correlation: Array) -> tuple[Ends, Array, Array]:
    """`rates.benchmark_rate`: the interval, the rate and the effective rows. `sizes` are by metric
    and base scenario, `totals` by world, metric and base scenario."""
    whole = _estimated(_Sums.of(sizes, totals), correlation)
    below = _bound(sizes, totals, correlation)
    above = 1 - _bound(sizes, sizes - totals, correlation)
    low, high = whole.ends
    return Ends(np.minimum(low, below), np.maximum(high, above)), whole.rate, whole.effective


def _bound(sizes: Array, totals: Array, correlation: Array) -> Array:
    """`rates._bound`."""
    found = np.ones(len(totals))
    alike = correlation.copy()
    tables = (
        _worst_first(sizes, totals) if len(sizes) > 1 else _concentrated(sizes[0], totals[:, 0])
    )
    for tried, sums in tables:
        own = np.nan_to_num(sums.correlation())
        alike[tried] = np.where(np.isnan(alike[tried]), np.nan, np.fmax(alike[tried], own))
        found[tried] = np.minimum(found[tried], _estimated(sums, alike[tried]).ends.low)
    passing = _Sums.of(sizes, np.broadcast_to(sizes.astype(float), totals.shape))
    unknown = _estimated(passing, np.full(len(totals), np.nan)).ends.low
    some = (totals < sizes).any((1, 2))
    return np.where(some, np.minimum(found, unknown), found)


Tables = Iterator[tuple[Array, _Sums]]
"""One table of each of these worlds, and their places."""


def _worst_first(sizes: Array, totals: Array) -> Tables:
    """`rates._worst_first`."""
    worlds = len(totals)
    flat = totals.reshape(worlds, -1)
    worst = np.argsort(flat / sizes.ravel(), axis=1, kind="stable")[:, : rates._WORST]
    every = np.arange(worlds)
    kept = np.broadcast_to(sizes.astype(float), totals.shape).copy()
    tables = [_Sums.of(sizes, kept)]
    for place in worst.T:
        kept.reshape(worlds, -1)[every, place] = flat[every, place]
        tables.append(_Sums.of(sizes, kept))
    yield from ((every, one) for one in reversed(tables))


def _concentrated(sizes: Array, totals: Array) -> Tables:
    """`rates._concentrated`."""
    rows, squared, equal = sizes.sum(), (sizes**2).sum(), len(set(sizes)) == 1
    order = np.argsort(totals / sizes, axis=1, kind="stable")
    size = np.take_along_axis(np.broadcast_to(sizes, totals.shape), order, 1)
    failures = size - np.take_along_axis(totals, order, 1)
    whole = failures.cumsum(1)
    every = whole[:, -1]
    for failed in range(int(every.max()), -1, -1):
        whole_ones = (whole[:, : rates._WORST] == failed).any(1)
        wanted = (failed <= 1) | (failed >= every - rates._FINE) | whole_ones
        tried = np.flatnonzero(wanted & (failed <= every))
        if not len(tried):
            continue
        rate = failed / rows
        most, of_size = failures[tried], size[tried]
        explained = _filled(failed, rate, most, of_size, equal=equal)[0]
        if not equal:
            furthest = np.argsort(2 * rate * of_size - most, axis=1, kind="stable")
            most, of_size = (np.take_along_axis(one, furthest, 1) for one in (most, of_size))
        about = _filled(failed, rate, most, of_size, equal=equal)[1]
        about = np.maximum(0, about + rate**2 * squared)
        between, mean = np.maximum(0, explained - failed * rate), 1 - rate
        # such sums that the residuals of `_estimated` and the squares of `correlation` are these
        passed, nothing = np.full(len(tried), float(rows - failed)), np.zeros(len(tried))
        parts = (passed, about - mean**2 * squared, nothing, between + rows * mean**2)
        yield (
            tried,
            _Sums(
                len(sizes), np.array([rows]), np.array([squared]), *(one[:, None] for one in parts)
            ),
        )


def _filled(
    failed: int, rate: float, most: Array, size: Array, *, equal: bool
) -> tuple[Array, Array]:
    """What so many failures explain at most, and their squared distances."""
    kept = np.clip(failed - (most.cumsum(1) - most), 0, most)
    of = kept if equal else most
    return (kept * of / size).sum(1), (kept * (of - 2 * rate * size)).sum(1)


def new_metrics_ends(sizes: Array, totals: Array, correlation: Array) -> Ends:
    """`rates.new_metrics_rate`, for metrics of equally many rows."""
    _, rate, effective = rate_ends(sizes, totals, correlation)
    rows, count = sizes.sum(1), len(sizes)
    left = ((totals.sum(2) - rate[:, None] * rows) ** 2).sum(1) * count / (count - 1)
    variance = left / rows.sum() ** 2 + rates._ASTRAY_METRIC * ((rate - 0.5) / count) ** 2
    binomial = rate * (1 - rate)
    within = 2 * effective
    drawn = binomial / np.maximum(np.maximum(variance, binomial / within), 1e-300)
    worth = np.where(_between(rate), drawn, np.minimum(within, count))
    return wilson(rate, worth, critical(count - 1))


def correlation(sizes: Array, totals: Array, squares: Array | None = None) -> Array:
    """Of each world. `sizes` are by cell (a metric and a target) and base scenario, `totals` by
    world as well, and so are the squared values, where these are not 0 and 1."""
    return _Sums.of(sizes, totals).correlation(None if squares is None else squares.sum(2))


_AGREED: Final = 1e-9


def agreement_ends(passed: Array, answers: int) -> dict[str, Ends]:
    """`agreement.agreement` by world, base scenario and variant, each variant answered so many
    times: percent, AC1 and alpha, NaN where there is none."""
    failed, pairs = answers - passed, answers * (answers - 1) / 2
    parts = [
        np.broadcast_to(one, passed.shape).sum(2)
        for one in (np.array(1.0), passed, 1 - passed * failed / pairs)
    ]
    # the whole comes first, then what is left without each base scenario
    things, passes, alike = (
        np.concatenate([of.sum(1)[:, None], of.sum(1)[:, None] - of], axis=1) for of in parts
    )
    clusters, percent, given = passed.shape[1], alike / things, things * answers
    share = passes / given
    ac1_expected = 2 * share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        ac1 = (percent - ac1_expected) / (1 - ac1_expected)
        differ = 2 * passes * (given - passes) / (given * (given - 1))
        alpha = np.where(differ > 0, 1 - (1 - percent) / differ, np.nan)
    error = _jackknifed(percent[:, 1:])
    own = percent[:, 0]
    effective = np.where(error > _AGREED, own * (1 - own) / np.maximum(error, _AGREED) ** 2, 0)
    effective = np.where(effective > 0, effective, clusters)
    corrected = ((ac1, ac1_expected, agreement._AC1), (alpha, 1 - differ, agreement._ALPHA))
    first, second = (
        _corrected(value, expected[:, 0], percent[:, 0], things[:, 0], pairs, limit)
        for value, expected, limit in corrected
    )
    ends = wilson(own, effective, critical(clusters - 1))
    return {"agreement": ends, "AC1": first, "alpha": second}


def _corrected(
    values: Array,
    by_chance: Array,
    percent: Array,
    things: Array,
    pairs: float,
    limit: agreement._IntervalLimit,
) -> Ends:
    """`agreement._chance_corrected`; the first of `values` is that of all base scenarios."""
    value, clusters = values[:, 0], values.shape[1] - 1
    counted = min(agreement._MOST_PAIRS, pairs)
    worth = counted / (1 + (counted - 1) * np.sqrt(np.maximum(0, value))) if limit.by_pairs else 1
    share = (1 + value) / 2
    effective = limit.most * worth * things * (1 - by_chance) * 2 * share / np.maximum(0.5, percent)
    error = np.nan_to_num(_jackknifed(values[:, 1:])) / 2
    drawn = share * (1 - share) / np.maximum(error, _AGREED) ** 2
    effective = np.where(error > _AGREED, np.minimum(effective, drawn), effective)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = wilson(share, effective, critical(limit.freedom * (clusters - 1)))
    known = ~np.isnan(value)
    return Ends(np.where(known, 2 * low - 1, np.nan), np.where(known, 2 * high - 1, np.nan))


def _jackknifed(values: Array) -> Array:
    """`clusters.jackknife_error`."""
    count = values.shape[1]
    left = values - values.mean(1, keepdims=True)
    return np.asarray(np.sqrt((count - 1) / count * (left**2).sum(1)))
