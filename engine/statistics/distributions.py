"""Student's t, the beta function, and intervals for a rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import exp, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import Final

LEVEL: Final = 0.95
"""The two-sided confidence level of an interval, unless a function says otherwise."""
Z95: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval at `LEVEL` unless said otherwise, in the unit of its figure."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def wilson(rate: float, n: float, critical: float = Z95) -> Interval:
    """Wilson's score interval for `rate` (0 to 1) over `n` observations.

    `n` may be fractional, as an effective sample size is; [0, 1] where it is not above 0.
    `critical` replaces z by a larger quantile of Student's t where the variance rests on few
    clusters.

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
        # at its ends Wilson's bound is exactly 0 or 1; rounding would miss that
        0.0 if rate <= 0 else max(0.0, middle - half),
        1.0 if rate >= 1 else min(1.0, middle + half),
    )


def clopper_pearson(rate: float, n: float) -> Interval:
    """The exact interval of C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404-413, for
    `rate` (0 to 1) over `n` observations; `n` may be a fraction, as an effective sample size is:
    E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193-201. [0, 1] where it is not
    above 0."""
    if n <= 0:
        return Interval(0.0, 1.0)
    true, false, tail = rate * n, (1 - rate) * n, (1 - LEVEL) / 2
    return Interval(
        0.0 if true <= 0 else _beta_quantile(tail, true, false + 1),
        1.0 if false <= 0 else _beta_quantile(1 - tail, true + 1, false),
    )


def _beta_quantile(probability: float, a: float, b: float) -> float:
    """By Newton's method, and by halves where that leaves the bracket."""
    low, high, value = 0.0, 1.0, a / (a + b)
    scale = lgamma(a + b) - lgamma(a) - lgamma(b)
    # 2^-50 is finer than any figure shows
    while high - low > 2**-50:
        off = incomplete_beta(value, a, b) - probability
        low, high = (value, high) if off < 0 else (low, value)
        density = exp(scale + (a - 1) * log(value) + (b - 1) * log1p(-value))
        step = off / density if density else 1.0
        if abs(step) < 2**-50:
            break
        value -= step
        if not low < value < high:
            value = (low + high) / 2
    return value


# Lentz's method may divide by 0; this replaces it without changing a digit
_TINY: Final = 1e-300
# a factor so near to 1 no longer changes the digits of a float, which are about 16
_PRECISION: Final = 1e-15


def student_cdf(value: float, freedom: float) -> float:
    """The probability that Student's t with `freedom` > 0 degrees is at most `value`.

    M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions (1964), eq. 26.7.1.
    """
    tail = incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return tail if value < 0 else 1 - tail


@cache
def student_quantile(probability: float, freedom: float) -> float:
    """The value that Student's t with `freedom` > 0 degrees stays below with `probability`,
    which lies strictly between 0 and 1. The inverse of `student_cdf`, by bisection."""
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    low, high = 0.0, max(2.0, NormalDist().inv_cdf(probability))
    while student_cdf(high, freedom) < probability:
        low, high = high, high * 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        # no floating-point number lies between: the loop would not end
        if middle in (low, high):
            break
        if student_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def critical(freedom: float) -> float:
    """The quantile that replaces z = 1.96 in a two-sided 95% interval whose variance was estimated
    with `freedom` degrees of freedom (taken as at least 1)."""
    return student_quantile(0.5 + LEVEL / 2, max(1.0, freedom))


def two_sided(value: float, freedom: float) -> float:
    """The two-sided p value of a t statistic."""
    return min(1.0, 2 * student_cdf(-abs(value), freedom))


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for 0 <= x <= 1 and a, b > 0.

    Abramowitz and Stegun, eq. 26.5.8, evaluated by W. J. Lentz's method (Applied Optics 15 (1976)
    668-671).
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # with logarithms, as the gamma function of a few hundred overflows a float
    scale = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    # the fraction converges quickly on this side; the other follows by symmetry, I_x(a, b) = 1 -
    # I_1-x(b, a)
    if x < (a + 1) / (a + b + 2):
        return scale * _beta_fraction(x, a, b) / a
    return 1 - scale * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for step in range(1, 10_000):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        value *= d * c
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        value *= d * c
        if abs(d * c - 1) < _PRECISION:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
