"""Values with their intervals, drawn on a scale in the cells of a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.report.scale import Scale
from tui.text.ink import Ink, Line, Piece


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


def tick_line(scale: Scale, width: int) -> Line:
    """The labels of its ticks, each where there is room for it, in as many cells as `width`."""
    text = [" "] * width
    free = 0
    for tick in scale.ticks:
        label = scale.label(tick)
        most = width - len(label)
        start = min(max(_cell(scale, tick, width) - len(label) // 2, 0), most)
        if start >= free:
            text[start : start + len(label)] = label
            free = start + len(label) + 1
    return [Piece("".join(text)[:width], Ink.FAINT)]


def whiskers(drawn: Whiskers, scale: Scale, width: int) -> Line:
    """The value with its interval on the scale, in as many cells as `width`."""
    cells = _ground(scale, width)
    if drawn.bounds is not None:
        _across(cells, scale, *drawn.bounds, Piece("╌", Ink.WARN))
    if drawn.low is not None and drawn.high is not None:
        _across(cells, scale, drawn.low, drawn.high, Piece("─", drawn.ink))
        cells[_cell(scale, drawn.low, width)] = Piece("├", drawn.ink)
        cells[_cell(scale, drawn.high, width)] = Piece("┤", drawn.ink)
    if drawn.value is not None:
        cells[_cell(scale, drawn.value, width)] = Piece("●" if drawn.sure else "○", drawn.ink)
    return _joined(cells)


def moved(before: float, after: float, scale: Scale, width: int, ink: Ink) -> Line:
    """From where to where a value went."""
    cells = _ground(scale, width)
    start, end = _cell(scale, before, width), _cell(scale, after, width)
    _across(cells, scale, min(before, after), max(before, after), Piece("─", ink))
    # where it came from first, so that where it went to is seen when both share a cell
    cells[start] = Piece("○", Ink.MUTED)
    cells[end] = Piece("●" if start == end else "▶" if end > start else "◀", ink)
    return _joined(cells)


def _cell(scale: Scale, value: float, width: int) -> int:
    return round(scale.share(value) * (width - 1))


def _ground(scale: Scale, width: int) -> list[Piece]:
    cells = [Piece(" ")] * width
    for tick in scale.ticks:
        nothing = scale.signed and tick == 0
        cells[_cell(scale, tick, width)] = Piece("│" if nothing else "┊", Ink.RULE)
    return cells


def _across(cells: list[Piece], scale: Scale, low: float, high: float, piece: Piece) -> None:
    width = len(cells)
    for cell in range(_cell(scale, low, width), _cell(scale, high, width) + 1):
        cells[cell] = piece


def _joined(cells: Sequence[Piece]) -> Line:
    return [
        Piece("".join(piece.text for piece in pieces), ink)
        for ink, pieces in groupby(cells, key=lambda piece: piece.ink)
    ]
