"""Differences within base scenarios whose variants do not hold every combination of people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.statistics.clusters import put_together
from engine.statistics.paired import Difference, drawn_error, expected_variance, moderated

_NOTHING: Final = 1e-9
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class VariantScore:
    """What one variant of a base scenario scored, from 0 to 1."""

    metric: str
    base: str
    within: Hashable
    """Whose mean is taken out: the base scenario, with one target."""
    demographic: Mapping[str, str]
    """A value on each axis; on the same axes in all rows."""
    value: float
    scored: int = 1
    """Conversations that it is the mean of."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What one base scenario says of a difference."""

    size: float
    """In pairs: one row of each value, with nothing else to tell apart, is one."""
    total: float
    """Of differences: total over size, of all base scenarios together, is the estimate."""


@dataclass(frozen=True, slots=True)
class Contrast:
    estimate: float
    strata: Mapping[str, Mapping[str, Worth]]
    """metric -> base scenario; those that say nothing are left out."""
    scored: int
    """Conversations of those base scenarios."""


@dataclass(frozen=True, slots=True)
class _Centred:
    """A row less the mean of what it is within."""

    metric: str
    base: str
    columns: Sequence[float]
    value: float
    scored: int


class Fit:
    """Rates by an effect of each base scenario (with each target) and of each value of every axis,
    all together, by ordinary least squares: J. M. Wooldridge, Econometric Analysis of Cross Section
    and Panel Data (2010), section 10.5.
    """

    def __init__(self, rows: Sequence[VariantScore]) -> None:
        self._columns = _columns(rows)
        self._rows = _centred(rows, self._columns)
        width = len(self._columns)
        self._gram = [
            [sum(one.columns[i] * one.columns[j] for one in self._rows) for j in range(width)]
            for i in range(width)
        ]
        moments = [sum(one.columns[i] * one.value for one in self._rows) for i in range(width)]
        self._inverse, rank = _swept(self._gram)
        self._effects = [_dot(row, moments) for row in self._inverse]
        self._residuals = [one.value - _dot(one.columns, self._effects) for one in self._rows]
        self._freedom = len(self._rows) - len({one.within for one in rows}) - rank

    def difference(self, axis: str, left: str, right: str) -> tuple[Difference, int] | None:
        """One value less another with all other axes held, and on how many conversations it rests;
        None where the rows cannot tell it from a base scenario or from other axes.

        The error is clustered by base scenario within the metric, and moderated as that of
        `mean_difference`.
        """
        found = self.contrast(axis, left, right)
        if found is None:
            return None
        ready = list(put_together([list(bases.values()) for bases in found.strata.values()]))
        clusters = sum(map(len, ready))
        pairs = sum(one.size for stratum in ready for one in stratum)
        spread = drawn_error(ready, found.estimate, pairs)
        if spread is None or self._freedom < 1:
            return Difference(found.estimate, None, 0, round(pairs), clusters), found.scored
        variance = 2 * _dot(self._residuals, self._residuals) / self._freedom
        expected = expected_variance((variance + found.estimate**2) * pairs, pairs, found.estimate)
        if variance > _NOTHING:
            alike = max(1.0, spread.error**2 * pairs / variance)
            expected *= (1 + alike) / 2
        else:
            alike = max(1.0, pairs / clusters)
        error = moderated(spread, expected, pairs / alike)
        return Difference(
            found.estimate, error, spread.freedom, round(pairs), clusters
        ), found.scored

    def contrast(self, axis: str, left: str, right: str) -> Contrast | None:
        """What each base scenario says of one value less another.

        With x what is left of left less right once the base scenario and the other axes are taken
        out and e the residuals, the estimate is sum(x y) / sum(x x), and base scenarios vary by
        their sum(x e): K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13-22.
        """
        wanted = [
            float((axis, left) == column) - float((axis, right) == column)
            for column in self._columns
        ]
        weights = [_dot(row, wanted) for row in self._inverse]
        reached = [_dot(row, weights) for row in self._gram]
        information = _dot(wanted, weights)
        if information < _NOTHING or max(map(_apart, reached, wanted)) > _ROUNDING:
            return None
        estimate = _dot(wanted, self._effects)
        sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for one, residual in zip(self._rows, self._residuals, strict=True):
            x = _dot(one.columns, weights) / information
            found = sums[one.metric, one.base]
            found[0] += one.scored
            found[1] += 2 * x * x
            found[2] += 2 * x * residual
        strata: dict[str, dict[str, Worth]] = defaultdict(dict)
        scored = 0
        for (metric, base), (count, size, score) in sums.items():
            if size > _NOTHING:
                strata[metric][base] = Worth(size, score + estimate * size)
                scored += round(count)
        return Contrast(estimate, strata, scored)


def _apart(left: float, right: float) -> float:
    return abs(left - right)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _columns(rows: Sequence[VariantScore]) -> list[tuple[str, str]]:
    """Each value of each axis but the first, which the others are held against."""
    values: dict[str, set[str]] = defaultdict(set)
    for one in rows:
        for axis, value in one.demographic.items():
            values[axis].add(value)
    return [(axis, value) for axis in sorted(values) for value in sorted(values[axis])[1:]]


def _centred(rows: Sequence[VariantScore], columns: Sequence[tuple[str, str]]) -> list[_Centred]:
    groups: dict[Hashable, list[VariantScore]] = defaultdict(list)
    for one in rows:
        groups[one.within].append(one)
    found: list[_Centred] = []
    for group in groups.values():
        codes = [
            [float(one.demographic[axis] == value) for axis, value in columns] for one in group
        ]
        means = [sum(column) / len(group) for column in zip(*codes, strict=True)]
        mean = sum(one.value for one in group) / len(group)
        found += [
            _Centred(
                one.metric,
                one.base,
                [code - middle for code, middle in zip(coded, means, strict=True)],
                one.value - mean,
                one.scored,
            )
            for one, coded in zip(group, codes, strict=True)
        ]
    return found


def _swept(matrix: Sequence[Sequence[float]]) -> tuple[list[list[float]], int]:
    """A generalised inverse of a symmetric matrix, and its rank: columns that others make up are
    left out. J. H. Goodnight, The American Statistician 33 (1979) 149-158.
    """
    swept = [list(row) for row in matrix]
    width = len(swept)
    kept: set[int] = set()
    for pivot in range(width):
        value = swept[pivot][pivot]
        if value <= 1e-8 * max(1.0, matrix[pivot][pivot]):
            continue
        kept.add(pivot)
        row = [one / value for one in swept[pivot]]
        for other in range(width):
            if other != pivot:
                factor = swept[other][pivot]
                swept[other] = [a - factor * b for a, b in zip(swept[other], row, strict=True)]
                swept[other][pivot] = -factor / value
        swept[pivot] = row
        swept[pivot][pivot] = 1 / value
    return [
        [swept[i][j] if i in kept and j in kept else 0.0 for j in range(width)]
        for i in range(width)
    ], len(kept)
