"""Stage 5: turns an analysis into `results.json`, with its documented fields first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from engine.analysis.comparability import GroupCheck
from engine.analysis.figures import (
    PROMISE,
    Analysis,
    Comparison,
    ComparisonFamily,
    Estimate,
    Gap,
    Overall,
    RepeatAgreement,
    Tally,
    TargetResult,
    part_of,
)
from engine.analysis.findings import scope_sentence
from engine.analysis.provenance import Staleness
from engine.benchmark import Track
from engine.statistics.agreement import Coefficient
from engine.statistics.distributions import LEVEL
from engine.statistics.paired import ERROR_RATE, SHARES, SHARES_OF_ALL
from engine.statistics.rates import ENOUGH_BENCHMARKS
from engine.store.mirror_rows import OURS, JsonObject

METHOD: Final = (
    "Wilson with Student's t on the effective number of rows: n / deff with the intra-class "
    "correlation pooled over the run, drawn towards 0.3, or less where base scenarios vary more "
    "than that; stratified by metric, clustered by base scenario; an end is moved outward where a "
    "failure more would otherwise raise it"
)
_PAIRED: Final = (
    "paired on the same scenarios (people that are not crossed: least squares with an effect of "
    "each base scenario), clustered by base scenario within the metric, Student's t"
)
METHOD_COMPARING: Final = (
    f"{_PAIRED}; Holm's step-down procedure with shares: "
    + ", ".join(f"{share:g} to {part}" for part, share in SHARES.items())
    + "; ranks follow from the pairs on a track"
)
METHOD_OF_ALL: Final = (
    "mean of the benchmarks' rates, each weighing the same; what it may be off is what each rate "
    "may be off, squared and added (Zou and Donner 2008)"
)
METHOD_ON_LIKE: Final = (
    "Wilson with Student's t, one degree less than there are benchmarks, on the variance of "
    "benchmarks about their mean, at least that of their scenarios"
)
METHOD_COMPARING_ALL: Final = (
    "mean of the benchmarks' differences, each weighing the same, Student's t with Satterthwaite's "
    "degrees; for benchmarks like these, one cluster each; Holm's step-down "
    "procedure with shares: "
    + ", ".join(f"{share:g} to {part}" for part, share in SHARES_OF_ALL.items())
    + "; ranks follow from the pairs on a track"
)
_DIGITS: Final = 6


def as_rows(analysis: Analysis) -> list[JsonObject]:
    """One row for each target, in the order of the analysis.

    The first eight fields are those that other tools read. A rate without scored rows is null.
    """
    return [_row(analysis, target) for target in analysis.targets]


def _row(analysis: Analysis, result: TargetResult) -> JsonObject:
    positive, negative = result.tracks[Track.POSITIVE], result.tracks[Track.NEGATIVE]
    return {
        "target_model": result.target,
        "positive_pass_rate": positive.rate,
        "negative_pass_rate": negative.rate,
        "n_positive": positive.scored,
        "n_negative": negative.scored,
        "n_total": result.scored,
        "by_metric": _cells(result.metrics),
        "by_scenario": _cells(result.scenarios),
        "by_base_scenario": _cells(result.base_scenarios),
        "by_demographic": _people(result.demographics),
        "by_sample": _cells({str(sample): cell for sample, cell in result.samples.items()}),
        "intervals": _intervals(analysis, result),
        "by_metric_and_demographic": {
            metric: _people(people, intervals=True)
            for metric, people in result.metrics_by_people.items()
            if people
        },
        "scored": {
            "rule": analysis.headline_rule,
            "scored": result.scored,
            "of": result.of,
            "unscored": dict(result.unscored),
            "bounds": {
                f"{track}_pass_rate": [
                    _rounded_number(estimate.if_missing_failed),
                    _rounded_number(estimate.if_missing_passed),
                ]
                for track, estimate in result.tracks.items()
            },
        },
        "stale": _stale(result),
        "exposure": asdict(result.exposure),
        "agreement": _agreement(analysis, result),
        "comparisons": _comparisons(analysis, result.target),
        "notes": [*(str(other) for other in analysis.others), *analysis.notes, *_cost(analysis)],
        **_served_by_others(analysis, result.target),
        **_user_model(analysis, result.target),
        **_provenance(analysis, result.target),
    }


def as_object(overall: Overall) -> JsonObject:
    """Results over several benchmarks: their names, and a row for each target."""
    return {
        "benchmarks": list(overall.benchmarks),
        "nothing_scored": list(overall.skipped),
        "generalised_to": scope_sentence(overall),
        "targets": [_row_of_all(overall, target) for target in overall.targets],
    }


_OF_ALL: Final = (
    *("target_model", "positive_pass_rate", "negative_pass_rate"),
    *("n_positive", "n_negative", "n_total"),
)
"""Fields of a row whose meaning is the same for one benchmark and for all."""


def _row_of_all(overall: Overall, result: TargetResult) -> JsonObject:
    row = _row(overall, result)
    stale, comparisons = row["stale"], row["comparisons"]
    return {
        **{name: row[name] for name in _OF_ALL},
        "by_benchmark": {
            name: {
                str(track): {**_cells({name: cell})[name], "interval": _interval(cell)}
                for track in overall.tracks
                if (cell := result.metrics.get(part_of(name, track))) is not None and cell.scored
            }
            for name in overall.benchmarks
        },
        "intervals": {
            "level": LEVEL,
            "method": METHOD_OF_ALL,
            **{f"{track}_pass_rate": _interval(cell) for track, cell in result.tracks.items()},
            "for_benchmarks_like_these": {
                "method": METHOD_ON_LIKE,
                "from": ENOUGH_BENCHMARKS,
                **{
                    f"{track}_pass_rate": None if cell is None else _interval(cell)
                    for track, cell in result.new_metrics.items()
                },
            },
            "ranks": {str(track): [rank.best, rank.worst] for track, rank in result.ranks.items()},
        },
        "scored": row["scored"],
        "stale": {
            **{name: value for name, value in stale.items() if name != "by_metric"},
            "by_benchmark": stale["by_metric"],
        },
        "exposure": row["exposure"],
        "comparisons": {
            "family": {
                **comparisons["family"],
                "between_targets_for_benchmarks_like_these": overall.family.pairs_on_like,
                "method": METHOD_COMPARING_ALL,
            },
            "targets": comparisons["targets"],
            "targets_for_benchmarks_like_these": _comparisons_with(overall.on_like, result.target),
        },
        **{name: row[name] for name in row if name in {"notes", "served_by_others", "user_audit"}},
        **{name: row[name] for name in row if name == OURS},
    }


def _people(axes: Mapping[str, Mapping[str, Estimate]], *, intervals: bool = False) -> JsonObject:
    if not intervals:
        return {axis: _cells(values) for axis, values in axes.items()}
    return {
        axis: {
            value: {**cell, "interval": _interval(values[value])}
            for value, cell in _cells(values).items()
        }
        for axis, values in axes.items()
    }


def _cost(analysis: Analysis) -> list[str]:
    return [] if analysis.cost is None else [analysis.cost]


def _served_by_others(analysis: Analysis, target: str) -> JsonObject:
    """The target's replies that came from other models; empty where there are none."""
    served = {
        name: count
        for other in analysis.others
        if other.target == target
        for name, count in other.served.items()
    }
    of = sum(other.of for other in analysis.others if other.target == target)
    return {"served_by_others": {"replies": served, "of": of}} if served else {}


