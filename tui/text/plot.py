"""Draw curves over turns, and values with intervals on a scale. The library that draws curves is
loaded when curves are first shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from types import ModuleType
from typing import Final, NamedTuple

from engine.report.scale import Scale
from tui.text.ink import Ink, Line, Piece, fitted_line, told_apart

LEAST: Final = (44, 11)
"""The fewest cells and rows of a plot; a smaller one says less than its table."""
MARKS: Final = (0, 25, 50, 75, 100)
_FIRST_COLOUR: Final = 101
"""The library's colour number of our first curve; those of its frame are lower."""
_HEAD, _FOOT = 1, 2
"""Rows of the library's frame above and below the curves."""
_NAME: Final = 16
_CODES: Final = re.compile(r"\x1b\[([0-9;]*)m")
_COLOUR: Final = re.compile(r"38;5;(\d+)")

_library: ModuleType | None = None


def load() -> None:
    """Import the plotting library. Slow, so do not call it on the event loop. If the library is not
    available on this machine, there are no plots; their tables show the same figures."""
    global _library
    with suppress(ImportError, OSError):
        _library = import_module("plotext")


class Curve(NamedTuple):
    """A named curve: a share, 0 to 1, for each turn from the first on."""

    name: str
    shares: Sequence[float]
    ink: Ink


def plot(curves: Sequence[Curve], width: int, height: int) -> list[Line]:
    """Draw curves, each with its name at its end; later curves cover earlier ones. Returns no lines
    if there is too little room, fewer than two turns, or no library."""
    if not curves or width < LEAST[0] or height < LEAST[1] or len(curves[0].shares) < 2:
        return []
    drawn = _draw_curves(curves, width - _NAME, height)
    if drawn is None:
        return []
    lines = [list(_ink_line(line, curves)) for line in drawn.splitlines()]
    for row, curve in _name_rows(curves, height):
        if row < len(lines):
            lines[row].append(Piece(" " + curve.name, curve.ink))
    return [fitted_line(line, width) for line in lines]


