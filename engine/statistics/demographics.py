"""Demographic gaps: differences between variants of the same base scenario, by pairs of variants,
or by least squares where not every combination of values is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod, sqrt
from typing import Final

from engine.statistics.clusters import Cluster, Stratum, merged_strata, whole_freedom
from engine.statistics.paired import (
    FEWEST_PAIRS,
    Difference,
    drawn_error,
    expected_freedom,
    expected_variance,
    mean_difference,
)

_NOTHING: Final = 1e-9
_ROUNDING: Final = 1e-6
"""Differences that are only rounding: of a variance, and of sums over all rows."""


@dataclass(frozen=True, slots=True)
class VariantScore:
    """The score of one variant of a base scenario, from 0 to 1."""

    metric: str
    base: str
    within: Hashable
    """The group whose mean is subtracted: a base scenario with one target."""
    demographic: Mapping[str, str]
    """A value on each axis; all rows have the same axes."""
    value: float
    scored: int = 1
    """Conversations that it is the mean of."""


@dataclass(frozen=True, slots=True)
class ScenarioContribution:
    """One base scenario's contribution to a difference."""

    size: float
    """In pairs: one row of each value, equal on all other axes, is one pair."""
    total: float
    """Sum of differences: the sum of totals over the sum of sizes is the estimate."""


@dataclass(frozen=True, slots=True)
class Contrast:
    estimate: float
    strata: Mapping[str, Mapping[str, ScenarioContribution]]
    """metric -> base scenario; those without information are left out."""
    scored: int
    """Conversations of those base scenarios."""


@dataclass(frozen=True, slots=True)
class _CentredRow:
    """A row minus the mean of its group (`VariantScore.within`)."""

    metric: str
    base: str
    columns: Sequence[float]
    value: float
    scored: int


class DemographicFit:
    """Ordinary least squares of rates on fixed effects of base scenarios (with each target) and of
    the values of all axes: J. M. Wooldridge, Econometric Analysis of Cross Section and Panel Data
    (2010), section 10.5.
    """

    def __init__(self, rows: Sequence[VariantScore]) -> None:
        self._columns = _columns(rows)
        self._rows = _centred(rows, self._columns)
        width = len(self._columns)
        self._gram = [
            [sum(row.columns[i] * row.columns[j] for row in self._rows) for j in range(width)]
            for i in range(width)
        ]
        moments = [sum(row.columns[i] * row.value for row in self._rows) for i in range(width)]
        self._inverse, rank = _generalised_inverse(self._gram)
        self._effects = [_dot(row, moments) for row in self._inverse]
        self._residuals = [row.value - _dot(row.columns, self._effects) for row in self._rows]
        # one degree for each group's mean, and one for each independent column
        self._freedom = len(self._rows) - len({row.within for row in rows}) - rank

    def difference(self, axis: str, left: str, right: str) -> tuple[Difference, int] | None:
        """One value minus another with all other axes held constant, and the number of
        conversations that it rests on; None where it is confounded with base scenarios or other
        axes.

        The error is clustered by base scenario within the metric, and moderated as in
        `mean_difference`.
        """
        contrast = self.contrast(axis, left, right)
        if contrast is None:
            return None
        ready = list(merged_strata([list(bases.values()) for bases in contrast.strata.values()]))
        clusters = sum(map(len, ready))
        pairs = sum(cluster.size for stratum in ready for cluster in stratum)
        spread = drawn_error(ready, contrast.estimate, pairs)
        if spread is None or self._freedom < 1:
            return Difference(contrast.estimate, None, 0, round(pairs), clusters), contrast.scored
        # of a difference between two rows, hence twice that of one
        variance = 2 * _dot(self._residuals, self._residuals) / self._freedom
        expected = expected_variance(
            (variance + contrast.estimate**2) * pairs, pairs, contrast.estimate
        )
        if variance > _NOTHING:
            # the design effect as observed
            alike = max(1.0, spread.error**2 * pairs / variance)
            expected *= alike
        else:
            alike = max(1.0, pairs / clusters)
        prior = expected_freedom(one.size for stratum in ready for one in stratum)
        freedom = spread.freedom + prior
        moderated = (spread.freedom * spread.error**2 + prior * expected) / freedom
        error = sqrt(max(moderated, FEWEST_PAIRS * (alike / pairs) ** 2))
        return Difference(
            contrast.estimate, error, whole_freedom(freedom), round(pairs), clusters
        ), contrast.scored

    def contrast(self, axis: str, left: str, right: str) -> Contrast | None:
        """Each base scenario's contribution to one value minus another; None where it cannot be
        estimated.

        With x the indicator of left minus right, less its projection on base scenarios and the
        other axes, and e the residuals, the estimate is sum(x y) / sum(x x), and base scenarios
        vary by their sum(x e): K.-Y. Liang and S. L. Zeger, Biometrika 73 (1986) 13-22.
        """
        wanted = [
            float((axis, left) == column) - float((axis, right) == column)
            for column in self._columns
        ]
        # the difference can be estimated if it is in the row space of the data: then solving for it
        # and multiplying back returns it
        weights = [_dot(row, wanted) for row in self._inverse]
        reached = [_dot(row, weights) for row in self._gram]
        information = _dot(wanted, weights)
        if information < _NOTHING or max(map(_difference_of, reached, wanted)) > _ROUNDING:
            return None
        estimate = _dot(wanted, self._effects)
        sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for row, residual in zip(self._rows, self._residuals, strict=True):
            x = _dot(row.columns, weights) / information
            of_base = sums[row.metric, row.base]
            of_base[0] += row.scored
            # doubled, so that two rows that differ only in this value are one pair
            of_base[1] += 2 * x * x
            of_base[2] += 2 * x * residual
        strata: dict[str, dict[str, ScenarioContribution]] = defaultdict(dict)
        scored = 0
        for (metric, base), (count, size, score) in sums.items():
            if size > _NOTHING:
                strata[metric][base] = ScenarioContribution(size, score + estimate * size)
                scored += round(count)
        return Contrast(estimate, strata, scored)


