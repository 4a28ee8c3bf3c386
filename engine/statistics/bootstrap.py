"""A seeded bootstrap over clusters: a check on the formulas, and what ranks have instead of one.

Sums of clusters are drawn, never rows. All the counts of a cluster sit side by side in one whole
number, so that adding clusters costs one addition however many targets there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor
from random import Random
from typing import Final

from engine.statistics.intervals import LEVEL, Interval

_BITS: Final = 64
_FIELD: Final = (1 << _BITS) - 1
_SCALE: Final = 5040
"""Divisible by all small numbers, so that most weights C / (C - 1) are whole."""

Counts = Sequence[int]
"""Of one cluster, one whole number >= 0 for each field; the same fields in all clusters."""


def resampled_sums(
    strata: Sequence[Sequence[Counts]], *, resamples: int, seed: int
) -> Iterator[list[int]]:
    """For each resample the sum of every field, in a unit of its own (only ratios mean anything).

    In each stratum C - 1 of its C clusters are drawn with replacement and weighted C / (C - 1),
    which makes the variance right with few clusters: J. N. K. Rao and C. F. J. Wu, JASA 83 (1988)
    231-241. A stratum of one cluster is drawn as it is; collapse strata before.
    """
    fields = max((len(counts) for stratum in strata for counts in stratum), default=0)
    if not fields:
        return
    chance = Random(seed)
    packed = [
        ([_pack(counts) for counts in stratum], max(1, len(stratum) - 1))
        for stratum in strata
        if stratum
    ]
    weights = [round(_SCALE * len(clusters) / draws) for clusters, draws in packed]
    for _ in range(resamples):
        total = 0
        for (clusters, draws), weight in zip(packed, weights, strict=True):
            total += weight * sum(chance.choices(clusters, k=draws))
        yield _unpack(total, fields)


def percentile_interval(values: Sequence[float]) -> Interval:
    """Between the values that cut off 2.5 % on either side, taken outward."""
    ordered = sorted(values)
    tail = (1 - LEVEL) / 2 * (len(ordered) - 1)
    return Interval(ordered[floor(tail)], ordered[ceil(len(ordered) - 1 - tail)])


def _pack(counts: Counts) -> int:
    packed = 0
    for count in reversed(counts):
        packed = packed << _BITS | count
    return packed


def _unpack(packed: int, fields: int) -> list[int]:
    return [packed >> _BITS * field & _FIELD for field in range(fields)]
