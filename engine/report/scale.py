"""The scale of interval plots, on HTML pages and in the app."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

_STEPS: Final = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
# more labels would run into each other on a narrow plot
_MOST_STEPS: Final = 5
# otherwise differences of less than a point would fill the plot and look large
_NARROWEST: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    """The range and ticks of a plot; values are shares of 1."""

    low: float
    high: float
    step: float
    signed: bool = False
    """Whether its values are differences, with 0 within the range."""

    @property
    def ticks(self) -> list[float]:
        """The ticks from `low` to `high`, both included, without rounding noise."""
        count = round((self.high - self.low) / self.step)
        return [round(self.low + n * self.step, 9) for n in range(count + 1)]

    def share(self, value: float) -> float:
        """The place of a value on the scale, 0 to 1; values beyond an end are at it."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def percent(self, value: float) -> str:
        """The place of a value on the scale, as a CSS length."""
        return f"{self.share(value) * 100:.4g}%"

    def label(self, tick: float) -> str:
        """`25%`; for a difference, in points: `+25`, `−5`, `0`."""
        size = round(abs(tick) * 100)
        if not self.signed:
            return f"{size}%"
        return "0" if size == 0 else f"{'−' if tick < 0 else '+'}{size}"


RATES: Final = Scale(0.0, 1.0, 0.25)


def scale_of(differences: Iterable[float | None]) -> Scale:
    """A scale that contains all of these, and 0."""
    known = [0.0, *(difference for difference in differences if difference is not None)]
    low, high = min(known), max(known)
    width = max(_NARROWEST, high - low)
    step = next((step for step in _STEPS if width / step <= _MOST_STEPS), _STEPS[-1])
    # 1e-9 against rounding, where an end is a whole number of steps
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return Scale(first * step, max(last, first + 1) * step, step, signed=True)
