"""Numbers that can be published: pure functions over verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import NormalDist
from typing import Final

Z95: Final = NormalDist().inv_cdf(0.975)


def headline(votes: Iterable[bool | None]) -> bool | None:
    """What counts for a conversation: the majority of its verdicts; None for a tie or no vote."""
    given = [vote for vote in votes if vote is not None]
    balance = sum(given) * 2 - len(given)
    return None if balance == 0 else balance > 0


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval of a rate."""

    low: float
    high: float


def wilson(rate: float, n: float) -> Interval:
    """Wilson's score interval at 95 % for `rate` over `n` observations; `n` may be a fraction,
    as an effective sample size is.

    E. B. Wilson, JASA 22 (1927) 209-212; L. D. Brown, T. T. Cai and A. DasGupta, Statistical
    Science 16 (2001) 101-133, eq. 4.
    """
    if n <= 0:
        return Interval(0.0, 1.0)
    shrink = 1 + Z95**2 / n
    middle = (rate + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * sqrt(rate * (1 - rate) / n + Z95**2 / (4 * n**2))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def intraclass_correlation(cells: Iterable[Sequence[Sequence[bool]]]) -> float:
    """How alike the observations of one cluster are, from 0 (not at all) to 1.

    A cell holds clusters whose observations have one expected rate (a metric and a target); sums
    of squares and degrees of freedom are pooled over the cells, so that differences between cells
    do not count as likeness. The ANOVA estimator with m0 for unequal clusters, floored at 0:
    A. Donner and J. J. Koval, Biometrics 36 (1980) 19-25. 0 where it cannot be estimated.
    """
    between = within = sizes = 0.0
    between_df = within_df = 0
    for cell in cells:
        filled = [cluster for cluster in cell if cluster]
        count = sum(map(len, filled))
        if not count:
            continue
        mean = sum(map(sum, filled)) / count
        means = [sum(cluster) / len(cluster) for cluster in filled]
        between += sum(len(c) * (m - mean) ** 2 for c, m in zip(filled, means, strict=True))
        within += sum(len(c) * m * (1 - m) for c, m in zip(filled, means, strict=True))
        between_df += len(filled) - 1
        within_df += count - len(filled)
        sizes += count - sum(len(c) ** 2 for c in filled) / count
    if not between_df or not within_df:
        return 0.0
    between_square, within_square = between / between_df, within / within_df
    spread = between_square + (sizes / between_df - 1) * within_square
    return max(0.0, (between_square - within_square) / spread) if spread else 0.0


def effective_size(sizes: Sequence[int], correlation: float) -> float:
    """How many independent observations clusters of these sizes are worth: n / deff, with
    deff = 1 + (m' - 1) * correlation and m' the size-weighted mean size.

    L. Kish, Survey Sampling (1965), section 8.2.
    """
    count = sum(sizes)
    if count == 0:
        return 0.0
    weighted = sum(size**2 for size in sizes) / count
    return count / (1 + (weighted - 1) * correlation)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often repeated answers on the same thing agree."""

    items: int
    """Things that were answered at least twice."""
    percent: float
    """Of all pairs of answers on one thing, the share that agree; things weigh alike."""
    unanimous: float
    """The share of things on which all answers agree."""


def agreement(ratings: Iterable[Sequence[bool | None]]) -> Agreement | None:
    """Over things, each with its answers; None where nothing was answered twice."""
    shares: list[float] = []
    for answers in ratings:
        given = [answer for answer in answers if answer is not None]
        if len(given) > 1:
            pairs = list(combinations(given, 2))
            shares.append(sum(left == right for left, right in pairs) / len(pairs))
    if not shares:
        return None
    return Agreement(
        items=len(shares),
        percent=sum(shares) / len(shares),
        unanimous=sum(share == 1 for share in shares) / len(shares),
    )
