"""How the targets stand: by track, by metric, and in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len

from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    Analysis,
    Estimate,
    MetricInfo,
    Overall,
    TargetResult,
    part_of,
)
from engine.analysis.findings import (
    MARKS,
    Certainty,
    Finding,
    answer,
    legend,
    marks_mean,
    other_findings,
    rate_cell,
)
from engine.analysis.sections import VerdictScope, sections
from engine.benchmark import Track
from engine.display import one_line, percent, plural, span
from engine.report.scale import RATES
from tui.format import TRACK_SIGNS
from tui.results.sections import of_estimate, paragraph, section_rows
from tui.text.ink import Ink, Line, Piece, fitted_line, pad, pad_apart
from tui.text.plot import tick_line, whiskers
from tui.widgets.grids import GridCell, HeatRow
from tui.widgets.lines import SheetRow

NAME_WIDTH: Final = (8, 24)
_RATE, _SPAN, _RANK = 5, 9, 6
_LEAST_BAR: Final = 10
_FOLDED: Final = 22
"""Cells of a rate with its interval and counts."""


def standing_rows(analysis: Analysis, width: int, *, folded: bool = False) -> list[SheetRow]:
    """The targets in order, with a pass rate and interval for each track, in `width` cells;
    `folded`, in one line each, where the plot gives way."""
    if not analysis.targets:
        return [SheetRow([Piece("  The configuration names no targets.", Ink.MUTED)])]
    if not analysis.tracks:
        return [SheetRow([Piece("  There are no metrics yet, so nothing is scored.", Ink.MUTED)])]
    if folded:
        return _folded(analysis, width)
    return [*_below_each_other(analysis, width), *_legend(analysis)]


def _folded(analysis: Analysis, width: int) -> list[SheetRow]:
    name = _name_width(analysis)
    cells = [
        [pad(one, _FOLDED) for one in (rate_cell(analysis, result, t) for t in analysis.tracks)]
        for result in analysis.targets
    ]
    fits = name + 2 + sum(2 + max(map(cell_len, column)) for column in zip(*cells, strict=True))
    rows = []
    for result, row in zip(analysis.targets, cells, strict=True):
        if fits > width:  # cut off, `31/32` can read as another number
            row = [f"{t.sign} {percent(result.tracks[t].rate):>4}" for t in analysis.tracks]
        line = [*_name(analysis, result, name, 0), Piece("  ".join(row), Ink.TEXT)]
        if result.unscored:
            line.append(Piece(f"  {_unscored(result)}", Ink.WARN))
        rows.append(SheetRow(fitted_line(line, width), result.target))
    return rows


def _below_each_other(analysis: Analysis, width: int) -> list[SheetRow]:
    name = _name_width(analysis)
    words_width = max(
        cell_len(_rate_words(result.tracks[t])) for result in analysis.targets for t in Track
    )
    spans = _SPAN if width - name - words_width > 46 else 0
    room = width - name - 5 - _RATE - spans - _RANK - 2
    if room - words_width < _LEAST_BAR:
        # cut off, `31 of 32 rows` can read as another number
        words_width = 0
    bar = max(room - words_width, _LEAST_BAR)
    head = [Piece(" " * (name + 5 + _RATE + spans)), *tick_line(RATES, bar)]
    rows = [SheetRow(fitted_line([*head, Piece("  rank", Ink.FAINT)], width))]
    for target in analysis.targets:
        for number, track in enumerate(analysis.tracks):
            estimate = target.tracks[track]
            line = [
                *_name(analysis, target, name, number),
                Piece(TRACK_SIGNS[track] + " ", Ink.MUTED),
                Piece(pad(percent(estimate.rate), _RATE, right=True) + " ", Ink.STRONG),
                *(
                    [Piece(pad(span(estimate.low, estimate.high), spans), Ink.MUTED)]
                    if spans
                    else []
                ),
                *whiskers(of_estimate(estimate), RATES, bar),
                Piece("  " + pad(_rank(target, track), _RANK), Ink.TEXT),
                Piece(pad(_rate_words(estimate), words_width, right=True), Ink.MUTED),
            ]
            rows.append(SheetRow(line, target.target))
    return rows


def _name_width(analysis: Analysis) -> int:
    low, high = NAME_WIDTH
    names = (cell_len(one_line(target.target)) for target in analysis.targets)
    missing = (cell_len(_unscored(target)) for target in analysis.targets if target.unscored)
    return min(max(low, *names, *missing), high)


def _label(analysis: Analysis, result: TargetResult, width: int) -> str:
    names = (one_line(target.target) for target in analysis.targets)
    return pad_apart(one_line(result.target), names, width)


def _name(analysis: Analysis, result: TargetResult, width: int, number: int) -> Iterator[Piece]:
    """The name on a target's first line; on its second, the number of unscored conversations."""
    yield Piece(" ")
    if number == 0:
        yield Piece(_label(analysis, result, width), Ink.STRONG)
    elif result.unscored:
        yield Piece(pad(_unscored(result), width), Ink.WARN)
    else:
        yield Piece(" " * width)
    yield Piece(" ")