def _difference_of(left: float, right: float) -> float:
    return abs(left - right)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _columns(rows: Sequence[VariantScore]) -> list[tuple[str, str]]:
    """Each value of each axis but the first, which is the reference."""
    values: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for axis, value in row.demographic.items():
            values[axis].add(value)
    return [(axis, value) for axis in sorted(values) for value in sorted(values[axis])[1:]]


def _centred(rows: Sequence[VariantScore], columns: Sequence[tuple[str, str]]) -> list[_CentredRow]:
    groups: dict[Hashable, list[VariantScore]] = defaultdict(list)
    for row in rows:
        groups[row.within].append(row)
    centred: list[_CentredRow] = []
    for group in groups.values():
        codes = [
            [float(variant.demographic[axis] == value) for axis, value in columns]
            for variant in group
        ]
        means = [sum(column) / len(group) for column in zip(*codes, strict=True)]
        mean = sum(variant.value for variant in group) / len(group)
        centred += [
            _CentredRow(
                row.metric,
                row.base,
                # centred, so that base scenarios need no columns (Frisch and Waugh)
                [code - middle for code, middle in zip(coded, means, strict=True)],
                row.value - mean,
                row.scored,
            )
            for row, coded in zip(group, codes, strict=True)
        ]
    return centred


def _generalised_inverse(matrix: Sequence[Sequence[float]]) -> tuple[list[list[float]], int]:
    """A generalised inverse of a symmetric matrix, without its linearly dependent columns, and its
    rank. J. H. Goodnight, The American Statistician 33 (1979) 149-158.
    """
    swept = [list(row) for row in matrix]
    width = len(swept)
    pivots: set[int] = set()
    for pivot in range(width):
        value = swept[pivot][pivot]
        # what is left of the column after the others: only rounding if it depends on them
        if value <= 1e-8 * max(1.0, matrix[pivot][pivot]):
            continue
        pivots.add(pivot)
        row = [number / value for number in swept[pivot]]
        for other in range(width):
            if other != pivot:
                factor = swept[other][pivot]
                swept[other] = [a - factor * b for a, b in zip(swept[other], row, strict=True)]
                swept[other][pivot] = -factor / value
        swept[pivot] = row
        swept[pivot][pivot] = 1 / value
    return [
        [swept[i][j] if i in pivots and j in pivots else 0.0 for j in range(width)]
        for i in range(width)
    ], len(pivots)


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a base scenario with one target, summed over its samples."""

    metric: str
    base: str
    demographic: Mapping[str, str]
    passed: int
    scored: int
    place: tuple[str, str] | None = None
    """The stratum and cluster of its base scenario, where they are not `metric` and `base`."""

    @property
    def cluster(self) -> tuple[str, str]:
        return self.place or (self.metric, self.base)

    @property
    def rate(self) -> float:
        return self.passed / self.scored


@dataclass(frozen=True, slots=True)
class DemographicGap:
    """One value of an axis minus another, all else being equal."""

    axis: str
    left: str
    right: str
    target: str | None
    """None for all targets pooled."""
    difference: Difference
    rows: int
    """Conversations that it rests on."""


def demographic_gaps(variants: Mapping[str, Sequence[Variant]]) -> list[DemographicGap]:
    """The gap of each pair of values on each axis, for all targets pooled, then for each target.

    Where every base scenario has variants of all combinations of its values, variants that differ
    on one axis alone are paired. Otherwise pairs would leave most rows out, and all rows are
    fitted: `DemographicFit`. Each variant counts with its rate over its samples. Pooled, the rows
    of all targets on one base scenario are one cluster, since they share it.
    """
    find = _paired_gaps if all(map(_is_crossed, variants.values())) else _fitted_gaps
    return [
        *(find(None, variants) if len(variants) > 1 else []),
        *(
            gap
            for target, of_target in variants.items()
            for gap in find(target, {target: of_target})
        ),
    ]


def _is_crossed(variants: Sequence[Variant]) -> bool:
    """Whether each base scenario has a variant, scored or not, for each combination of the values
    that occur in it."""
    people: dict[tuple[str, str], set[frozenset[tuple[str, str]]]] = defaultdict(set)
    for variant in variants:
        # also unscored ones: a failed conversation does not make the design uncrossed
        people[variant.metric, variant.base].add(frozenset(variant.demographic.items()))
    return all(
        len(groups) == prod(Counter(axis for axis, _ in frozenset().union(*groups)).values())
        for groups in people.values()
    )


def _fitted_gaps(
    target: str | None, variants: Mapping[str, Sequence[Variant]]
) -> list[DemographicGap]:
    axes = {
        axis
        for of_target in variants.values()
        for variant in of_target
        for axis in variant.demographic
    }
    rows = [
        VariantScore(
            *variant.cluster,
            (played, variant.metric, variant.base),
            variant.demographic,
            variant.rate,
            variant.scored,
        )
        for played, of_target in variants.items()
        for variant in of_target
        if variant.scored and variant.demographic.keys() == axes
    ]
    fit = DemographicFit(rows)
    return [
        DemographicGap(axis, left, right, target, *difference)
        for axis in sorted(axes)
        for left, right in combinations(sorted({row.demographic[axis] for row in rows}), 2)
        if (difference := fit.difference(axis, left, right))
    ]


def _paired_gaps(
    target: str | None, variants: Mapping[str, Sequence[Variant]]
) -> list[DemographicGap]:
    pool: _ByValues = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    rows = Counter[tuple[str, str, str]]()
    for listed in variants.values():
        _add_differences(listed, pool, rows)
    return [
        DemographicGap(*values, target, difference, rows[values])
        for values, strata in sorted(pool.items())
        if (difference := mean_difference(_strata(strata)))
    ]


_ByValues = defaultdict[tuple[str, str, str], defaultdict[str, defaultdict[str, list[float]]]]
"""(axis, left, right) -> metric -> base scenario -> differences."""


def _add_differences(
    variants: Sequence[Variant], differences: _ByValues, rows: Counter[tuple[str, str, str]]
) -> None:
    matched: defaultdict[tuple[str, str, str, frozenset[tuple[str, str]]], dict[str, Variant]]
    matched = defaultdict(dict)
    for variant in variants:
        if variant.scored:
            items = frozenset(variant.demographic.items())
            for axis, value in variant.demographic.items():
                matched[axis, variant.metric, variant.base, items - {(axis, value)}][value] = (
                    variant
                )
    for (axis, *_), of in matched.items():
        for left, right in combinations(sorted(of), 2):
            stratum, cluster = of[left].cluster
            differences[axis, left, right][stratum][cluster].append(of[left].rate - of[right].rate)
            rows[axis, left, right] += of[left].scored + of[right].scored


def _strata(strata: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Stratum]:
    return [[Cluster.of(listed) for listed in bases.values()] for bases in strata.values()]
