"""Whether it matters who asks: differences between variants of the same base scenario."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from engine.statistics.clusters import Cluster, Stratum
from engine.statistics.fixed_effects import Fit, VariantScore
from engine.statistics.paired import Difference, mean_difference


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a base scenario with one target, over its samples."""

    metric: str
    base: str
    demographic: Mapping[str, str]
    passed: int
    scored: int

    @property
    def rate(self) -> float:
        return self.passed / self.scored


@dataclass(frozen=True, slots=True)
class DemographicGap:
    """One value of an axis less another, all else being equal."""

    axis: str
    left: str
    right: str
    target: str | None
    """None for all targets pooled."""
    difference: Difference
    rows: int
    """Conversations that it rests on."""


def demographic_gaps(variants: Mapping[str, Sequence[Variant]]) -> list[DemographicGap]:
    """By target, each pair of values on each axis; the pool of all targets first.

    Where the variants of every base scenario hold all combinations of its people, a pair are two
    that differ on that axis alone. Where not, pairs would leave most rows out, and all that is
    known is fitted: `Fit`. Each variant counts with its rate over its samples. Pooled, what all
    targets did on one base scenario is one cluster, since they share it.
    """
    find = _paired if all(map(_crossed, variants.values())) else _fitted
    return [
        *(find(None, variants) if len(variants) > 1 else []),
        *(gap for target, found in variants.items() for gap in find(target, {target: found})),
    ]


def _crossed(variants: Sequence[Variant]) -> bool:
    """Whether each base scenario has a variant, scored or not, of each combination of the values
    that it has on the axes."""
    people: dict[tuple[str, str], set[frozenset[tuple[str, str]]]] = defaultdict(set)
    for one in variants:
        people[one.metric, one.base].add(frozenset(one.demographic.items()))
    return all(
        len(found) == prod(Counter(axis for axis, _ in frozenset().union(*found)).values())
        for found in people.values()
    )


def _fitted(target: str | None, variants: Mapping[str, Sequence[Variant]]) -> list[DemographicGap]:
    axes = {axis for found in variants.values() for one in found for axis in one.demographic}
    rows = [
        VariantScore(
            one.metric,
            one.base,
            (played, one.metric, one.base),
            one.demographic,
            one.rate,
            one.scored,
        )
        for played, found in variants.items()
        for one in found
        if one.scored and one.demographic.keys() == axes
    ]
    fit = Fit(rows)
    return [
        DemographicGap(axis, left, right, target, *found)
        for axis in sorted(axes)
        for left, right in combinations(sorted({one.demographic[axis] for one in rows}), 2)
        if (found := fit.difference(axis, left, right))
    ]


def _paired(target: str | None, variants: Mapping[str, Sequence[Variant]]) -> list[DemographicGap]:
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
    variants: Sequence[Variant], found: _ByValues, rows: Counter[tuple[str, str, str]]
) -> None:
    matched: defaultdict[tuple[str, str, str, frozenset[tuple[str, str]]], dict[str, Variant]]
    matched = defaultdict(dict)
    for one in variants:
        if one.scored:
            items = frozenset(one.demographic.items())
            for axis, value in one.demographic.items():
                matched[axis, one.metric, one.base, items - {(axis, value)}][value] = one
    for (axis, metric, base, _), of in matched.items():
        for left, right in combinations(sorted(of), 2):
            found[axis, left, right][metric][base].append(of[left].rate - of[right].rate)
            rows[axis, left, right] += of[left].scored + of[right].scored


def _strata(strata: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Stratum]:
    return [[Cluster.of(listed) for listed in bases.values()] for bases in strata.values()]
