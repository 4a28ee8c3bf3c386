"""Metric by target: what the heat map shows, and what is said of the cell under its cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.display import one_line
from engine.stages.analysis import Analysis, MetricInfo
from engine.stages.findings import percent, plural, span
from tui.results.behind import Behind
from tui.widgets.heat_map import Heat, HeatRow, Spot
from tui.widgets.ink import Ink, Line, Piece
from tui.wording import TRACK_SIGNS

SILENT: Final = {True: "≡ all pass", False: "≡ none pass"}
"""Marks of a metric that tells no targets apart."""


def heat(analysis: Analysis) -> tuple[Sequence[HeatRow], Sequence[str], Mapping[Spot, Heat]]:
    silent = {one.metric_id: SILENT[one.passed] for one in analysis.no_signal}
    rows = [HeatRow(_metric_name(metric), silent.get(metric.id, "")) for metric in analysis.metrics]
    cells = {
        Spot(row, column): Heat(found.rate, percent(found.rate))
        for row, metric in enumerate(analysis.metrics)
        for column, one in enumerate(analysis.targets)
        if (found := one.metrics.get(metric.id)) is not None
    }
    return rows, [one_line(one.target) for one in analysis.targets], cells


def told(analysis: Analysis, spot: Spot) -> tuple[Line, Line]:
    """Of a cell, in full."""
    behind = behind_spot(analysis, spot)
    if behind is None:
        return [Piece(" This benchmark has no metrics yet.", Ink.MUTED)], ()
    metric, one = analysis.metrics[spot.row], analysis.targets[spot.column]
    left = [
        Piece(" " + one_line(one.target), Ink.STRONG),
        Piece(f"  {_metric_name(metric)}  ", Ink.TEXT),
    ]
    if any(silent.metric_id == metric.id for silent in analysis.no_signal):
        left.insert(0, Piece(" ≡ tells nobody apart ", Ink.WARN))
    found = one.metrics.get(metric.id)
    if found is None or found.rate is None:
        return left, [Piece("nothing scored yet ", Ink.MUTED)]
    rows = f"{found.passed:,} of {found.scored:,} rows, "
    scenarios = plural(found.base_scenarios, "scenario")
    right = [
        Piece(f"{percent(found.rate)} {span(found.low, found.high)}  ", Ink.STRONG),
        Piece(rows + scenarios + " ", Ink.MUTED),
    ]
    return left, right


def behind_spot(analysis: Analysis, spot: Spot) -> Behind | None:
    if not (spot.row < len(analysis.metrics) and spot.column < len(analysis.targets)):
        return None
    return Behind((analysis.targets[spot.column].target,), metric=analysis.metrics[spot.row].id)


def _metric_name(metric: MetricInfo) -> str:
    return f"{TRACK_SIGNS[metric.track]} {one_line(metric.id)} {one_line(metric.name)}"
