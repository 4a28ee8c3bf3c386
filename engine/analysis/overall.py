"""The results of several benchmarks together. Pure.

Each benchmark has the same weight, whatever its size: a rate is the mean of the benchmarks' rates,
a difference that of their differences. Intervals are for other scenarios like those of these
benchmarks; intervals for other benchmarks like these are given only where there are enough.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from engine.analysis.analyse import standing_key
from engine.analysis.comparability import Exposure
from engine.analysis.contrasts import Pair, comparison, ranks
from engine.analysis.figures import (
    Analysis,
    Comparison,
    Estimate,
    JudgeInfo,
    LeftOut,
    MetricInfo,
    Overall,
    ServedByOthers,
    TargetResult,
    UserAuditResult,
    part_of,
)
from engine.analysis.provenance import Provenance, Staleness, merged_provenance
from engine.benchmark import Track
from engine.checks import FaultKind, UserAuditMode
from engine.display import plural
from engine.statistics.distributions import Interval
from engine.statistics.paired import (
    SHARES_OF_ALL,
    Difference,
    FamilyPart,
    simultaneous,
)
from engine.statistics.rates import like_these, like_these_interval, mean_interval, mean_of

NAME: Final = "overall"
ALL: Final = "*"
"""Stands for all benchmarks in place of a name; no benchmark can have this name."""
_Of = tuple[Track, str, str]
"""A track and two targets."""


def overall(analyses: Sequence[Analysis]) -> Overall:
    """Combine the analyses of several benchmarks; the comparisons are a family of their own."""
    counted = [
        analysis for analysis in analyses if any(target.scored for target in analysis.targets)
    ]
    names = [analysis.benchmark for analysis in counted]
    targets = dict.fromkeys(result.target for analysis in analyses for result in analysis.targets)
    results = sorted((_target(target, counted) for target in targets), key=standing_key)
    unmarked = Overall(
        benchmark=NAME,
        title=f"{plural(len(counted), 'benchmark')} together",
        metrics=[
            MetricInfo(part_of(analysis.benchmark, track), analysis.title, track)
            for analysis in counted
            for track in analysis.tracks
        ],
        targets=results,
        judges=_judges(counted),
        headline_rule=" ".join(dict.fromkeys(analysis.headline_rule for analysis in counted)),
        scripted_models=sorted(
            {model for analysis in counted for model in analysis.scripted_models}
        ),
        others=_served_by_others(counted),
        left_out=LeftOut(
            sum(analysis.left_out.conversations for analysis in analyses),
            sorted({target for analysis in analyses for target in analysis.left_out.targets}),
        ),
        notes=_notes(counted),
        provenances=_provenances(counted),
        user_audit=counted[0].user_audit if counted else UserAuditMode.OFF,
        user_audits=_user_audits(counted),
        benchmarks=names,
        skipped=[analysis.benchmark for analysis in analyses if analysis.benchmark not in names],
    )
    return _marked(unmarked, _differences(counted, [result.target for result in results]))


# The targets


def _target(target: str, analyses: Sequence[Analysis]) -> TargetResult:
    counted = [
        (analysis, own) for analysis in analyses if (own := analysis.target(target)) is not None
    ]
    results = [own for _, own in counted]
    asked = {t: [own.tracks[t] for own in results if own.tracks[t].of] for t in Track}
    unscored = sum((Counter(own.unscored) for own in results), Counter[str]())
    return TargetResult(
        target=target,
        model=" or ".join(dict.fromkeys(own.model for own in results)),
        tracks={track: _mean(asked[track]) for track in Track},
        new_metrics={track: _like_these(asked[track]) for track in Track},
        ranks={},
        metrics={
            part_of(overall.benchmark, t): own.tracks[t]
            for overall, own in counted
            for t in overall.tracks
        },
        scenarios={},
        base_scenarios={},
        demographics={},
        metrics_by_people={},
        samples={},
        unscored=dict(sorted(unscored.items())),
        agreement=None,
        staleness={
            overall.benchmark: sum(own.staleness.values(), Staleness())
            for overall, own in counted
            if own.staleness
        },
        exposure=sum((own.exposure for own in results), Exposure()),
    )


def _mean(asked: Sequence[Estimate]) -> Estimate:
    estimates = [estimate for estimate in asked if estimate.rate is not None]
    rates = _rates(estimates)
    interval = (
        mean_interval(rates, [_interval(estimate) for estimate in estimates]) if rates else None
    )
    return Estimate(
        rate=sum(rates) / len(rates) if rates else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        passed=sum(estimate.passed for estimate in estimates),
        scored=sum(estimate.scored for estimate in estimates),
        of=sum(estimate.of for estimate in asked),
        base_scenarios=sum(estimate.base_scenarios for estimate in estimates),
        effective_n=_effective_rows(estimates),
        if_missing_failed=_mean_of_known([estimate.if_missing_failed for estimate in asked]),
        if_missing_passed=_mean_of_known([estimate.if_missing_passed for estimate in asked]),
        benchmarks=len(estimates),
    )


def _rates(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.rate for estimate in estimates if estimate.rate is not None]


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _interval(estimate: Estimate) -> Interval:
    return Interval(estimate.low or 0.0, 1.0 if estimate.high is None else estimate.high)


def _effective_rows(estimates: Sequence[Estimate]) -> float:
    """How many independent rows the mean is worth, if all rates were equal."""
    return (
        len(estimates) ** 2 / sum(1 / estimate.effective_n for estimate in estimates)
        if estimates
        else 0.0
    )


def _like_these(asked: Sequence[Estimate]) -> Estimate | None:
    estimates = [estimate for estimate in asked if estimate.rate is not None]
    interval = like_these_interval(_rates(estimates), _effective_rows(estimates))
    if interval is None:
        return None
    return replace(
        _mean(asked), low=interval.low, high=interval.high, base_scenarios=len(estimates)
    )


# The pairs


def _differences(
    analyses: Sequence[Analysis], targets: Sequence[str]
) -> dict[_Of, list[Difference]]:
    """The benchmarks' differences, by track and pair in the order of `targets`."""
    by_pair: dict[_Of, list[Difference]] = {
        (track, *pair): [] for track in Track for pair in combinations(targets, 2)
    }
    for analysis in analyses:
        for pair in analysis.comparisons:
            if pair.track is None:
                continue
            turned = (pair.track, pair.right, pair.left)
            if turned in by_pair:
                by_pair[turned].append(_difference(pair, -pair.difference))
            else:
                by_pair[pair.track, pair.left, pair.right].append(
                    _difference(pair, pair.difference)
                )
    return by_pair


