"""Plots as SVG that takes the width it is given, drawn in per cent of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from engine.cli.html_report.markup import Markup, element

_HEIGHT: Final = 26
_MIDDLE: Final = _HEIGHT / 2
_CAP: Final = 4
_STEPS: Final = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """From which value to which a plot reaches, and where its lines are."""

    low: float
    high: float
    step: float
    signed: bool = False
    """Whether its values are differences, with nothing somewhere between."""

    @property
    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [round(self.low + n * self.step, 9) for n in range(count + 1)]

    def at(self, value: float) -> str:
        """Where a value stands, in per cent of the width."""
        share = (value - self.low) / (self.high - self.low)
        return f"{min(1.0, max(0.0, share)) * 100:.4g}%"

    def axis(self) -> Markup:
        """What the lines stand for, in points or per cent; for the head of a column of plots."""
        return element(
            "svg",
            [
                element("text", self._said(tick), x=self.at(tick), y=11, text_anchor="middle")
                for tick in self.ticks
            ],
            width="100%",
            height=14,
            class_="axis",
            aria_hidden="true",
        )

    def _said(self, tick: float) -> str:
        size = round(abs(tick) * 100)
        if not self.signed:
            return f"{size}%"
        return "0" if size == 0 else f"{'−' if tick < 0 else '+'}{size}"


RATES: Final = Scale(0.0, 1.0, 0.25)


def scale_of(values: Iterable[float | None]) -> Scale:
    """One that holds all these differences, and nothing."""
    known = [0.0, *(value for value in values if value is not None)]
    low, high = min(known), max(known)
    width = max(0.05, high - low)
    step = next((step for step in _STEPS if width / step <= _MOST_STEPS), _STEPS[-1])
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return Scale(first * step, max(last, first + 1) * step, step, signed=True)


def interval_plot(
    figure: tuple[float | None, float | None, float | None],
    scale: Scale,
    *,
    said: str,
    hollow: bool,
) -> Markup:
    """A value with the ends of its interval, `hollow` where it is not to be relied on; an empty
    plot where there is no value."""
    value, low, high = figure
    drawn: list[Markup] = []
    if low is not None and high is not None:
        drawn.append(_across(scale, low, high, "whisker"))
        drawn += [_upright(scale, end, "whisker", _CAP) for end in (low, high)]
    if value is not None:
        drawn.append(_dot(scale, value, "point hollow" if hollow else "point"))
    return _plot(scale, drawn, said=said, faint=hollow)


def groups_plot(rates: Sequence[float], *, said: str) -> Markup:
    """Rates of groups on one line, so that the distance between them is seen."""
    drawn = [_across(RATES, min(rates), max(rates), "span")] if rates else []
    drawn += [_dot(RATES, rate, f"group g{place % 4}") for place, rate in enumerate(rates)]
    return _plot(RATES, drawn, said=said, faint=False)


def _plot(scale: Scale, drawn: Sequence[Markup], *, said: str, faint: bool) -> Markup:
    lines = [
        _upright(scale, tick, "nothing" if scale.signed and tick == 0 else "grid", _MIDDLE)
        for tick in scale.ticks
    ]
    return element(
        "svg",
        lines,
        drawn,
        role="img",
        aria_label=said,
        width="100%",
        height=_HEIGHT,
        class_="plot faint" if faint else "plot",
    )


def _across(scale: Scale, low: float, high: float, kind: str) -> Markup:
    return element("line", x1=scale.at(low), x2=scale.at(high), y1=_MIDDLE, y2=_MIDDLE, class_=kind)


def _upright(scale: Scale, at: float, kind: str, size: float) -> Markup:
    where = scale.at(at)
    return element("line", x1=where, x2=where, y1=_MIDDLE - size, y2=_MIDDLE + size, class_=kind)


def _dot(scale: Scale, at: float, kind: str) -> Markup:
    return element("circle", cx=scale.at(at), cy=_MIDDLE, r=5, class_=kind)
