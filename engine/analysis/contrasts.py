"""Target against target, and one group of people against another, within the same scenarios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Final

from engine.analysis.figures import ENOUGH_SCENARIOS, Comparison, Gap, RankRange
from engine.analysis.tallies import ScenarioTally, TargetTally
from engine.benchmark import Track
from engine.statistics.clusters import stratified_error
from engine.statistics.demographics import Variant, demographic_gaps
from engine.statistics.paired import (
    Answers,
    Difference,
    compare_all,
    differences,
)
from engine.statistics.ranks import rank_intervals

_METHOD: Final = "paired on the same scenarios, clustered by base scenario within the metric; Holm"
_EXACT: Final = "paired on the same scenarios, McNemar's exact test; Holm"
_SEED: Final = 20_260_101
"""Of the resamples behind the ranks: any number, but always the same."""


def comparisons(tallies: Mapping[str, TargetTally]) -> list[Comparison]:
    """Of every pair of targets that share a scenario: on both tracks together, then on each."""
    single = [pair for track in Track for pair in _compared(tallies, track)]
    if len({pair.track for pair in single}) < len(Track):
        return single
    return [*_compared(tallies, None), *single]


def _compared(tallies: Mapping[str, TargetTally], track: Track | None) -> list[Comparison]:
    return [
        Comparison(
            track=track,
            left=one.left,
            right=one.right,
            difference=one.difference.estimate,
            low=_low(one.difference),
            high=_high(one.difference),
            p=one.difference.p,
            p_adjusted=one.adjusted,
            base_scenarios=one.difference.clusters,
            rows=one.difference.pairs,
            method=_EXACT if one.difference.exact else _METHOD,
        )
        for one in compare_all(_answers_on(tallies, track))
    ]


def _answers_on(tallies: Mapping[str, TargetTally], track: Track | None) -> Mapping[str, Answers]:
    """By target; of both tracks where `track` is None."""
    return {
        target: _answers(found.scenarios.values() if track is None else found.of_track(track))
        for target, found in tallies.items()
    }


def _answers(scenarios: Iterable[ScenarioTally]) -> Answers:
    found: defaultdict[str, defaultdict[str, dict[str, float]]]
    found = defaultdict(lambda: defaultdict(dict))
    for one in scenarios:
        if one.scored:
            found[one.metric_id][one.base][one.scenario_id] = one.passed / one.scored
    return found


def gaps(tallies: Mapping[str, TargetTally]) -> list[Gap]:
    """Of every pair of values on every axis, pooled and for each target; both tracks together."""
    variants = {
        target: [
            Variant(one.metric_id, one.base, one.demographic, one.passed, one.scored)
            for one in found.scenarios.values()
        ]
        for target, found in tallies.items()
    }
    return [
        Gap(
            axis=gap.axis,
            left=gap.left,
            right=gap.right,
            target=gap.target,
            difference=gap.difference.estimate,
            low=_low(gap.difference),
            high=_high(gap.difference),
            p=gap.difference.p,
            p_adjusted=gap.adjusted,
            base_scenarios=gap.difference.clusters,
        )
        for gap in demographic_gaps(variants)
    ]


def ranks(tallies: Mapping[str, TargetTally]) -> dict[str, dict[Track, RankRange]]:
    """Of each target on each track where every scored target has enough scenarios, by target."""
    places: defaultdict[str, dict[Track, RankRange]] = defaultdict(dict)
    for track in Track:
        panel = {
            target: layers
            for target, found in tallies.items()
            if (layers := found.layers_on(track))
        }
        sizes = [sum(map(len, layers.values())) for layers in panel.values()]
        if len(panel) < 2 or min(sizes) < ENOUGH_SCENARIOS:
            continue
        for target, found in rank_intervals(panel, seed=_SEED).items():
            places[target][track] = RankRange(found.best, found.worst)
    return dict(places)


def _low(difference: Difference) -> float | None:
    return None if difference.interval is None else difference.interval.low


def _high(difference: Difference) -> float | None:
    return None if difference.interval is None else difference.interval.high


@dataclass(frozen=True, slots=True)
class PairError:
    """How unsure the difference between two targets is, as seen over all pairs."""

    error: float
    """Standard error, in rates."""
    base_scenarios: int
    pairs: int


def pair_error(tallies: Mapping[str, TargetTally], track: Track | None) -> PairError | None:
    """The root mean square over all pairs, for planning; None where no pair tells."""
    answers = list(_answers_on(tallies, track).values())
    errors: list[float] = []
    sizes: list[int] = []
    for left, right in combinations(answers, 2):
        layers = differences(left, right)
        found = stratified_error(layers)
        if found is not None and found.error:
            errors.append(found.error)
            sizes.append(sum(bool(cluster.size) for layer in layers for cluster in layer))
    if not errors:
        return None
    square = sum(error**2 for error in errors) / len(errors)
    return PairError(sqrt(square), round(sum(sizes) / len(sizes)), len(errors))
