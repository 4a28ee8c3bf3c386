"""Who differs from whom: target against target, and one group of people against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.analysis.figures import Analysis, Comparison, Gap, TargetResult
from engine.analysis.findings import chance, metrics_of, percent, plural, points, reach
from engine.cli.html_report.markup import Markup, Piece, element
from engine.cli.html_report.parts import (
    Frame,
    cell,
    head,
    named,
    row,
    sure_cell,
    table,
    value_cell,
)
from engine.cli.html_report.plots import RATES, Scale, groups_plot, interval_plot, scale_of

_AT_ONCE: Final = 24
"""Pairs that are shown at once; more of them are folded away, the clearest ones first."""
_KEYS: Final = 4
"""Colours of groups, after which they begin again."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A difference as it is told: from the side that passes more often."""

    more: str
    less: str
    size: float
    low: float | None
    high: float | None
    p: float | None
    base_scenarios: int
    real: bool

    @classmethod
    def of(cls, one: Comparison | Gap) -> _Told:
        scenarios = one.base_scenarios
        if one.difference >= 0:
            ends = one.low, one.high
            return cls(
                one.left, one.right, one.difference, *ends, one.p_adjusted, scenarios, one.real
            )
        turned = None if one.high is None else -one.high, None if one.low is None else -one.low
        return cls(
            one.right, one.left, -one.difference, *turned, one.p_adjusted, scenarios, one.real
        )

    @property
    def ends(self) -> str:
        return reach(self.low, self.high)


def comparisons(analysis: Analysis, frame: Frame) -> Markup | None:
    if not analysis.comparisons:
        return None
    content: list[Piece] = []
    for track in analysis.compared_on:
        told = sorted(map(_Told.of, analysis.compared(track)), key=_clearest)
        real = sum(one.real for one in told)
        content += [
            frame.heading(metrics_of(track).capitalize()),
            element("p", f"{real} of {plural(len(told), 'difference')} real.", class_="why"),
            _forest(told),
        ]
    why = (
        "By how much the first of two targets passes more often, on the scenarios that both were "
        "judged on. A difference is called real where p, adjusted for the number of pairs (Holm), "
        "is below .05; its dot is filled. All metrics together rest on more scenarios than either "
        "track, so they can tell more."
    )
    return frame.part("comparisons", "Target against target", why, *content)


def _clearest(one: _Told) -> tuple[bool, float]:
    return not one.real, -one.size


def _forest(told: Sequence[_Told]) -> list[Markup]:
    scale = scale_of([end for one in told for end in (one.size, one.low, one.high)])
    heads = [
        head("Passes more often"),
        head(scale.axis(), kind="plotted", label="Plot of the difference"),
        head("Points [95 %]"),
        head("Sure"),
        head("Rests on"),
    ]
    rows = [_pair(one, scale) for one in told]
    drawn = [table(None, heads, rows[:_AT_ONCE], stacks=True)]
    if rows[_AT_ONCE:]:
        rest = table(None, heads, rows[_AT_ONCE:], stacks=True)
        summary = element("summary", f"{len(rows) - _AT_ONCE} more pairs")
        drawn.append(element("details", summary, rest))
    return drawn


def _pair(one: _Told, scale: Scale) -> Markup:
    than = " as often as " if one.size == 0 else " than "
    said = f"{one.more}{than}{one.less}: {points(one.size)} {one.ends}"
    plot = interval_plot((one.size, one.low, one.high), scale, said=said, hollow=not one.real)
    return row(
        [named(one.more), element("small", than, named(one.less))],
        cell(plot, kind="plotted"),
        value_cell(_points(one.size), one.ends),
        sure_cell(real=one.real, chance=chance(one.p)),
        cell(plural(one.base_scenarios, "scenario"), kind="rests"),
    )


def _points(size: float) -> str:
    return "<1" if 0 < size < 0.005 else f"{size * 100:.0f}"


# People


def people(analysis: Analysis, frame: Frame) -> Markup | None:
    if not analysis.axes:
        return None
    content: list[Piece] = []
    for axis in analysis.axes:
        content += [frame.heading(named(axis)), _axis(analysis, axis)]
    pooled = [_Told.of(gap) for gap in analysis.gaps if gap.target is None]
    if pooled:
        content += [frame.heading("All targets together"), _forest(pooled)]
    why = (
        "The same base scenario, told by different people: does a target treat them alike? Both "
        "tracks are counted together. A gap is taken between variants of one base scenario that "
        "differ in this alone, and adjusted (Holm) over all gaps of a target."
    )
    return frame.part("people", "Who is asking", why, *content)


def _axis(analysis: Analysis, axis: str) -> Markup:
    values = sorted({value for one in analysis.targets for value in one.demographics.get(axis, {})})
    heads = [
        head("Target"),
        head(RATES.axis(), kind="plotted", label="Plot of the pass rates"),
        *(head([_key(place), named(value)], kind="number") for place, value in enumerate(values)),
        head("Widest gap [95 %]"),
        head("Sure"),
    ]
    rows = [_of_target(analysis, one, axis, values) for one in analysis.targets]
    return table(None, heads, rows, stacks=True)


def _key(place: int) -> Markup:
    return element("span", class_=f"key k{place % _KEYS}")


def _of_target(analysis: Analysis, one: TargetResult, axis: str, values: Sequence[str]) -> Markup:
    cells = one.demographics.get(axis, {})
    rates = [cells[value].rate if value in cells else None for value in values]
    gaps = [_Told.of(gap) for gap in analysis.gaps if (gap.axis, gap.target) == (axis, one.target)]
    widest = max(gaps, key=lambda gap: (gap.real, gap.size), default=None)
    said = ", ".join(f"{value} {percent(rate)}" for value, rate in zip(values, rates, strict=True))
    plot = groups_plot([rate for rate in rates if rate is not None], said=f"{one.target}: {said}")
    return row(
        named(one.target),
        cell(plot, kind="plotted"),
        [
            cell(element("span", _key(place), class_="inline"), percent(rate), kind="number")
            for place, rate in enumerate(rates)
        ],
        cell("—") if widest is None else value_cell(_points(widest.size), widest.ends),
        cell() if widest is None else sure_cell(real=widest.real, chance=chance(widest.p)),
    )
