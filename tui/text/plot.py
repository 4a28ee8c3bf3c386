"""Curves over turns. The library that draws them is loaded when they are first looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple

from tui.text.ink import Ink, Line, Piece, fitted, shorten_middle

LEAST: Final = (44, 11)
"""Cells and rows below which a plot says less than its table."""
MARKS: Final = (0, 25, 50, 75, 100)
_FIRST_COLOUR: Final = 101
"""The library's numbers for our curves begin here; what it draws around them has lower ones."""
_HEAD, _FOOT = 1, 2
"""Rows of its frame."""
_NAME: Final = 16
_CODES: Final = re.compile(r"\x1b\[([0-9;]*)m")
_COLOUR: Final = re.compile(r"38;5;(\d+)")

_library: ModuleType | None = None


def load() -> None:
    """Takes a moment: not for the screen's loop. Where the library is not built for a machine,
    there are no plots; what they show stands in their tables."""
    global _library
    with suppress(ImportError, OSError):
        _library = import_module("plotext")


class Curve(NamedTuple):
    """A share for each turn, from the first one on, and who it is about."""

    name: str
    shares: Sequence[float]
    ink: Ink


def plot(curves: Sequence[Curve], width: int, height: int) -> list[Line]:
    """The last curves lie above the first ones, and each has its name at its end. Nothing where
    there is no room, nothing to join, or no library."""
    if not curves or width < LEAST[0] or height < LEAST[1] or len(curves[0].shares) < 2:
        return []
    drawn = _drawn(curves, width - _NAME, height)
    if drawn is None:
        return []
    lines = [list(_inked(line, curves)) for line in drawn.splitlines()]
    for row, curve in _beside(curves, height):
        if row < len(lines):
            lines[row].append(Piece(" " + curve.name, curve.ink))
    return [fitted(line, width) for line in lines]


def _drawn(curves: Sequence[Curve], width: int, height: int) -> str | None:
    """As text with colours in it; None while there is no library."""
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


def _inked(line: str, curves: Sequence[Curve]) -> Iterator[Piece]:
    """The library's colours become inks, so that every theme fits."""
    ink = Ink.RULE
    for number, part in enumerate(_CODES.split(line)):
        if number % 2:
            found = _COLOUR.search(part)
            if found is not None:
                ink = _ink(int(found[1]), curves)
            elif part in {"", "0"}:
                ink = Ink.FAINT
        elif part:
            yield Piece(part, ink)


def _ink(colour: int, curves: Sequence[Curve]) -> Ink:
    place = colour - _FIRST_COLOUR
    return curves[place].ink if 0 <= place < len(curves) else Ink.FAINT


def _beside(curves: Sequence[Curve], height: int) -> Iterator[tuple[int, Curve]]:
    """In which row the name of each stands: where its curve ends, or the next that is free."""
    rows = height - _HEAD - _FOOT
    taken: set[int] = set()
    for curve in sorted(curves, key=lambda one: -one.shares[-1]):
        row = _HEAD + round((1 - curve.shares[-1]) * (rows - 1))
        while row in taken:
            row += 1
        taken.add(row)
        if row < height:
            yield row, curve._replace(name=shorten_middle(curve.name, _NAME - 2))