def _provenance(analysis: Analysis, target: str) -> JsonObject:
    provenance = analysis.provenances.get(target)
    if provenance is None:
        return {}
    left_out = analysis.left_out
    counts = {"conversations": left_out.conversations, "targets": list(left_out.targets)}
    return {OURS: {**asdict(provenance), "left_out": counts}}


def _user_model(analysis: Analysis, target: str) -> JsonObject:
    """The audit of the user model; empty where audits are off."""
    audit = analysis.user_audits.get(target)
    if audit is None:
        return {}
    return {
        "user_audit": {
            "mode": analysis.user_audit.value,
            "of": audit.of,
            "looked_at": audit.looked_at,
            "invalid": audit.invalid,
            "faults": {str(kind): count for kind, count in sorted(audit.faults.items())},
            "landmarks_checked": audit.landmarks_checked,
        }
    }


def _cells(cells: Mapping[str, Estimate] | Mapping[str, Tally]) -> JsonObject:
    """Only scored cells: the others have no rate."""
    return {
        name: {"pass_rate": cell.rate, "n_passed": cell.passed, "n_total": cell.scored}
        for name, cell in cells.items()
        if cell.scored
    }


def _intervals(analysis: Analysis, result: TargetResult) -> JsonObject:
    return {
        "level": LEVEL,
        "method": METHOD,
        "intraclass_correlation": _rounded_number(analysis.correlation),
        **{f"{track}_pass_rate": _interval(cell) for track, cell in result.tracks.items()},
        "by_metric": {metric: _interval(cell) for metric, cell in result.metrics.items()},
        "by_demographic": {
            axis: {value: _interval(cell) for value, cell in values.items()}
            for axis, values in result.demographics.items()
        },
        "for_new_metrics": {
            f"{track}_pass_rate": None if cell is None else _interval(cell)
            for track, cell in result.new_metrics.items()
        },
        "ranks": {str(track): [rank.best, rank.worst] for track, rank in result.ranks.items()},
    }


