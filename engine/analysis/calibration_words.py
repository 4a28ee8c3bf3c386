"""Lines of text about a judge's calibration against people's labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.analysis.calibration import (
    LEAST_LABELS,
    Calibration,
    Confusion,
    JudgesCompared,
    MetricCounts,
    RateOf,
)
from engine.analysis.findings import p_value_words, with_ends
from engine.display import percent, plural, span
from engine.statistics.agreement import Agreement
from engine.statistics.calibration import Accuracy, MissingReason, RoganGladen, Share


def calibration_lines(calibration: Calibration, undecided: int = 0) -> Iterator[str]:
    """The calibration as lines; with too few labels, only counts. `undecided` conversations are
    left out until a person decides between their labels."""
    if not calibration.labels:
        yield f"no label is about a conversation that {calibration.judge} has judged"
        return
    more = f"; {undecided:,} more {'awaits' if undecided == 1 else 'await'} a decision"
    yield (
        f"{calibration.judge} against {plural(calibration.labels, 'label')} on "
        f"{plural(calibration.clusters, 'base scenario')}{more if undecided else ''}"
    )
    if calibration.unjudged:
        yield f"{plural(calibration.unjudged, 'more label')}: it gave no usable verdict there"
    if calibration.labels < LEAST_LABELS:
        yield f"fewer than {LEAST_LABELS} labels: only counts are reported"
        yield from _counts(calibration.metrics)
        return
    yield from _figures(calibration.accuracy, calibration.agreement)
    for rate in calibration.rates:
        yield from _rate(rate)
    yield needed_words(calibration)
    yield from _counts(calibration.metrics)
    for part in (*calibration.by_metric, *calibration.by_target):
        if part.accuracy is not None:
            yield f"{part.of}, {plural(part.labels, 'label')}:"
            yield from (f"  {line}" for line in _figures(part.accuracy, part.agreement))
            if part in calibration.by_metric:
                yield from (f"  {line}" for line in _rate(part.rate))


def _figures(accuracy: Accuracy, agreed: Agreement | None) -> Iterator[str]:
    for name, share, among in shares_of(accuracy):
        if share is None:
            yield f"{name}: not known, 0 labels {among}"
        else:
            ends = span(share.interval.low, share.interval.high)
            yield f"{name} {percent(share.value)} {ends}, {plural(share.labels, 'label')} {among}"
    if beyond := beyond_chance(agreed):
        yield beyond


def shares_of(accuracy: Accuracy) -> Iterable[tuple[str, Share | None, str]]:
    """Each share with its name, and the labels that it is among."""
    return (
        ("sensitivity", accuracy.sensitivity, "that people call present"),
        ("specificity", accuracy.specificity, "that people call absent"),
        ("right where it says present", accuracy.positive_value, "that it calls present"),
        ("right where it says absent", accuracy.negative_value, "that it calls absent"),
        ("right", accuracy.right, "in all"),
    )


def beyond_chance(agreement: Agreement | None) -> str:
    """AC1 and κ with their intervals; empty where neither is known."""
    if agreement is None:
        return ""
    figures = (("AC1", agreement.ac1), ("κ", agreement.kappa))
    shown = [
        f"{name} {with_ends(coefficient.value, coefficient.interval)}"
        for name, coefficient in figures
        if coefficient is not None
    ]
    return f"agreement beyond chance: {', '.join(shown)}" if shown else ""


def _rate(rate: RateOf) -> Iterator[str]:
    who = rate.of or "all targets"
    if rate.powered is None:
        yield f"{who}: {percent(rate.judged)} pass; {uncorrected_words(rate)}"
        return
    ends = span(rate.powered.interval.low, rate.powered.interval.high)
    corrected = f"corrected for the judge's errors {percent(rate.powered.value)} {ends}"
    yield f"{who}: {percent(rate.judged)} pass; {corrected}{_by_errors(rate.rogan_gladen)}"


def uncorrected_words(rate: RateOf) -> str:
    """Why a rate is not corrected for the judge's errors."""
    labels = plural(rate.labels, "label")
    if rate.powered_reason is MissingReason.FEW_LABELS:
        return f"{labels}, too few to correct"
    return f"{labels}, not corrected, which takes two base scenarios"


_NO_ROGAN_GLADEN: Final = {
    MissingReason.FEW_BASE_SCENARIOS: "that takes labels on three base scenarios",
    MissingReason.ONE_ANSWER: "people's labels have to be present in two base scenarios, and "
    "absent in two",
    MissingReason.CHANCE: "the labels do not show that the judge is better than chance",
}


def _by_errors(corrected: RoganGladen) -> str:
    if corrected.value is None or corrected.interval is None:
        why = "" if corrected.reason is None else _NO_ROGAN_GLADEN.get(corrected.reason, "")
        return f"; Rogan-Gladen cannot correct: {why}"
    ends = span(corrected.interval.low, corrected.interval.high)
    return f"; Rogan-Gladen {percent(corrected.value)} {ends}"


def needed_words(calibration: Calibration) -> str:
    """How many labels an interval of the asked width takes."""
    wide = f"the interval of the corrected pass rate {calibration.width * 100:g} points wide"
    if calibration.labels_needed is not None:
        return f"about {plural(calibration.labels_needed, 'label')} in all make {wide}"
    if calibration.labels_needed_reason is not MissingReason.SCENARIOS_VARY:
        return f"how many labels make {wide} is not known: that takes two base scenarios"
    return f"no number of labels makes {wide}: the base scenarios vary too much"


def _counts(metrics: Sequence[MetricCounts]) -> Iterator[str]:
    for metric in metrics:
        yield (
            f"{metric.metric_id}: {plural(metric.labels, 'label')}; "
            f"both present {metric.both_present}, only the judge {metric.only_judge}, "
            f"only people {metric.only_people}, both absent {metric.both_absent}"
        )


def confusion_words(confusion: Confusion, judge: str) -> str:
    """`people present, offline:evaluator absent`."""
    words = ("present", "absent") if confusion.people else ("absent", "present")
    return f"people {words[0]}, {judge} {words[1]}"


def comparison_lines(left: str, right: str, comparisons: Sequence[JudgesCompared]) -> Iterator[str]:
    for half in comparisons:
        if half.left is None or half.right is None:
            yield f"{half.split}: no label that both have judged"
            continue
        both = ((left, half.left), (right, half.right))
        shares = (f"{name} {_of_share(share)}" for name, share in both)
        yield (
            f"{half.split}: {plural(half.labels, 'label')}; right: {', '.join(shares)}; "
            f"only {left} right {half.contest.only_left}, only {right} {half.contest.only_right}, "
            f"McNemar {p_value_words(half.contest.p)}"
        )


def _of_share(share: Share) -> str:
    return f"{percent(share.value)} {span(share.interval.low, share.interval.high)}"
