"""Values with their intervals, drawn on a scale in the cells of a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor
from typing import Final

from rich.cells import cell_len

from tui.text.ink import Ink, Line, Piece

_STEPS: Final = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_STEPS: Final = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """From which value to which a drawing reaches, and where its marks are."""

    low: float
    high: float
    step: float
    signed: bool = False
    """Whether its values are differences, with nothing somewhere between."""

    @property
    def ticks(self) -> list[float]:
        count = round((self.high - self.low) / self.step)
        return [round(self.low + n * self.step, 9) for n in range(count + 1)]

    def cell(self, value: float, width: int) -> int:
        """The cell in which a value stands; what lies beyond an end stands at it."""
        share = (value - self.low) / (self.high - self.low)
        return round(min(1.0, max(0.0, share)) * (width - 1))

    def axis(self, width: int) -> Line:
        """What the marks stand for."""
        text = [" "] * width
        free = 0
        for tick in self.ticks:
            said = self._said(tick)
            start = min(
                max(self.cell(tick, width) - cell_len(said) // 2, 0), width - cell_len(said)
            )
            if start >= free:
                text[start : start + len(said)] = said
                free = start + cell_len(said) + 1
        return [Piece("".join(text)[:width], Ink.FAINT)]

    def _said(self, tick: float) -> str:
        size = round(abs(tick) * 100)
        if not self.signed:
            return f"{size}%"
        return "0" if size == 0 else f"{'−' if tick < 0 else '+'}{size}"


RATES: Final = Scale(0.0, 1.0, 0.25)
COEFFICIENTS: Final = Scale(-1.0, 1.0, 0.5, signed=True)


def scale_of(values: Iterable[float | None]) -> Scale:
    """One that holds all these differences, and nothing."""
    known = [0.0, *(value for value in values if value is not None)]
    low, high = min(known), max(known)
    width = max(0.05, high - low)
    step = next((step for step in _STEPS if width / step <= _MOST_STEPS), _STEPS[-1])
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return Scale(first * step, max(last, first + 1) * step, step, signed=True)


@dataclass(frozen=True, slots=True)
class Whiskers:
    """A value with the ends of its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sure: bool = True
    """A hollow dot says that it is not to be relied on."""
    ink: Ink = Ink.ACCENT
    bounds: tuple[float, float] | None = None
    """How far it could lie at either side, whatever is not known yet."""


def whiskers(drawn: Whiskers, scale: Scale, width: int) -> Line:
    """As many cells as `width`."""
    cells = _ground(scale, width)
    if drawn.bounds is not None:
        _across(cells, scale, *drawn.bounds, Piece("╌", Ink.WARN))
    if drawn.low is not None and drawn.high is not None:
        _across(cells, scale, drawn.low, drawn.high, Piece("─", drawn.ink))
        cells[scale.cell(drawn.low, width)] = Piece("├", drawn.ink)
        cells[scale.cell(drawn.high, width)] = Piece("┤", drawn.ink)
    if drawn.value is not None:
        cells[scale.cell(drawn.value, width)] = Piece("●" if drawn.sure else "○", drawn.ink)
    return _joined(cells)


def moved(before: float, after: float, scale: Scale, width: int, ink: Ink) -> Line:
    """From where to where a value went."""
    cells = _ground(scale, width)
    start, end = scale.cell(before, width), scale.cell(after, width)
    _across(cells, scale, min(before, after), max(before, after), Piece("─", ink))
    cells[start] = Piece("○", Ink.MUTED)
    cells[end] = Piece("●" if start == end else "▶" if end > start else "◀", ink)
    return _joined(cells)


def _ground(scale: Scale, width: int) -> list[Piece]:
    cells = [Piece(" ")] * width
    for tick in scale.ticks:
        nothing = scale.signed and tick == 0
        cells[scale.cell(tick, width)] = Piece("│" if nothing else "┊", Ink.RULE)
    return cells


def _across(cells: list[Piece], scale: Scale, low: float, high: float, piece: Piece) -> None:
    width = len(cells)
    for cell in range(scale.cell(low, width), scale.cell(high, width) + 1):
        cells[cell] = piece


def _joined(cells: Sequence[Piece]) -> Line:
    return [
        Piece("".join(piece.text for piece in pieces), ink)
        for ink, pieces in groupby(cells, key=lambda piece: piece.ink)
    ]
