"""Replace what is drawn by ASCII, for terminals that cannot show other characters."""

from __future__ import annotations

import unicodedata
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from engine.display import ASCII_SIGNS


class _LetterTable(dict[int, str]):
    """The replacements of characters, as wide as these; computed on first use."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
        width = cell_len(char)
        braille = 0x2800 < code < 0x2900  # the lines of a plot
        letters = "*" if braille else plain if len(plain) == width else "?" * width
        self[code] = letters
        return letters


_TABLE: Final = _LetterTable({code: chr(code) for code in range(128)})
_TABLE.update(ASCII_SIGNS)


class AsciiFilter(LineFilter):
    """A line filter that replaces by ASCII and keeps the width of each line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        if all(segment.text.isascii() for segment in segments):
            return segments
        return [
            Segment(in_ascii(segment.text), segment.style, segment.control) for segment in segments
        ]


def in_ascii(text: str) -> str:
    """The text in ASCII: other characters become a similar one of equal width, or `?`."""
    return text if text.isascii() else text.translate(_TABLE)