def _interval(cell: Estimate) -> JsonObject | None:
    if cell.rate is None:
        return None
    return {
        "low": _rounded_number(cell.low),
        "high": _rounded_number(cell.high),
        "n": cell.scored,
        "n_effective": _rounded_number(cell.effective_n, 3),
        "base_scenarios": cell.base_scenarios,
        "too_few_scenarios": cell.too_few,
    }


def _stale(result: TargetResult) -> JsonObject:
    """How much of what counts is stale, and what has changed."""
    staleness = sum(result.staleness.values(), Staleness())
    return {
        **asdict(staleness),
        "by_metric": {metric: asdict(part) for metric, part in result.staleness.items()},
    }


def _agreement(analysis: Analysis, result: TargetResult) -> JsonObject:
    """Null without repeated answers; that of judges and passes is the same for every target."""
    return {
        "samples": None if result.agreement is None else _agreement_json(result.agreement),
        "judges": _all_of(analysis.agreement, "judges"),
        "passes": _all_of(analysis.agreement, "passes"),
    }


def _all_of(concords: Iterable[RepeatAgreement], between: str) -> list[JsonObject]:
    return [
        {"of": agreement.of, **_agreement_json(agreement)}
        for agreement in concords
        if agreement.between == between
    ]


def _agreement_json(concord: RepeatAgreement) -> JsonObject:
    return {
        "things": concord.things,
        "percent": _figure(concord.percent),
        "unanimous": _figure(concord.unanimous),
        "gwet_ac1": _figure(concord.ac1),
        "krippendorff_alpha": _figure(concord.alpha),
        "fleiss_kappa": _figure(concord.kappa),
    }


def _figure(figure: Coefficient | None) -> JsonObject | None:
    if figure is None:
        return None
    known = figure.interval
    return {
        "value": _rounded_number(figure.value),
        "low": None if known is None else _rounded_number(known.low),
        "high": None if known is None else _rounded_number(known.high),
    }


def _comparisons(analysis: Analysis, target: str) -> JsonObject:
    """This target compared with every other, and differences between demographic groups."""
    return {
        "family": _family(analysis.family),
        "targets": _comparisons_with(analysis.comparisons, target),
        "demographics": [_gap(gap) for gap in analysis.gaps if gap.target == target],
        "demographics_of_all_targets": [_gap(gap) for gap in analysis.gaps if gap.target is None],
        "guessed_from_user_messages": {
            axis: _group_check_json(check)
            for axis, check in analysis.group_checks.items()
            if check.checked
        },
        "metrics_without_signal": list(analysis.no_signal),
    }


def _group_check_json(check: GroupCheck) -> JsonObject:
    """Whether a target could have known the group: guesses of a model, over all targets."""
    return {
        "of": check.of,
        "checked": check.checked,
        "right": check.right,
        "low": _rounded_number(check.low),
        "high": _rounded_number(check.high),
        "by_chance": _rounded_number(check.chance),
        "models": list(check.models),
    }


def _family(family: ComparisonFamily) -> JsonObject:
    """The family of comparisons, which defines `marked`, adjusted p values and intervals."""
    return {
        "comparisons": family.size,
        "between_targets": family.pairs,
        "between_people": family.gaps,
        "error_rate": ERROR_RATE,
        "controlled": "any false mark",
        "method": METHOD_COMPARING,
        "promise": PROMISE,
    }


def _comparisons_with(comparisons: Iterable[Comparison], target: str) -> list[JsonObject]:
    return [
        _comparison_json(pair.reversed_sides() if pair.right == target else pair)
        for pair in comparisons
        if target in (pair.left, pair.right)
    ]


def _comparison_json(pair: Comparison) -> JsonObject:
    """Positive where the row's own target, on the left, passes more often."""
    return {
        "with": pair.right,
        "track": "all" if pair.track is None else str(pair.track),
        "difference": _rounded_number(pair.difference),
        "low": _rounded_number(pair.low),
        "high": _rounded_number(pair.high),
        "p": _rounded_number(pair.p),
        "p_adjusted": _rounded_number(pair.p_adjusted),
        "marked": pair.sure,
        "n": pair.rows,
        "base_scenarios": pair.base_scenarios,
        **({} if pair.benchmarks is None else {"benchmarks": pair.benchmarks}),
    }


def _gap(gap: Gap) -> JsonObject:
    return {
        "axis": gap.axis,
        "value": gap.left,
        "against": gap.right,
        "difference": _rounded_number(gap.difference),
        "low": _rounded_number(gap.low),
        "high": _rounded_number(gap.high),
        "p": _rounded_number(gap.p),
        "p_adjusted": _rounded_number(gap.p_adjusted),
        "marked": gap.sure,
        "base_scenarios": gap.base_scenarios,
        "rows": gap.rows,
    }


def _rounded_number(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None else round(value, digits)
