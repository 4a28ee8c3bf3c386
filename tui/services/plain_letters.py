"""What is drawn, in ASCII: for a terminal that cannot show other characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

ASCII_VARIABLE: Final = "CROSSWIND_ASCII"
"""In the environment: 1 draws in ASCII, 0 does not, whatever the locale says."""
_LOCALE: Final = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first of them that is set counts."""
_SIGNS: Final = """\
✓v ✗x ·. •* ◇o ◆@ ○o ●@ ★* −- –- —- …~ ▸> ▾v ▴^ ▼v ▶> ◀< ‖= ×x →> ←< ↑^ ↓v ≡= ′' ‹< ›>
“" ”" ‘' ’' ─- ━= ╌- │| ┊: ├| ┤| ┌+ ┐+ └+ ┘+
▎| ▍| ▌| ▏| ▋| ▊| ▉| █# ▓% ▒+ ░: ▁_ ▂. ▃: ▄- ▅= ▆+ ▇*"""
"""Each with the one that stands for it. Signs that mean different things where they stand together
differ: pass, fail and unscored, both tracks, the parts of a bar, the heights of a line."""


class _Table(dict[int, str]):
    """What stands for a character, as wide as it is; worked out when it is met first."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
        width = cell_len(char)
        braille = 0x2800 < code < 0x2900  # the lines of a plot
        found = "*" if braille else plain if len(plain) == width else "?" * width
        self[code] = found
        return found


_TABLE: Final = _Table({code: chr(code) for code in range(128)})
_TABLE.update({ord(pair[0]): pair[1] for pair in _SIGNS.split()})


class AsciiFilter(LineFilter):
    """Keeps each line as wide as it was."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if all(segment.text.isascii() for segment in segments):
            return segments
        return [Segment(in_ascii(each.text), each.style, each.control) for each in segments]


def in_ascii(text: str) -> str:
    """With a sign of ASCII for every other one, as wide as that: its like, or `?`."""
    return text if text.isascii() else text.translate(_TABLE)


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows no more, as far as the environment says; without a locale UTF-8
    is taken for granted, as most terminals know it."""
    asked = environ.get(ASCII_VARIABLE, "")
    if asked:
        return asked != "0"
    locale = next((environ[name] for name in _LOCALE if environ.get(name)), "UTF-8")
    return "utf8" not in locale.lower().replace("-", "")
