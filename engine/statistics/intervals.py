"""What an interval is, and the one for a rate that stays inside 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Final

LEVEL: Final = 0.95
"""Of every interval of this package, two-sided."""
Z95: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval, in the unit of what it is about."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def wilson(rate: float, n: float, critical: float = Z95) -> Interval:
    """Wilson's score interval for `rate` (0 to 1) over `n` observations.

    `n` may be a fraction, as an effective sample size is; [0, 1] where it is not above 0.
    `critical` is the quantile that takes the place of z, a larger one of Student's t where the
    variance rests on few clusters.

    E. B. Wilson, JASA 22 (1927) 209-212; L. D. Brown, T. T. Cai and A. DasGupta, Statistical
    Science 16 (2001) 101-133, eq. 4; with effective n and t: N. Dean and M. Pagano, Journal of
    Survey Statistics and Methodology 3 (2015) 484-503.
    """
    if n <= 0:
        return Interval(0.0, 1.0)
    square = critical**2
    shrink = 1 + square / n
    middle = (rate + square / (2 * n)) / shrink
    half = critical / shrink * sqrt(rate * (1 - rate) / n + square / (4 * n**2))
    return Interval(
        0.0 if rate <= 0 else max(0.0, middle - half),
        1.0 if rate >= 1 else min(1.0, middle + half),
    )
