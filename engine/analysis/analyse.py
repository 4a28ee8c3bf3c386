"""The analysis of a benchmark, from what counts for each conversation. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.analysis.comparability import ExposedConversation, Exposure, GuessedAxis, group_checks
from engine.analysis.contrasts import contrasts, ranks, scored_on
from engine.analysis.figures import (
    Analysis,
    Estimate,
    JudgeInfo,
    LeftOut,
    MetricInfo,
    NoSignal,
    Outcome,
    ServedByOthers,
    Tally,
    TargetResult,
    UserAuditResult,
    WeakestMetric,
)
from engine.analysis.provenance import Provenance, Stale, Staleness, UnrecordedPrompts
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
from engine.checks import CheckKind, UserAuditMode
from engine.display import joined_names, plural
from engine.statistics.clusters import intraclass_correlation
from engine.statistics.rates import Rate, benchmark_rate, metric_rate, new_metrics_rate, no_signal


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """The input of an analysis besides the outcomes."""

    benchmark: str
    title: str
    metrics: Sequence[MetricInfo]
    targets: Mapping[str, str]
    """The label of each target's model, by the target's id."""
    scripted: frozenset[str] = frozenset()
    """Targets in whose conversations a scripted model took part."""
    scripted_models: Sequence[str] = ()
    """The labels of all scripted models that took part, judges included."""
    scripted_note: str | None = None
    """Which parts scripts played, in a sentence; None where there were none."""
    others: Sequence[ServedByOthers] = ()
    cost: str | None = None
    """How the cost of the calls is known, in a sentence; None where nothing need be said."""
    headline_rule: str = ""
    fresh: bool = False
    """Whether stale results are left out."""
    left_out: LeftOut = field(default_factory=LeftOut)
    other_judges: Mapping[str, int] = field(default_factory=dict)
    """By judge outside the configuration, how many conversations count by its verdicts."""
    silent_judges: Mapping[str, int] = field(default_factory=dict)
    """By judge, how many conversations count without all of its verdicts."""
    counted_otherwise: int = 0
    """Conversations for which something else counts than when they were last judged."""
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    """By target."""
    equal_targets: Sequence[tuple[str, Sequence[str]]] = ()
    """Names of targets that were asked with equal requests, with the parameters that were left out
    of them after a refusal."""
    unrecorded: UnrecordedPrompts = field(default_factory=UnrecordedPrompts)
    user_audit: UserAuditMode = UserAuditMode.OFF
    user_audits: Mapping[str, UserAuditResult] = field(default_factory=dict)
    """By target."""
    guesses: Sequence[GuessedAxis] = ()
    """One for every axis of every counting conversation."""
    unanswered: Mapping[CheckKind, int] = field(default_factory=dict)


def analyse(outcomes: Iterable[Outcome], about: AnalysisContext) -> Analysis:
    """Analyse a benchmark's outcomes."""
    outcomes = list(outcomes)
    tallies = tally(outcomes, list(about.targets))
    staleness, exposure = _staleness(outcomes), _exposure(outcomes)
    correlation = _correlation(tallies)
    results = [
        replace(
            _target(target, target_tally, about, correlation),
            staleness=staleness.get(target, {}),
            exposure=exposure.get(target, Exposure()),
        )
        for target, target_tally in tallies.items()
    ]
    results.sort(key=standing_key)
    # in the order of the table, so that a pair names the one that stands higher first
    ordered = {result.target: tallies[result.target] for result in results}
    marked = contrasts(ordered)
    ranked = {track: scored_on(ordered, track) for track in Track}
    places = ranks(ranked, marked.comparisons)
    return Analysis(
        benchmark=about.benchmark,
        title=about.title,
        metrics=about.metrics,
        targets=[replace(result, ranks=places.get(result.target, {})) for result in results],
        comparisons=marked.comparisons,
        gaps=marked.gaps,
        family=marked.family,
        agreement=agreements(ordered, outcomes),
        no_signal=_no_signal(results, about.metrics),
        judges=_judges(outcomes),
        headline_rule=about.headline_rule,
        correlation=correlation,
        scripted_models=about.scripted_models,
        others=about.others,
        left_out=about.left_out,
        notes=_notes(about, shares=any(tally.shares_transcripts for tally in tallies.values())),
        cost=about.cost,
        provenances=about.provenances,
        unrecorded=about.unrecorded,
        user_audit=about.user_audit,
        user_audits=about.user_audits,
        group_checks=group_checks(about.guesses),
        without_quote=_without_quote(outcomes),
        unanswered=about.unanswered,
        weakest=_weakest(outcomes, about.metrics),
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
    about: AnalysisContext,
    correlation: float | None,
) -> TargetResult:
    asked = Counter[str]()
    for scenario in target_tally.scenarios.values():
        asked[scenario.metric_id] += scenario.of
    of_track = {track: sum(tally.of for tally in target_tally.of_track(track)) for track in Track}
    return TargetResult(
        target=target,
        model=about.targets[target],
        scripted=target in about.scripted,
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
        return Estimate(None, None, None, 0, 0, of, 0, 0.0)
    return Estimate(
        rate=counted.rate,
        low=counted.interval.low,
        high=counted.interval.high,
        passed=counted.passed,
        scored=counted.scored,
        of=of,
        base_scenarios=counted.clusters,
        effective_n=counted.effective,
    )


def _no_signal(
    results: Sequence[TargetResult], metrics: Sequence[MetricInfo]
) -> Sequence[NoSignal]:
    """Only of metrics on which at least two targets were scored."""
    scored = {
        metric.id: [
            (cell.passed, cell.scored)
            for result in results
            if (cell := result.metrics.get(metric.id)) is not None and cell.scored
        ]
        for metric in metrics
    }
    silent = no_signal({metric: cells for metric, cells in scored.items() if len(cells) > 1})
    return [NoSignal(metric, passed) for metric, passed in silent.items()]


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


def _left_out_notes(left_out: LeftOut) -> Iterator[str]:
    gone = left_out.conversations - left_out.samples
    if gone:
        yield (
            f"{gone:,} stored conversations are not part of the present benchmark and are not "
            "counted."
        )
    if left_out.samples:
        yield (
            f"{left_out.samples:,} stored conversations are samples beyond `num_samples` under "
            "`generation:` in config.yaml and are not counted."
        )
    if left_out.targets:
        yield f"Targets no longer in the configuration: {', '.join(left_out.targets)}"


def _notes(about: AnalysisContext, *, shares: bool) -> list[str]:
    notes = []
    if shares:
        notes.append(
            "Some transcripts here belong to several metrics. Rates over metrics count such a "
            "transcript once for each; their intervals treat it as one base scenario."
        )
    if about.fresh:
        notes.append(
            "Only what is up to date counts (--fresh): what is stale is unscored here. Imported "
            "rows that do not record their inputs are not known to be stale."
        )
    if about.scripted_note:
        notes.append(about.scripted_note)
    notes += _left_out_notes(about.left_out)
    for judge, count in about.other_judges.items():
        notes.append(
            f"{count:,} conversations count by the verdicts of {judge}, which is not a judge of "
            "the present configuration; `run --stale` has them judged again."
        )
    if about.counted_otherwise:
        notes.append(
            "Something else counts than at the last verdict in "
            f"{plural(about.counted_otherwise, 'conversation')}, as the judges of the "
            "configuration changed; the app's tables follow with the next `run`."
        )
    for names, left_out in about.equal_targets:
        why = f" ({joined_names(left_out)} left out after a refusal)" if left_out else ""
        notes.append(
            f"{names} were asked with equal requests{why}: they are one target, played several "
            "times, and what differs between them is chance."
        )
    for judge, count in about.silent_judges.items():
        notes.append(
            f"{count:,} conversations count without all verdicts of {judge}, which is a judge of "
            "the present configuration; `run` asks it again."
        )
    return notes