def _unscored(result: TargetResult) -> str:
    return f"· {result.of - result.scored:,} unscored"


def _rate_words(estimate: Estimate) -> str:
    if not estimate.scored:
        return "nothing scored yet"
    rows, scenarios = (
        plural(count, noun)
        for count, noun in (
            (estimate.scored, "conversation"),
            (estimate.base_scenarios, "scenario"),
        )
    )
    if estimate.benchmarks is not None:
        return f"{scenarios}, {plural(estimate.benchmarks, 'benchmark')}"
    return f"{estimate.passed:,} of {rows}, {scenarios}"


def _rank(result: TargetResult, track: Track) -> str:
    place = result.ranks.get(track)
    return str(place) if place is not None and place.tells else "—"


def _legend(analysis: Analysis) -> Iterator[SheetRow]:
    estimates: Sequence[Estimate] = [
        estimate for result in analysis.targets for estimate in result.tracks.values()
    ]
    if any(estimate.too_few and estimate.scored for estimate in estimates):
        words = f" ○ fewer than {ENOUGH_SCENARIOS} base scenarios: rests on little"
        yield SheetRow([Piece(words, Ink.FAINT)])


SILENT: Final = {True: "≡ all pass", False: "≡ none pass"}
"""Marks of a metric on which all targets score the same."""


def heat(
    analysis: Analysis,
) -> tuple[Sequence[HeatRow], Sequence[str], Mapping[GridCell, float | None]]:
    """The rows (metrics), the columns (targets) and the rates of the heat map. A pair without
    verdicts has no cell."""
    silent = {metric: SILENT[passed] for metric, passed in analysis.no_signal.items()}
    rows = [HeatRow(_metric_name(metric), silent.get(metric.id, "")) for metric in analysis.metrics]
    cells = {
        GridCell(row, column): estimate.rate
        for row, metric in enumerate(analysis.metrics)
        for column, result in enumerate(analysis.targets)
        if (estimate := result.metrics.get(metric.id)) is not None
    }
    return rows, [one_line(target.target) for target in analysis.targets], cells


def cell_words(analysis: Analysis, spot: GridCell) -> tuple[Line, Line]:
    """The left and right end of the line that describes a cell of the heat map in full."""
    behind = behind_spot(analysis, spot)
    if behind is None:
        return [Piece(" This benchmark has no metrics yet.", Ink.MUTED)], ()
    metric, target = analysis.metrics[spot.row], analysis.targets[spot.group]
    left = [
        Piece(" " + one_line(target.target), Ink.STRONG),
        Piece(f"  {_metric_name(metric)}  ", Ink.TEXT),
    ]
    if metric.id in analysis.no_signal:
        left.insert(0, Piece(" ≡ the same for every target ", Ink.WARN))
    estimate = target.metrics.get(metric.id)
    if estimate is None or estimate.rate is None:
        return left, [Piece("nothing scored yet ", Ink.MUTED)]
    rows = f"{estimate.passed:,} of {plural(estimate.scored, 'conversation')}, "
    scenarios = plural(estimate.base_scenarios, "scenario")
    right = [
        Piece(f"{percent(estimate.rate)} {span(estimate.low, estimate.high)}  ", Ink.STRONG),
        Piece(rows + scenarios + " ", Ink.MUTED),
    ]
    return left, right


