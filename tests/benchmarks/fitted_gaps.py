"""Gaps between people that are fitted, of many drawn worlds at once, for `false_claims`.

Each base scenario has a person of either age, whose place is drawn: which, is the same in all
worlds and for all targets, as how an experiment was laid out is no chance. What does not depend on
the verdicts is asked of the program's `DemographicFit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.statistics import demographics, paired
from engine.statistics.clusters import put_together
from engine.statistics.demographics import DemographicFit, VariantScore

Array = NDArray[Any]
Summed = tuple[Array, Array, Array]
"""Estimate, error and degrees of freedom, each world by comparison."""
_GAPS: Final = (("age", "a", "b"), ("place", "x", "y"))


def person(metric: int, scenario: int, variant: int) -> dict[str, str]:
    """Of one of the two variants of a base scenario."""
    place = Random(f"{metric} {scenario} {variant}").choice("xy")
    return {"age": "ab"[variant], "place": place}


def fitted_gaps(rates: Array) -> tuple[list[Summed], list[Summed]]:
    """Of all targets together, and of each: ages, then places. `rates` are world, target, metric,
    scenario, variant."""
    _, targets, metrics, scenarios, _ = rates.shape
    pooled, alone = (_Layout(count, metrics, scenarios) for count in (targets, 1))
    each = [alone.gaps(rates[:, target : target + 1]) for target in range(targets)]
    return pooled.gaps(rates), [gap for gaps in each for gap in gaps]


class _Layout:
    """What `DemographicFit` makes of who was asked what, whatever came of it."""

    def __init__(self, targets: int, metrics: int, scenarios: int) -> None:
        self._fit = DemographicFit(
            [
                VariantScore(
                    f"m{metric:02d}",
                    f"s{scenario:02d}",
                    (target, metric, scenario),
                    person(metric, scenario, variant),
                    0.0,
                )
                for target in range(targets)
                for metric in range(metrics)
                for scenario in range(scenarios)
                for variant in (0, 1)
            ]
        )
        self._columns = np.array([one.columns for one in self._fit._rows])
        bases = np.arange(metrics * scenarios)
        self._base = np.tile(np.repeat(bases, 2), targets)
        self._metric = np.repeat(np.arange(metrics), scenarios)

    def gaps(self, rates: Array) -> list[Summed]:
        centred = (rates - rates.mean(axis=4, keepdims=True)).reshape(len(rates), -1)
        inverse = np.array(self._fit._inverse)
        effects = centred @ self._columns @ inverse
        residuals = centred - effects @ self._columns.T
        return [self._gap(gap, effects, residuals) for gap in _GAPS]

    def _gap(self, gap: tuple[str, str, str], effects: Array, residuals: Array) -> Summed:
        """`DemographicFit.difference`."""
        axis, left, right = gap
        assert self._fit.contrast(*gap) is not None
        wanted = np.array(
            [
                float(column == (axis, left)) - float(column == (axis, right))
                for column in self._fit._columns
            ]
        )
        weights = np.array(self._fit._inverse) @ wanted
        x = self._columns @ weights / (wanted @ weights)
        estimate = effects @ wanted
        count = len(self._metric)
        sizes = np.bincount(self._base, 2 * x * x, count)
        scores = np.zeros((len(residuals), count))
        np.add.at(scores.T, self._base, (2 * x * residuals).T)
        totals = scores + estimate[:, None] * sizes
        strata = self._strata(sizes)
        pairs = float(sizes[np.concatenate(strata)].sum())
        spread, freedom = _drawn(strata, sizes, totals, estimate, pairs)
        variance = 2 * (residuals**2).sum(1) / self._fit._freedom
        expected = (variance + estimate**2) * pairs - (1 - paired._ABOUT_ZERO) * pairs * estimate**2
        pseudo = paired._PSEUDO_PAIRS
        expected = (expected + pseudo) / (pairs + pseudo) / pairs
        some = variance > demographics._NOTHING
        seen = np.maximum(1, spread**2 * pairs / np.where(some, variance, 1))
        alike = np.where(some, seen, max(1.0, pairs / sum(map(len, strata))))
        expected = np.where(some, expected * (1 + alike) / 2, expected)
        weight = paired._EXPECTED_FREEDOM
        moderated = (freedom * spread**2 + weight * expected) / (freedom + weight)
        error = np.sqrt(np.maximum(moderated, paired._FEWEST_PAIRS / (pairs / alike) ** 2))
        far = freedom + paired.FAR_OUT
        return estimate[:, None], error[:, None], far[:, None]

    def _strata(self, sizes: Array) -> list[Array]:
        """The places of base scenarios that say something, by metric."""
        known = np.flatnonzero(sizes > demographics._NOTHING)
        by_metric = [known[self._metric[known] == metric] for metric in np.unique(self._metric)]
        return [np.array(one) for one in put_together([list(one) for one in by_metric])]


def _drawn(
    strata: Sequence[Array], sizes: Array, totals: Array, mean: Array, pairs: float
) -> tuple[Array, Array]:
    """`paired.drawn_error`: the error and its degrees of freedom."""
    variances, freedoms = [], np.array([len(one) - 1 for one in strata])
    for one in strata:
        count, borrowed = len(one), paired._BORROWED
        own = totals[:, one].sum(1) / sizes[one].sum()
        drawn = (count * own + borrowed * mean) / (count + borrowed)
        left = ((totals[:, one] - drawn[:, None] * sizes[one]) ** 2).sum(1)
        variances.append(left * count / (count - 1))
    found = np.array(variances).T
    total = found.sum(1)
    freedom = np.full(len(total), float(freedoms.sum()))
    some = total > 0
    shares = ((found[some] / total[some][:, None]) ** 2 / (freedoms + 2)).sum(1)
    freedom[some] = np.clip(np.floor(1 / shares - 2 + 1e-9), 1, freedom[some])
    return np.sqrt(total) / pairs, freedom
