"""Rates and differences of several benchmarks put into one, each benchmark weighing the same.

What is said of these benchmarks' scenarios rests on the intervals and errors of each benchmark.
What is said of benchmarks like these rests on how far the benchmarks differ: there, each of them is
one cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, hypot, sqrt
from typing import Final

from engine.statistics.clusters import Cluster, clustered_error
from engine.statistics.distributions import Interval, critical, wilson
from engine.statistics.paired import Difference

ENOUGH_BENCHMARKS: Final = 5
"""From how many on anything is said of others like them: fewer hardly tell how far benchmarks
differ."""


def mean_interval(rates: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Of the mean of rates that are independent of each other, each known by its own interval; at
    least one. It lies within 0 and 1 as they do.

    How far the mean may be off on either side is what each rate may be off there, squared and
    added: G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693-1702, section 2.
    """
    mean, count = sum(rates) / len(rates), len(rates)
    pairs = list(zip(rates, intervals, strict=True))
    below = hypot(*(rate - one.low for rate, one in pairs)) / count
    above = hypot(*(one.high - rate for rate, one in pairs)) / count
    return Interval(mean - below, mean + above)


def like_these_interval(rates: Sequence[float], effective: float) -> Interval | None:
    """Of the mean rate of all benchmarks like these, as if they were drawn from many; None for
    fewer than `ENOUGH_BENCHMARKS`.

    `effective` is how many independent rows the mean is worth for the scenarios of these alone.
    The variance is that of benchmarks about their mean (`clustered_error`), and at least what their
    scenarios account for; it is put into Wilson's interval as `new_metrics_rate` has it.
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
    """Their mean over these benchmarks; None where there is none that has an error.

    Those without one (fewer than two scenarios in common) are left out. Degrees of freedom: F. E.
    Satterthwaite, Biometrics Bulletin 2 (1946) 110-114.
    """
    known = [(one, one.error) for one in differences if one.error is not None]
    if not known:
        return None
    variances = [error**2 for _, error in known]
    shares = sum(v**2 / one.freedom for (one, _), v in zip(known, variances, strict=True))
    return Difference(
        estimate=sum(one.estimate for one, _ in known) / len(known),
        error=sqrt(sum(variances)) / len(known),
        freedom=max(1, floor(sum(variances) ** 2 / shares + 1e-9)),
        pairs=sum(one.pairs for one, _ in known),
        clusters=sum(one.clusters for one, _ in known),
    )


def like_these(differences: Sequence[Difference]) -> Difference | None:
    """The mean difference over all benchmarks like these, each being one cluster; None for fewer
    than `ENOUGH_BENCHMARKS` that have an error.

    The error is that of the benchmarks' differences about their mean, with Student's t on one
    degree less than there are benchmarks; it is at least that of their mean over these alone
    (`mean_of`), so that benchmarks that happen to agree do not pretend to be all alike.
    """
    known = [one for one in differences if one.error is not None]
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
