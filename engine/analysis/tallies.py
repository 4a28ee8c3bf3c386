"""Counts of verdicts, from which all figures are computed; and the agreement of repeated answers:
samples, judges, and passes of one judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

from engine.analysis.figures import Outcome, RepeatAgreement
from engine.benchmark import Track
from engine.jury import headline
from engine.statistics.agreement import Agreement, agreement
from engine.statistics.clusters import NOTHING_SHARED, Cluster, SharedTranscripts, Stratum

Layers = Mapping[str, Mapping[str, Cluster]]
"""Scored rows by stratum, then by cluster."""


@dataclass(slots=True)
class ScenarioTally:
    """One scenario with one target: an answer for each sample."""

    scenario_id: str
    base: str
    metric_id: str
    track: Track
    demographic: Mapping[str, str]
    place: tuple[str, str]
    """Its stratum and cluster in figures over several metrics."""
    answers: list[bool | None] = field(default_factory=list)
    scored: int = 0
    passed: int = 0

    @property
    def of(self) -> int:
        return len(self.answers)


@dataclass
class TargetTally:
    """The counts of one target."""

    shared: SharedTranscripts = NOTHING_SHARED
    scenarios: dict[str, ScenarioTally] = field(default_factory=dict)
    samples: dict[int, list[int]] = field(default_factory=dict)
    """By sample, how many passed and how many were scored."""
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        scenario = self.scenarios.get(outcome.key.scenario_id)
        if scenario is None:
            scenario = self.scenarios[outcome.key.scenario_id] = ScenarioTally(
                outcome.key.scenario_id,
                outcome.base,
                outcome.metric_id,
                outcome.track,
                outcome.demographic,
                self.shared.place(outcome.metric_id, outcome.base),
            )
        scenario.answers.append(outcome.passed)
        if outcome.passed is None:
            self.unscored[outcome.unscored or "no verdict"] += 1
            return
        # passed and scored
        sample = self.samples.setdefault(outcome.key.sample, [0, 0])
        scenario.scored += 1
        sample[1] += 1
        if outcome.passed:
            scenario.passed += 1
            sample[0] += 1

    @cached_property
    def metrics(self) -> Layers:
        """Scored rows with each metric as a stratum. Cached: read it when all is counted."""
        return _layers(self.scenarios.values(), lambda tally: (tally.metric_id, tally.base))

    def metrics_on(self, track: Track) -> Layers:
        """As `metrics`, of one track."""
        metrics = {scenario.metric_id for scenario in self.of_track(track)}
        return {metric: bases for metric, bases in self.metrics.items() if metric in metrics}

    @property
    def shares_transcripts(self) -> bool:
        """Whether any transcript belongs to several metrics."""
        return bool(self.shared.names)

    def of_track(self, track: Track | None) -> list[ScenarioTally]:
        """The scenarios of a track; of both for None."""
        return [scenario for scenario in self.scenarios.values() if track in {None, scenario.track}]


def grouped(
    scenarios: Iterable[ScenarioTally], key: Callable[[ScenarioTally], str | None]
) -> dict[str, list[ScenarioTally]]:
    """Scenarios by `key`, sorted by it; those where it is None are left out."""
    groups: defaultdict[str, list[ScenarioTally]] = defaultdict(list)
    for scenario in scenarios:
        value = key(scenario)
        if value is not None:
            groups[value].append(scenario)
    return {value: groups[value] for value in sorted(groups)}


def shared_transcripts(outcomes: Iterable[Outcome]) -> SharedTranscripts:
    return SharedTranscripts.of((outcome.base, outcome.transcript) for outcome in outcomes)


def tally(outcomes: Iterable[Outcome], targets: Sequence[str]) -> dict[str, TargetTally]:
    """By target, in the order given, with scenarios sorted by id; other targets are left out."""
    outcomes = list(outcomes)
    shared = shared_transcripts(outcomes)
    tallies = {target: TargetTally(shared) for target in targets}
    for outcome in outcomes:
        of_target = tallies.get(outcome.key.target_id)
        if of_target is not None:
            of_target.add(outcome)
    for of_target in tallies.values():
        of_target.scenarios = dict(sorted(of_target.scenarios.items()))
    return tallies


def strata_of(scenarios: Iterable[ScenarioTally]) -> list[Stratum]:
    """The strata for figures over several metrics."""
    layers = _layers(scenarios, lambda scenario: scenario.place)
    return [list(clusters.values()) for clusters in layers.values()]


def _layers(
    scenarios: Iterable[ScenarioTally], place: Callable[[ScenarioTally], tuple[str, str]]
) -> Layers:
    sums: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    for scenario in scenarios:
        if scenario.scored:
            stratum, cluster = place(scenario)
            # variants of a base are added up: they are one cluster
            pair = sums[stratum].setdefault(cluster, [0, 0])
            pair[0] += scenario.passed
            pair[1] += scenario.scored
    return {
        stratum: {name: Cluster.passing(passed, size) for name, (passed, size) in clusters.items()}
        for stratum, clusters in sums.items()
    }


def agreements(
    tallies: Mapping[str, TargetTally], outcomes: Sequence[Outcome]
) -> list[RepeatAgreement]:
    """Over all targets: between samples (of at least two targets), judges, and passes."""
    samples = agreement_of_samples(tallies) if len(tallies) > 1 else None
    repeats = [samples, *_of_judges(outcomes)]
    return [repeated for repeated in repeats if repeated is not None]


def agreement_of_samples(
    tallies: Mapping[str, TargetTally], of: str = ""
) -> RepeatAgreement | None:
    """Between the samples of a scenario; None where each was played once."""
    scenarios = [scenario for tally in tallies.values() for scenario in tally.scenarios.values()]
    if all(scenario.of < 2 for scenario in scenarios):
        return None
    agreement_of_all = agreement(
        [scenario.answers for scenario in scenarios], [scenario.place for scenario in scenarios]
    )
    return _repeat_agreement("samples", of, agreement_of_all)


def _of_judges(outcomes: Sequence[Outcome]) -> Iterator[RepeatAgreement | None]:
    """Between judges, by the majority of each one's passes; then between the passes of each."""
    passes = sorted({(vote.judge, vote.number) for outcome in outcomes for vote in outcome.votes})
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for judge, number in passes:
        numbers[judge].append(number)
    shared = shared_transcripts(outcomes)
    clusters = [shared.cluster(outcome.base) for outcome in outcomes]
    if len(numbers) > 1:
        rows = [_by_judge(outcome, numbers) for outcome in outcomes]
        yield _repeat_agreement("judges", ", ".join(numbers), agreement(rows, clusters))
    for judge, of_judge in numbers.items():
        if len(of_judge) > 1:
            rows = [_by_pass(outcome, judge, of_judge) for outcome in outcomes]
            yield _repeat_agreement("passes", judge, agreement(rows, clusters))


def _by_judge(outcome: Outcome, judges: Iterable[str]) -> list[bool | None]:
    return [
        headline(vote.passed for vote in outcome.votes if vote.judge == judge) for judge in judges
    ]


def _by_pass(outcome: Outcome, judge: str, numbers: Iterable[int]) -> list[bool | None]:
    passed_by_pass = {vote.number: vote.passed for vote in outcome.votes if vote.judge == judge}
    return [passed_by_pass.get(number) for number in numbers]


def _repeat_agreement(between: str, of: str, found: Agreement | None) -> RepeatAgreement | None:
    if found is None:
        return None
    figures = {figure.name: getattr(found, figure.name) for figure in fields(Agreement)}
    return RepeatAgreement(between=between, of=of, **figures)
