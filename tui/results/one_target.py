"""Everything about one target: rates, missing verdicts, samples, demographics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.analysis.figures import Analysis, Estimate, MeanEstimate, TargetResult
from engine.analysis.findings import coefficients
from engine.analysis.sections import VerdictScope
from engine.benchmark import Track
from engine.display import one_line, percent, plural, span
from engine.report.scale import RATES
from tui.format import TRACK_SIGNS
from tui.results.sections import of_estimate
from tui.results.text import paragraph, title
from tui.text.ink import Ink, Piece, fitted_line, pad
from tui.text.plot import Whiskers, tick_line, whiskers
from tui.widgets.sheet import SheetRow

_ROOMY: Final = 100
_LABEL: Final = 24
_SAID: Final = (28, 40)
"""Cells of the text beside a figure, in a narrow and in a wide view."""


def target_rows(analysis: Analysis, target: str, width: int) -> list[SheetRow]:
    """The figures of the target with this id, in `width` cells; none if it is not there."""
    result = analysis.target(target)
    if result is None:
        return []
    return [
        *_rates(analysis, result, width),
        *_missing(result, width),
        *_samples(result, width),
        *_people(result, width),
    ]


def _rates(analysis: Analysis, result: TargetResult, width: int) -> Iterator[SheetRow]:
    own = title(one_line(result.target), width, one_line(result.model))
    yield own._replace(key=VerdictScope((result.target,)))
    head = [Piece(" " * (_LABEL + 3)), *tick_line(RATES, _bar_width(width))]
    yield SheetRow(fitted_line(head, width))
    for track in analysis.tracks:
        estimate = result.tracks[track]
        sign = TRACK_SIGNS[track]
        behind = VerdictScope((result.target,), track=track)
        yield _figure(f"{sign} these {analysis.part}s", estimate, width, behind)
        others = result.new_metrics.get(track)
        if others is not None:
            drawn = Whiskers(others.rate, others.low, others.high, sure=False, ink=Ink.MUTED)
            figures = f"{percent(others.rate):>4} {span(others.low, others.high):<9} "
            figures += plural(others.base_scenarios, analysis.part)
            yield _row(f"{sign} {analysis.part}s like these", drawn, figures, width, None)
        rank = result.ranks.get(track)
        if rank is not None:
            place = f"rank {rank} of {rank.of}" if rank.tells else "rank cannot be told"
            yield SheetRow(
                [Piece(" " + pad("", _LABEL) + "  ", Ink.MUTED), Piece(place, Ink.MUTED)]
            )


def _missing(result: TargetResult, width: int) -> Iterator[SheetRow]:
    if not result.of:
        yield from paragraph("It has no scenario yet, and so no conversation to score.", width)
        return
    if not result.unscored:
        words = f"Every conversation is scored, {result.scored:,} of {result.of:,}."
        yield from paragraph(words, width, Piece("✓", Ink.GOOD), Ink.MUTED)
        return
    yield title(
        f"{result.of - result.scored:,} of {result.of:,} unscored", width, "and what they could do"
    )
    for reason, count in result.unscored.items():
        yield from paragraph(f"{count:,} {reason}", width, Piece("·", Ink.WARN))
    for track, estimate in result.tracks.items():
        if estimate.scored and estimate.missing:
            yield _bounds(track, estimate, width)


def _bounds(track: Track, estimate: Estimate, width: int) -> SheetRow:
    low, high = estimate.if_missing_failed or 0.0, estimate.if_missing_passed or 0.0
    bounds = f"{percent(low)} to {percent(high)}"
    if width >= _ROOMY:
        bounds = f"{percent(low)} if all failed, {percent(high)} if all passed"
    bar = _bar_width(width)
    drawn = Whiskers(estimate.rate, ink=Ink.MUTED, bounds=(low, high))
    label = f"{TRACK_SIGNS[track]} it could lie"
    line = [
        Piece(" " + pad(label, _LABEL), Ink.MUTED),
        Piece("  "),
        *whiskers(drawn, RATES, bar),
        Piece("  " + bounds, Ink.MUTED),
    ]
    return SheetRow(fitted_line(line, width))


def _samples(result: TargetResult, width: int) -> Iterator[SheetRow]:
    if len(result.samples) < 2 or result.agreement is None:
        return
    agreement = result.agreement
    figures = [f"agree in {percent(agreement.percent.value)} of pairs", *coefficients(agreement)]
    yield title(f"{len(result.samples)} samples of each scenario", width, ", ".join(figures))
    for number, tally in result.samples.items():
        estimate = Whiskers(tally.rate, ink=Ink.MUTED)
        passes = f"{percent(tally.rate):>4} {tally.passed:,} of {tally.scored:,}"
        yield _row(f"sample {number}", estimate, passes, width, None)
    if agreement.disagreeing:
        words = f"{agreement.disagreeing:,} of {agreement.things:,} scenarios divide them."
        yield from paragraph(words, width, Piece("!", Ink.WARN))


def _people(result: TargetResult, width: int) -> Iterator[SheetRow]:
    for axis, values in sorted(result.demographics.items()):
        yield title(one_line(axis), width, "both tracks together")
        for value, estimate in values.items():
            behind = VerdictScope((result.target,), axis=axis, people=(value,))
            yield _figure(one_line(value), estimate, width, behind)


def _figure(label: str, estimate: Estimate, width: int, behind: VerdictScope) -> SheetRow:
    drawn = of_estimate(estimate)
    over = f"{estimate.passed:,}/{estimate.scored:,} in {estimate.base_scenarios}"
    if isinstance(estimate, MeanEstimate):
        over = plural(estimate.base_scenarios, "scenario")
    figures = f"{percent(estimate.rate):>4} {span(estimate.low, estimate.high):<9} {over}"
    return _row(label, drawn, figures, width, behind)


def _row(
    label: str, drawn: Whiskers, figures: str, width: int, behind: VerdictScope | None
) -> SheetRow:
    line = [
        Piece(" " + pad(label, _LABEL), Ink.STRONG if behind is not None else Ink.MUTED),
        Piece("  "),
        *whiskers(drawn, RATES, _bar_width(width)),
        Piece("  " + figures, Ink.TEXT if behind is not None else Ink.MUTED),
    ]
    return SheetRow(fitted_line(line, width), behind)


def _bar_width(width: int) -> int:
    figures_width = _SAID[width >= _ROOMY]
    return max(width - _LABEL - figures_width - 5, 10)