def _difference(pair: Comparison, estimate: float) -> Difference:
    return Difference(estimate, pair.error, pair.freedom, pair.rows, pair.base_scenarios)


def _marked(unmarked: Overall, differences: Mapping[_Of, Sequence[Difference]]) -> Overall:
    these = list(_pairs(differences, {of: mean_of(values) for of, values in differences.items()}))
    like = list(
        _pairs(differences, {of: like_these(estimates) for of, estimates in differences.items()})
    )
    family = {
        FamilyPart.PAIRS_ON_TRACKS: [pair.difference for pair, _ in these],
        FamilyPart.PAIRS_ON_LIKE: [pair.difference for pair, _ in like],
    }
    marked = simultaneous(family, SHARES_OF_ALL)
    results = [
        replace(comparison(pair, adjusted), benchmarks=benchmarks)
        for (pair, benchmarks), adjusted in zip([*these, *like], marked, strict=True)
    ]
    comparisons, on_like = results[: len(these)], results[len(these) :]
    places = ranks({track: _rankable_targets(unmarked, track) for track in Track}, comparisons)
    return replace(
        unmarked,
        targets=[
            replace(target, ranks=places.get(target.target, {})) for target in unmarked.targets
        ],
        comparisons=comparisons,
        on_like=on_like,
        family=replace(unmarked.family, pairs=len(these), pairs_on_like=len(like)),
    )


def _pairs(
    differences: Mapping[_Of, Sequence[Difference]], means: Mapping[_Of, Difference | None]
) -> Iterator[tuple[Pair, int]]:
    """Each pair with the number of benchmarks that it is the mean of."""
    for of, mean in means.items():
        if mean is not None:
            yield (
                Pair(*of, mean, mean.pairs),
                sum(difference.error is not None for difference in differences[of]),
            )


def _rankable_targets(overall: Overall, track: Track) -> list[str]:
    """The scored targets; empty unless all were scored in the same benchmarks, as targets that were
    asked different questions cannot be ranked."""
    scored = [target for target in overall.targets if target.tracks[track].scored]
    if any(overall.missing_benchmarks(result, track) for result in scored):
        return []
    return [result.target for result in scored]


# What is known beside them


def _judges(analyses: Sequence[Analysis]) -> list[JudgeInfo]:
    by_name: defaultdict[str, list[JudgeInfo]] = defaultdict(list)
    for analysis in analyses:
        for judge in analysis.judges:
            by_name[judge.name].append(judge)
    return [
        JudgeInfo(
            name,
            max(judge.passes for judge in judges),
            sum(judge.verdicts for judge in judges),
            sum(judge.unusable for judge in judges),
            sum(judge.counting for judge in judges),
        )
        for name, judges in sorted(by_name.items())
    ]


def _served_by_others(analyses: Iterable[Analysis]) -> list[ServedByOthers]:
    served: defaultdict[tuple[str, str | None, str], Counter[str]] = defaultdict(Counter)
    of: Counter[tuple[str, str | None, str]] = Counter()
    for analysis in analyses:
        for other in analysis.others:
            key = other.what, other.target, other.asked
            served[key].update(other.served)
            of[key] += other.of
    return [ServedByOthers(*key, dict(served[key]), of[key]) for key in served]


def _notes(analyses: Sequence[Analysis]) -> list[str]:
    """Notes that all benchmarks share, then those of single ones under their names."""
    counts = Counter(note for analysis in analyses for note in analysis.notes)
    everywhere = [note for note, count in counts.items() if count == len(analyses)]
    return everywhere + [
        f"{analysis.benchmark}: {note}"
        for analysis in analyses
        for note in analysis.notes
        if note not in everywhere
    ]


def _provenances(analyses: Iterable[Analysis]) -> dict[str, Provenance]:
    by_target: defaultdict[str, list[Provenance]] = defaultdict(list)
    for analysis in analyses:
        for target, made_with in analysis.provenances.items():
            by_target[target].append(made_with)
    return {target: merged_provenance(parts) for target, parts in by_target.items()}


def _user_audits(analyses: Iterable[Analysis]) -> dict[str, UserAuditResult]:
    by_target: defaultdict[str, list[UserAuditResult]] = defaultdict(list)
    for analysis in analyses:
        for target, audit in analysis.user_audits.items():
            by_target[target].append(audit)
    return {target: _summed(audits) for target, audits in by_target.items()}


def _summed(audits: Sequence[UserAuditResult]) -> UserAuditResult:
    checked = [audit.landmarks_checked for audit in audits if audit.landmarks_checked is not None]
    return UserAuditResult(
        of=sum(audit.of for audit in audits),
        looked_at=sum(audit.looked_at for audit in audits),
        invalid=sum(audit.invalid for audit in audits),
        faults=sum((Counter(audit.faults) for audit in audits), Counter[FaultKind]()),
        landmarks_checked=sum(checked) if checked else None,
    )