def _draw_curves(curves: Sequence[Curve], width: int, height: int) -> str | None:
    """The library's output, with colour codes; None if the library is not loaded."""
    if _library is None:
        return None
    figure = _library.figure
    figure.clear()
    figure.plot_size(width, height)
    for number, curve in enumerate(curves):
        marker = _library.marker("braille").fill(_FIRST_COLOUR + number)
        turns = range(1, len(curve.shares) + 1)
        shares = [share * 100 for share in curve.shares]
        figure.draw(figure.signal(list(turns), shares, marker=marker).lines())
    across, up = figure.ruler("x"), figure.ruler("y")
    up.lim(MARKS[0], MARKS[-1])
    up.ticks(list(MARKS), [f"{mark}%" for mark in MARKS])
    last = len(curves[0].shares)
    across.lim(1, last)
    step = max(1, last // 10)
    shown = list(range(1, last + 1, step))
    across.ticks(shown, [str(turn) for turn in shown])
    return str(figure.build().string())


def _ink_line(line: str, curves: Sequence[Curve]) -> Iterator[Piece]:
    """Replace the library's colours by inks, so that the plot fits every theme."""
    ink = Ink.RULE
    # split at a pattern with one group gives text and codes in turn
    for number, part in enumerate(_CODES.split(line)):
        if number % 2:
            colour = _COLOUR.search(part)
            if colour is not None:
                ink = _ink(int(colour[1]), curves)
            elif part in {"", "0"}:
                ink = Ink.FAINT
        elif part:
            yield Piece(part, ink)


def _ink(colour: int, curves: Sequence[Curve]) -> Ink:
    place = colour - _FIRST_COLOUR
    return curves[place].ink if 0 <= place < len(curves) else Ink.FAINT


def _name_rows(curves: Sequence[Curve], height: int) -> Iterator[tuple[int, Curve]]:
    """The row of each curve's name: where the curve ends, or the next free row."""
    rows = height - _HEAD - _FOOT
    taken: set[int] = set()
    names = told_apart(tuple(curve.name for curve in curves), _NAME - 2)
    for curve in sorted(curves, key=lambda curve: -curve.shares[-1]):
        row = _HEAD + round((1 - curve.shares[-1]) * (rows - 1))
        while row in taken:
            row += 1
        taken.add(row)
        if row < height:
            yield row, curve._replace(name=names[curve.name])


@dataclass(frozen=True, slots=True)
class Whiskers:
    """A value, with the ends of its interval if known."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sure: bool = True
    """False draws a hollow dot: the value is not reliable."""
    ink: Ink = Ink.ACCENT


def tick_line(scale: Scale, width: int) -> Line:
    """Label the ticks of a scale that is `width` cells wide, where there is room: all, or every
    second one, or the two ends, which show the scale's range, and what fits between them."""
    ticks = scale.ticks
    if len(ticks) % 2 and len(_ticked(scale, ticks, width).split()) < len(ticks):
        ticks = ticks[::2]
    return [Piece(_ticked(scale, ticks, width), Ink.FAINT)]


def _ticked(scale: Scale, ticks: Sequence[float], width: int) -> str:
    text = [" "] * width
    first, *between, last = ticks
    for tick in (first, last, *between):
        label = scale.label(tick)
        most = max(width - len(label), 0)
        start = min(max(_cell(scale, tick, width) - len(label) // 2, 0), most)
        end = start + len(label)
        if not "".join(text[max(start - 1, 0) : end + 1]).strip():
            text[start:end] = label
    return "".join(text)[:width]


def whiskers(drawn: Whiskers, scale: Scale, width: int) -> Line:
    """Draw a value with its interval on a scale that is `width` cells wide."""
    cells = _ground_cells(scale, width)
    if drawn.low is not None and drawn.high is not None:
        _draw_across(cells, scale, drawn.low, drawn.high, Piece("─", drawn.ink))
        # the ends after the line and the value last: if two share a cell, the more important one is
        # visible
        cells[_cell(scale, drawn.low, width)] = Piece("├", drawn.ink)
        cells[_cell(scale, drawn.high, width)] = Piece("┤", drawn.ink)
    if drawn.value is not None:
        cells[_cell(scale, drawn.value, width)] = Piece("●" if drawn.sure else "○", drawn.ink)
    return _join_cells(cells)


def change_line(before: float, after: float, scale: Scale, width: int, ink: Ink) -> Line:
    """Draw the change of a value from `before` to `after`."""
    cells = _ground_cells(scale, width)
    start, end = _cell(scale, before, width), _cell(scale, after, width)
    _draw_across(cells, scale, min(before, after), max(before, after), Piece("─", ink))
    # the old value first, so that the new one is visible if both share a cell
    cells[start] = Piece("○", Ink.MUTED)
    cells[end] = Piece("●" if start == end else "▶" if end > start else "◀", ink)
    return _join_cells(cells)


def _cell(scale: Scale, value: float, width: int) -> int:
    return round(scale.share(value) * (width - 1))


def _ground_cells(scale: Scale, width: int) -> list[Piece]:
    cells = [Piece(" ")] * width
    for tick in scale.ticks:
        nothing = scale.signed and tick == 0
        cells[_cell(scale, tick, width)] = Piece("│" if nothing else "┊", Ink.RULE)
    return cells


def _draw_across(cells: list[Piece], scale: Scale, low: float, high: float, piece: Piece) -> None:
    width = len(cells)
    for cell in range(_cell(scale, low, width), _cell(scale, high, width) + 1):
        cells[cell] = piece


def _join_cells(cells: Sequence[Piece]) -> Line:
    return [
        Piece("".join(piece.text for piece in pieces), ink)
        for ink, pieces in groupby(cells, key=lambda piece: piece.ink)
    ]