def behind_spot(analysis: Analysis, spot: GridCell) -> VerdictScope | None:
    """The verdicts behind a cell of the heat map; None if there is no such cell."""
    if not (spot.row < len(analysis.metrics) and spot.group < len(analysis.targets)):
        return None
    target, metric = analysis.targets[spot.group].target, analysis.metrics[spot.row]
    if isinstance(analysis, Overall):
        own = next(o for o in analysis.benchmarks if part_of(o, metric.track) == metric.id)
        return VerdictScope((target,), track=metric.track, benchmark=own)
    return VerdictScope((target,), metric=metric.id)


def _metric_name(metric: MetricInfo) -> str:
    return f"{TRACK_SIGNS[metric.track]} {one_line(metric.id)} {one_line(metric.name)}"


_INKS: Final[Mapping[Certainty, Ink]] = {
    Certainty.SIGNIFICANT: Ink.GOOD,
    Certainty.OPEN: Ink.MUTED,
    Certainty.CAUTION: Ink.WARN,
}


ELSEWHERE: Final = frozenset({"metrics", "comparisons", "people", "agreement"})
"""Sections that are shown beside the sentences."""


def says_rows(analysis: Analysis, width: int, *, in_full: bool = False) -> list[SheetRow]:
    """The answer, and what to know before using the figures, in `width` cells; `in_full` with each
    finding in a sentence of its own."""
    if not any(target.scored for target in analysis.targets):
        return list(_nothing_yet(analysis, width))
    return [
        *_answer(analysis, width),
        *_findings(analysis, width, in_full=in_full),
        SheetRow([]),
        *(
            row
            for section in sections(analysis)
            if section.key not in ELSEWHERE
            for row in section_rows(section, width)
        ),
    ]


def _nothing_yet(analysis: Analysis, width: int) -> Iterator[SheetRow]:
    if not analysis.metrics:
        words = "No benchmark has a verdict yet."
        if not isinstance(analysis, Overall):
            words = "This benchmark has no metrics yet."
        yield from paragraph(words, width, ink=Ink.MUTED)
    yield from paragraph("Nothing is scored yet, so there is nothing to say.", width, ink=Ink.MUTED)
    yield from paragraph(
        "Where no run is at work, 1 leads to the benchmarks, and b begins one.",
        width,
        ink=Ink.MUTED,
    )


def _answer(analysis: Analysis, width: int) -> Iterator[SheetRow]:
    for line in answer(analysis):
        ink = Ink.MUTED if line.kind is Certainty.OPEN else Ink.TEXT
        yield from paragraph(line.text, width, _mark(line), ink)
    yield from paragraph(legend([analysis]), width, ink=Ink.FAINT)
    yield SheetRow([])


def _mark(finding: Finding) -> Piece:
    return Piece(MARKS[finding.kind], _INKS[finding.kind])


def _findings(analysis: Analysis, width: int, *, in_full: bool) -> Iterator[SheetRow]:
    all_findings = other_findings(analysis)
    if not in_full:
        if all_findings:
            words = f"I: {plural(len(all_findings), 'finding')} in full"
            yield from paragraph(words, width, ink=Ink.FAINT)
        return
    if analysis.family.size:
        yield from paragraph(marks_mean(analysis), width, ink=Ink.MUTED)
    for finding in all_findings:
        yield from paragraph(finding.text, width, _mark(finding))
