"""Verdicts counted once, so that everything said about them is said from few numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.analysis.figures import Outcome
from engine.benchmark import Track
from engine.statistics.clusters import Cluster

Layers = Mapping[str, Mapping[str, Cluster]]
"""Scored rows by metric (a stratum), then by base scenario (a cluster)."""


@dataclass(slots=True)
class ScenarioTally:
    """What counts for one scenario with one target: one answer for each sample."""

    scenario_id: str
    base: str
    metric_id: str
    track: Track
    demographic: Mapping[str, str]
    answers: list[bool | None] = field(default_factory=list)
    scored: int = 0
    passed: int = 0

    @property
    def of(self) -> int:
        return len(self.answers)


@dataclass
class TargetTally:
    """Everything that was counted for one target."""

    scenarios: dict[str, ScenarioTally] = field(default_factory=dict)
    samples: dict[int, list[int]] = field(default_factory=dict)
    """Of each sample, how many passed and how many were scored."""
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, one: Outcome) -> None:
        scenario = self.scenarios.get(one.key.scenario_id)
        if scenario is None:
            scenario = self.scenarios[one.key.scenario_id] = ScenarioTally(
                one.key.scenario_id, one.base, one.metric_id, one.track, one.demographic
            )
        scenario.answers.append(one.passed)
        if one.passed is None:
            self.unscored[one.unscored or "no verdict"] += 1
            return
        sample = self.samples.setdefault(one.key.sample, [0, 0])
        scenario.scored += 1
        sample[1] += 1
        if one.passed:
            scenario.passed += 1
            sample[0] += 1

    @cached_property
    def layers(self) -> Layers:
        """Scored rows of the whole benchmark; to be asked for when all is counted."""
        return layers_of(self.scenarios.values())

    def layers_on(self, track: Track) -> Layers:
        metrics = {one.metric_id for one in self.scenarios.values() if one.track is track}
        return {metric: bases for metric, bases in self.layers.items() if metric in metrics}

    def of_track(self, track: Track | None) -> list[ScenarioTally]:
        """Of both tracks for None."""
        return [one for one in self.scenarios.values() if track in {None, one.track}]


def grouped(
    scenarios: Iterable[ScenarioTally], key: Callable[[ScenarioTally], str | None]
) -> dict[str, list[ScenarioTally]]:
    """By `key`, in order of its values; those without one are left out."""
    found: defaultdict[str, list[ScenarioTally]] = defaultdict(list)
    for one in scenarios:
        value = key(one)
        if value is not None:
            found[value].append(one)
    return {value: found[value] for value in sorted(found)}


def tally(outcomes: Iterable[Outcome], targets: Sequence[str]) -> dict[str, TargetTally]:
    """By target, in the order given, scenarios by their id; what belongs to no such target is left
    out."""
    found = {target: TargetTally() for target in targets}
    for one in outcomes:
        of_target = found.get(one.key.target_id)
        if of_target is not None:
            of_target.add(one)
    for of_target in found.values():
        of_target.scenarios = dict(sorted(of_target.scenarios.items()))
    return found


def layers_of(scenarios: Iterable[ScenarioTally]) -> Layers:
    sums: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    for one in scenarios:
        if one.scored:
            pair = sums[one.metric_id].setdefault(one.base, [0, 0])
            pair[0] += one.passed
            pair[1] += one.scored
    return {
        metric: {base: Cluster.passing(passed, size) for base, (passed, size) in bases.items()}
        for metric, bases in sums.items()
    }
