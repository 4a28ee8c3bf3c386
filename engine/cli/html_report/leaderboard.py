"""Who passes how often: the leaderboard, and each metric by target."""

from __future__ import annotations

from typing import Final

from engine.analysis.figures import Analysis, Estimate, TargetResult
from engine.analysis.findings import percent, plural, span
from engine.benchmark import Track
from engine.cli.html_report.markup import Markup, Piece, element
from engine.cli.html_report.parts import Frame, cell, head, named, row, table, value_cell
from engine.cli.html_report.plots import RATES, interval_plot

_HEAT_STEPS: Final = 10


def leaderboard(analysis: Analysis, frame: Frame) -> Markup:
    tables: list[Piece] = []
    for track in analysis.tracks:
        wanted = "should be there" if track is Track.POSITIVE else "should not be there"
        tables += [
            frame.heading(f"{str(track).capitalize()} metrics"),
            _ranking(analysis, track, f"Behaviour that {wanted}: how often that held."),
        ]
    why = (
        "The dot is the pass rate of what was judged, the line its 95 % interval: were the "
        "benchmark made again from as many scenarios of the same kind, 19 of 20 such lines would "
        "hold the rate that is true for this kind."
    )
    return frame.part("leaderboard", "Leaderboard", why, *tables)


def _ranking(analysis: Analysis, track: Track, caption: str) -> Markup:
    targets = sorted(analysis.targets, key=lambda one: _standing(one.tracks[track]))
    ranked = any(track in one.ranks for one in targets)
    heads = [
        head("Target"),
        head("Rank", kind="number") if ranked else None,
        head(RATES.axis(), kind="plotted", label="Interval plot"),
        head("Rate [95 %]"),
        head("Rests on"),
    ]
    rows = [_ranked(one, track, ranked=ranked) for one in targets]
    return table(caption, heads, rows, stacks=True)


def _standing(estimate: Estimate) -> tuple[bool, float]:
    return estimate.rate is None, -(estimate.rate or 0.0)


def _ranked(one: TargetResult, track: Track, *, ranked: bool) -> Markup:
    estimate = one.tracks[track]
    ends = span(estimate.low, estimate.high)
    rank = one.ranks.get(track)
    plot = interval_plot(
        (estimate.rate, estimate.low, estimate.high),
        RATES,
        said=f"{one.target}: {percent(estimate.rate)} {ends}",
        hollow=estimate.too_few,
    )
    return row(
        named(one.target),
        cell("—" if rank is None else str(rank), kind="number") if ranked else None,
        cell(plot, kind="plotted"),
        value_cell(percent(estimate.rate), ends),
        cell(*_rests(estimate), kind="rests"),
    )


def _rests(estimate: Estimate) -> list[Piece]:
    said: list[Piece] = [
        f"{estimate.passed} of {plural(estimate.scored, 'row')} in "
        f"{plural(estimate.base_scenarios, 'scenario')}"
    ]
    if estimate.scored and estimate.too_few:
        said += [" ", element("span", "too few to rank", class_="tag")]
    if estimate.missing:
        said += [
            element("br"),
            f"{estimate.missing:,} unscored: {percent(estimate.if_missing_failed)} to "
            f"{percent(estimate.if_missing_passed)} with them",
        ]
    return said


def heat_map(analysis: Analysis, frame: Frame) -> Markup | None:
    metrics = [
        one for one in analysis.metrics if any(one.id in at.metrics for at in analysis.targets)
    ]
    if not metrics:
        return None
    silent = {one.metric_id: one for one in analysis.no_signal}
    heads = [head("Metric", kind="first"), *(head(named(one.target)) for one in analysis.targets)]
    rows = [
        row(
            [
                named(metric.name),
                _no_signal(silent[metric.id].passed) if metric.id in silent else None,
                element("small", f"{metric.id} · {metric.track}"),
            ],
            [_heat(one.metrics.get(metric.id)) for one in analysis.targets],
        )
        for metric in metrics
    ]
    why = (
        "How often each target passes each metric; for a negative metric, passing means that the "
        "behaviour was not there. A cell rests on the few scenarios of its metric: read rows and "
        "columns, not single cells."
    )
    drawn = table(None, heads, rows, kind="heat", stacks=False)
    return frame.part("metrics", "Metric by target", why, drawn)


def _no_signal(passed: bool) -> list[Piece]:  # noqa: FBT001  (which of the two it is)
    how = "all pass always" if passed else "none ever passes"
    return [" ", element("span", f"no signal: {how}", class_="tag")]


def _heat(estimate: Estimate | None) -> Markup:
    if estimate is None or estimate.rate is None:
        return cell("—", kind="none")
    rests = f"{estimate.passed}/{estimate.scored} "
    ends = element("span", span(estimate.low, estimate.high), class_="ends")
    step = round(estimate.rate * _HEAT_STEPS)
    return cell(percent(estimate.rate), element("small", rests, ends), kind=f"h{step}")
