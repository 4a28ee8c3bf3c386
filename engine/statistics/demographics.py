"""Whether it matters who asks: differences between variants of the same base scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from engine.statistics.clusters import Cluster, Stratum
from engine.statistics.paired import Difference, mean_difference


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a base scenario with one target, over its samples."""

    metric: str
    base: str
    demographic: Mapping[str, str]
    passed: int
    scored: int


@dataclass(frozen=True, slots=True)
class Gap:
    """One value of an axis less another, all else being equal."""

    axis: str
    left: str
    right: str
    target: str | None
    """None for all targets pooled."""
    difference: Difference


def demographic_gaps(variants: Mapping[str, Sequence[Variant]]) -> list[Gap]:
    """By target, each pair of values on each axis; the pool of all targets first.

    A pair are two variants of one base scenario that differ on that axis alone; each counts with
    its rate over its samples. Pooled, the pairs of all targets on one base scenario are one
    cluster, since they share it.
    """
    by_target = {target: _differences(found) for target, found in variants.items()}
    pool: _ByValues = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for found in by_target.values():
        for values, strata in found.items():
            for metric, bases in strata.items():
                for base, listed in bases.items():
                    pool[values][metric][base] += listed
    return [
        *(_gaps(None, pool) if len(variants) > 1 else []),
        *(gap for target, found in by_target.items() for gap in _gaps(target, found)),
    ]


_ByValues = defaultdict[tuple[str, str, str], defaultdict[str, defaultdict[str, list[float]]]]
"""(axis, left, right) -> metric -> base scenario -> differences."""


def _differences(variants: Sequence[Variant]) -> _ByValues:
    matched: defaultdict[tuple[str, str, str, frozenset[tuple[str, str]]], dict[str, float]]
    matched = defaultdict(dict)
    for one in variants:
        if one.scored:
            items = frozenset(one.demographic.items())
            for axis, value in one.demographic.items():
                key = (axis, one.metric, one.base, items - {(axis, value)})
                matched[key][value] = one.passed / one.scored
    found: _ByValues = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for (axis, metric, base, _), rates in matched.items():
        for left, right in combinations(sorted(rates), 2):
            found[axis, left, right][metric][base].append(rates[left] - rates[right])
    return found


def _gaps(target: str | None, found: _ByValues) -> list[Gap]:
    return [
        Gap(*values, target, difference)
        for values, strata in sorted(found.items())
        if (difference := mean_difference(_strata(strata)))
    ]


def _strata(strata: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Stratum]:
    return [[Cluster.of(listed) for listed in bases.values()] for bases in strata.values()]
