"""The analysis of a benchmark, from what counts for each conversation. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from engine.analysis.comparability import ExposedConversation, Exposure
from engine.analysis.contrasts import contrasts, ranks, scored_on
from engine.analysis.figures import (
    Analysis,
    AnalysisContext,
    Estimate,
    JudgeInfo,
    MetricInfo,
    Outcome,
    Tally,
    TargetResult,
    WeakestMetric,
)
from engine.analysis.provenance import Stale, Staleness
from engine.analysis.tallies import (
    ScenarioTally,
    TargetTally,
    agreement_of_samples,
    agreements,
    grouped,
    strata_of,
    tally,
)
from engine.benchmark import Track
from engine.statistics.clusters import intraclass_correlation
from engine.statistics.rates import Rate, benchmark_rate, metric_rate, new_metrics_rate, no_signal


def analyse(
    outcomes: Iterable[Outcome], about: AnalysisContext, models: Mapping[str, str]
) -> Analysis:
    """Analyse a benchmark's outcomes; `models` has the label of each target's model, by its id."""
    outcomes = list(outcomes)
    tallies = tally(outcomes, list(models))
    staleness, exposure = _staleness(outcomes), _exposure(outcomes)
    correlation = _correlation(tallies)
    results = [
        replace(
            _target(target, target_tally, models[target], correlation),
            staleness=staleness.get(target, {}),
            exposure=exposure.get(target, Exposure()),
        )
        for target, target_tally in tallies.items()
    ]
    results.sort(key=standing_key)
    # in the order of the table, so that a pair names the one that stands higher first
    ordered = {result.target: tallies[result.target] for result in results}
    comparisons, gaps, family = contrasts(ordered)
    places = ranks({track: scored_on(ordered, track) for track in Track}, comparisons)
    known = {one.name: getattr(about, one.name) for one in fields(AnalysisContext)}
    if any(tally.shares_transcripts for tally in tallies.values()):
        known["notes"] = [_SHARED, *about.notes]
    return Analysis(
        **known,
        targets=[replace(result, ranks=places.get(result.target, {})) for result in results],
        comparisons=comparisons,
        gaps=gaps,
        family=family,
        agreement=agreements(ordered, outcomes),
        no_signal=_no_signal(results, about.metrics),
        judges=_judges(outcomes),
        correlation=correlation,
        without_quote=_without_quote(outcomes),
        weakest=_weakest(outcomes, about.metrics),
    )


_SHARED: Final = (
    "Some transcripts here belong to several metrics. Rates over metrics count such a transcript "
    "once for each; their intervals treat it as one base scenario."
)


def _weakest(outcomes: Sequence[Outcome], metrics: Sequence[MetricInfo]) -> WeakestMetric | None:
    """Of several that are passed equally seldom, the first in the order of the file."""
    scored: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.passed is not None:
            scored[outcome.metric_id].append(outcome)
    found: list[WeakestMetric] = []
    for metric in metrics:
        rows = scored[metric.id]
        failed = [outcome.key for outcome in rows if not outcome.passed]
        if failed:
            [(target, _)] = Counter(key.target_id for key in failed).most_common(1)
            shown = next(key for key in failed if key.target_id == target)
            passed = len(rows) - len(failed)
            found.append(WeakestMetric(metric, passed, len(rows), str(shown)))
    return min(found, key=lambda metric: metric.rate, default=None)


def _without_quote(outcomes: Iterable[Outcome]) -> dict[str, float]:
    votes: defaultdict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        votes[outcome.key.target_id] += [vote.lacks_quote for vote in outcome.votes if vote.counts]
    return {target: sum(lacking) / len(lacking) for target, lacking in votes.items() if lacking}


def standing_key(result: TargetResult) -> tuple[bool, float, float, str]:
    """A sort key: the highest positive rate first, then the highest negative one, no data last."""
    positive, negative = result.tracks[Track.POSITIVE].rate, result.tracks[Track.NEGATIVE].rate
    return result.scored == 0, -(positive or 0.0), -(negative or 0.0), result.target


def _correlation(tallies: Mapping[str, TargetTally]) -> float | None:
    """Pooled over the run, as one cell has too few scenarios."""
    return intraclass_correlation(
        list(clusters.values()) for tally in tallies.values() for clusters in tally.metrics.values()
    )


def _target(
    target: str,
    target_tally: TargetTally,
    model: str,
    correlation: float | None,
) -> TargetResult:
    asked = Counter[str]()
    for scenario in target_tally.scenarios.values():
        asked[scenario.metric_id] += scenario.of
    of_track = {track: sum(tally.of for tally in target_tally.of_track(track)) for track in Track}
    return TargetResult(
        target=target,
        model=model,
        tracks={
            track: _as_estimate(
                benchmark_rate(strata_of(target_tally.of_track(track)), correlation),
                of_track[track],
            )
            for track in Track
        },
        new_metrics={
            track: _new_metrics(target_tally, track, correlation, of_track[track])
            for track in Track
        },
        ranks={},
        metrics={
            metric: _as_estimate(
                metric_rate(list(target_tally.metrics.get(metric, {}).values()), correlation), of
            )
            for metric, of in sorted(asked.items())
        },
        scenarios={
            scenario.scenario_id: Tally(scenario.passed, scenario.scored)
            for scenario in target_tally.scenarios.values()
        },
        base_scenarios=_bases(target_tally.scenarios.values()),
        demographics=_demographics(target_tally.scenarios.values(), correlation),
        metrics_by_people={
            metric: _demographics(rows, correlation)
            for metric, rows in grouped(
                target_tally.scenarios.values(), lambda tally: tally.metric_id
            ).items()
        },
        samples={number: Tally(*pair) for number, pair in sorted(target_tally.samples.items())},
        unscored=dict(sorted(target_tally.unscored.items())),
        agreement=agreement_of_samples({target: target_tally}, of=target),
    )


def _demographics(
    scenarios: Collection[ScenarioTally], correlation: float | None
) -> dict[str, dict[str, Estimate]]:
    return {
        axis: {
            value: _of_people(rows, correlation)
            for value, rows in grouped(scenarios, _value_of(axis)).items()
        }
        for axis in sorted({axis for scenario in scenarios for axis in scenario.demographic})
    }


def _value_of(axis: str) -> Callable[[ScenarioTally], str | None]:
    return lambda tally: tally.demographic.get(axis)


def _bases(scenarios: Iterable[ScenarioTally]) -> dict[str, Tally]:
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for scenario in scenarios:
        if scenario.scored:
            _, cluster = scenario.place
            sums[cluster][0] += scenario.passed
            sums[cluster][1] += scenario.scored
    return {base: Tally(*sums[base]) for base in sorted(sums)}


def _of_people(rows: Sequence[ScenarioTally], correlation: float | None) -> Estimate:
    rate = benchmark_rate(strata_of(rows), correlation)
    return _as_estimate(rate, sum(row.of for row in rows))


def _new_metrics(
    counted: TargetTally, track: Track, correlation: float | None, of: int
) -> Estimate | None:
    if counted.shares_transcripts:
        return None  # metrics on the same transcripts differ less than independent ones would
    layers = counted.metrics_on(track)
    rate = new_metrics_rate([list(bases.values()) for bases in layers.values()], correlation)
    return None if rate is None else _as_estimate(rate, of)


def _as_estimate(counted: Rate | None, of: int) -> Estimate:
    if counted is None:
        failed, passed = (0.0, 1.0) if of else (None, None)
        return Estimate(None, None, None, 0, 0, of, 0, 0.0, failed, passed)
    return Estimate(
        rate=counted.rate,
        low=counted.interval.low,
        high=counted.interval.high,
        passed=counted.passed,
        scored=counted.scored,
        of=of,
        base_scenarios=counted.clusters,
        effective_n=counted.effective,
        if_missing_failed=counted.passed / of if of else None,
        if_missing_passed=(counted.passed + of - counted.scored) / of if of else None,
    )


def _no_signal(
    results: Sequence[TargetResult], metrics: Sequence[MetricInfo]
) -> Mapping[str, bool]:
    """Only of metrics on which at least two targets were scored."""
    scored = {
        metric.id: [
            (cell.passed, cell.scored)
            for result in results
            if (cell := result.metrics.get(metric.id)) is not None and cell.scored
        ]
        for metric in metrics
    }
    return no_signal({metric: cells for metric, cells in scored.items() if len(cells) > 1})


def _staleness(outcomes: Iterable[Outcome]) -> Mapping[str, Mapping[str, Staleness]]:
    """By target and metric."""
    causes: defaultdict[str, defaultdict[str, list[tuple[Stale, int]]]]
    causes = defaultdict(lambda: defaultdict(list))
    for outcome in outcomes:
        if outcome.passed is not None:
            counting = sum(vote.counts for vote in outcome.votes)
            causes[outcome.key.target_id][outcome.metric_id].append((outcome.stale, counting))
    return {
        target: {metric: Staleness.over(rows) for metric, rows in sorted(metrics.items())}
        for target, metrics in causes.items()
    }


def _exposure(outcomes: Iterable[Outcome]) -> Mapping[str, Exposure]:
    exposed: defaultdict[str, list[ExposedConversation]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.exposed is not None:
            exposed[outcome.key.target_id].append(outcome.exposed)
    return {target: Exposure.over(rows) for target, rows in exposed.items()}


def _judges(outcomes: Iterable[Outcome]) -> list[JudgeInfo]:
    usable: Counter[str] = Counter()
    unusable: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    passes: defaultdict[str, set[int]] = defaultdict(set)
    for outcome in outcomes:
        for vote in outcome.votes:
            passes[vote.judge].add(vote.number)
            (unusable if vote.passed is None else usable)[vote.judge] += 1
            counted[vote.judge] += vote.counts and vote.passed is not None
    return [
        JudgeInfo(judge, len(numbers), usable[judge], unusable[judge], counted[judge])
        for judge, numbers in sorted(passes.items())
    ]
