"""Differences, coefficients and p values as words."""

from __future__ import annotations

from typing import Final

from engine.analysis.figures import RepeatAgreement
from engine.statistics.distributions import Interval
from engine.statistics.paired import ERROR_RATE


def points(difference: float) -> str:
    """`28 points`, without its sign."""
    size = round(abs(difference) * 100)
    if size == 0 and difference:
        return "less than a point"
    return "1 point" if size == 1 else f"{size} points"


def signed_points(difference: float) -> str:
    """Whole points with a sign: `+4`, `−12`, `0`."""
    size = round(abs(difference) * 100)
    return f"{'−' if difference < 0 else '+'}{size}" if size else "0"


def points_interval(low: float | None, high: float | None) -> str:
    """An interval of a difference in points: `[9 to 47]`."""
    return "" if low is None or high is None else f"[{_end(low)} to {_end(high)}]"


def _end(rate: float) -> str:
    """In whole points; an end that would round to 0 keeps a digit that shows its sign."""
    size = abs(rate) * 100
    points = f"{max(size, 0.001):.1g}" if 0 < size < 0.5 else f"{size:.0f}"
    return f"−{points}" if rate < 0 else points


def coefficient(value: float) -> str:
    """`0.97`, `−0.10`."""
    # plus 0, as −0.0 would keep its sign
    return f"{round(value, 2) + 0:.2f}".replace("-", "−")


def coefficient_interval(interval: Interval | None) -> str:
    """An interval of a coefficient: `[0.90 to 0.99]`."""
    if interval is None:
        return ""
    return f"[{coefficient(interval.low)} to {coefficient(interval.high)}]"


def with_ends(value: float, interval: Interval | None) -> str:
    """`0.97 [0.90 to 0.99]`, or the coefficient alone."""
    return f"{coefficient(value)} {coefficient_interval(interval)}".rstrip()


def p_value_words(p: float | None) -> str:
    """`p < .001`, `p = .012`; never rounded across `ERROR_RATE`."""
    if p is None:
        return ""
    if p > 0.999:
        return "p = 1"
    if p < 0.001:
        return "p < .001"
    digits = next(n for n in range(3, 20) if (round(p, n) < ERROR_RATE) is (p < ERROR_RATE))
    return f"p = {p:.{digits}f}".replace("0.", ".", 1)


def agreement_subject(concord: RepeatAgreement) -> str:
    """`samples of steadfast`, `judges strict, mild`."""
    if concord.between == "judges":
        return f"judges {concord.of}"
    return f"{concord.between} of {concord.of or 'all targets'}"


NO_ALPHA: Final = "no α, as only one answer was ever given"
"""Agreement beyond chance is not defined there."""
NO_COEFFICIENT: Final = (
    "—: α and κ are not defined where only one answer was ever given, κ not where things were "
    "answered unequally often."
)


def coefficients(concord: RepeatAgreement) -> list[str]:
    """`AC1 0.82`, `α 0.64`, or why there is none."""
    words = [] if concord.ac1 is None else [f"AC1 {coefficient(concord.ac1.value)}"]
    return [*words, NO_ALPHA if concord.alpha is None else f"α {coefficient(concord.alpha.value)}"]
