"""What stood on a terminal, moment by moment, as one picture that moves: an SVG of rows, each drawn
once, and a strip of frames that a style sheet moves past. It runs no script and fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final, NamedTuple

from pyte.screens import Char, Screen

_ACROSS: Final = 8.4
_DOWN: Final = 18
_BASELINE: Final = 13.5
_MARGIN: Final = 12
_FONT: Final = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_BASIC: Final[Mapping[str, str]] = {
    "black": "#1c1c1c",
    "red": "#d75f5f",
    "green": "#87af87",
    "brown": "#d7af5f",
    "blue": "#5f87af",
    "magenta": "#af87af",
    "cyan": "#5fafaf",
    "white": "#d0d0d0",
}
"""The colours that terminals have names for; all others come as six digits."""

Row = str
"""A line of the screen, drawn; two that look alike are equal."""


class Frame(NamedTuple):
    """A screen that stood for a while."""

    seconds: float
    rows: tuple[Row, ...]


class Ink(NamedTuple):
    """How cells beside each other are drawn."""

    fore: str
    back: str
    bold: bool
    underlined: bool


def rows_of(screen: Screen, *, fore: str, back: str) -> tuple[Row, ...]:
    """What stands on a screen now. `fore` and `back` are what cells have that ask for none."""
    return tuple(
        "".join(_runs([screen.buffer[line][cell] for cell in range(screen.columns)], fore, back))
        for line in range(screen.lines)
    )


def film(frames: Sequence[Frame], size: tuple[int, int], *, back: str, title: str) -> str:
    """Frames one after the other, again and again; for who wants no motion, the last one."""
    across, down = size
    width, height = across * _ACROSS, down * _DOWN
    drawn = list(dict.fromkeys(row for frame in frames for row in frame.rows))
    number = {row: place for place, row in enumerate(drawn)}
    defined = "".join(f'<g id="r{number[row]}">{row}</g>' for row in drawn if row)
    strip = "".join(
        f'<use href="#r{number[row]}" y="{_number(frame * height + line * _DOWN)}"/>'
        for frame, one in enumerate(frames)
        for line, row in enumerate(one.rows)
        if row
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_number(width + 2 * _MARGIN)} \
{_number(height + 2 * _MARGIN)}">
<title>{escape(title)}</title>
<style>
text {{ font: 14px {_FONT}; white-space: pre }}
.b {{ font-weight: bold }}
.u {{ text-decoration: underline }}
.film {{ animation: film {_number(sum(one.seconds for one in frames))}s step-end infinite }}
@keyframes film {{ {"".join(_keyframes(frames, height))}}}
@media (prefers-reduced-motion) {{
.film {{ animation: none; transform: translateY({_number(-(len(frames) - 1) * height)}px) }}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="{back}"/>
<defs>{defined}</defs>
<svg x="{_MARGIN}" y="{_MARGIN}" width="{_number(width)}" height="{_number(height)}">
<g class="film">{strip}</g>
</svg>
</svg>
"""


def _keyframes(frames: Sequence[Frame], height: float) -> Iterator[str]:
    whole = sum(frame.seconds for frame in frames)
    begins = 0.0
    for place, frame in enumerate(frames):
        share = 100 * begins / whole
        yield f"{share:.3f}% {{ transform: translateY({_number(-place * height)}px) }} "
        begins += frame.seconds


def _runs(cells: Sequence[Char], fore: str, back: str) -> Iterator[str]:
    """The line's pieces of one ink each; blank ones only where they are coloured."""
    place = 0
    for ink, some in groupby(cells, key=lambda cell: _ink(cell, fore, back)):
        run = list(some)
        left, width = _number(place * _ACROSS), _number(len(run) * _ACROSS)
        place += len(run)
        if ink.back != back:
            yield f'<rect x="{left}" width="{width}" height="{_DOWN}" fill="{ink.back}"/>'
        # the second cell of a wide character is empty
        text = "".join(cell.data for cell in run).rstrip()
        if not text:
            continue
        drawn = _number(len("".join(cell.data or " " for cell in run).rstrip()) * _ACROSS)
        looks = " ".join(mark for mark, on in (("b", ink.bold), ("u", ink.underlined)) if on)
        marks = f' class="{looks}"' if looks else ""
        yield (
            f'<text x="{left}" y="{_BASELINE}" textLength="{drawn}" fill="{ink.fore}"{marks}>'
            f"{escape(text)}</text>"
        )


def _ink(cell: Char, fore: str, back: str) -> Ink:
    shown = _colour(cell.fg, fore), _colour(cell.bg, back)
    if cell.reverse:
        shown = shown[1], shown[0]
    return Ink(*shown, cell.bold, cell.underscore)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return _BASIC.get(name.removeprefix("bright"), f"#{name}")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
