"""Text as it is shown: that from models, files and people so that a terminal only shows it, and
amounts of things in words.

Everything that is stored or streamed passes `clean` on its way to a terminal. Characters change and
vanish in it, so offsets (such as those of evidence) are found in the stored text, and the pieces
between them are cleaned afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

TAB: Final = "    "
_MONOCHROME: Final = re.compile(r"vt\d+.*|.*-(mono|m)")
MARKS_IN_A_ROW: Final = 4
"""Combining marks stack upwards without end; no script needs more than this on one character."""

_REPLACEMENT: Final = "\ufffd"
_VANISH: Final = (0x200B, 0xFEFF, 0x2060, 0x00AD, 0xFFF9, 0xFFFA, 0xFFFB)
_REPLACED: Final = (
    *range(0x80, 0xA0),  # C1: some terminals take them for escape sequences
    0x061C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x2028,
    0x2029,
    *range(0xD800, 0xE000),  # half of a character
    *range(0xE0000, 0xE0080),  # tags: text that nobody sees
)
# U+2400 and up: pictures of the control characters, so that one sees that there was something
_PICTURES: Final = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}

_TABLE: Final[dict[int, int | str | None]] = {
    **_PICTURES,
    0x7F: 0x2421,
    **dict.fromkeys(_REPLACED, _REPLACEMENT),
    **dict.fromkeys(_VANISH),
}
_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_LONG_RUN: Final = re.compile(rf"[^\x00-\x7f\w\s]{{{MARKS_IN_A_ROW + 1},}}")
"""Where too many combining marks could be: they are neither letters nor blanks."""


def clean(text: str) -> str:
    """The same text, with nothing in it that acts on a terminal. Newlines and tabs stay."""
    # nearly all text; the flag for ASCII is kept with each string
    if text.isascii() and text.isprintable():
        return text
    if _SUSPECT.search(text) is not None:
        text = text.translate(_TABLE)
    return text if text.isascii() else _LONG_RUN.sub(_fewer_marks, text)


def _fewer_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in run[0]:
        marks = marks + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        if marks <= MARKS_IN_A_ROW:
            kept.append(char)
    return "".join(kept)


def drawn(text: str) -> str:
    """`clean`, with tabs as blanks: what a view of lines can wrap."""
    return clean(text).replace("\t", TAB)


def is_monochrome(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is one of those that have no colours."""
    has = environ.get("COLORTERM", "").strip()
    return not has and _MONOCHROME.fullmatch(environ.get("TERM", "").lower()) is not None


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`, `1,200 tries`; without `many`, more than one ends with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def one_line(text: str, limit: int = 400) -> str:
    """`clean`, on a single line, for a cell of a table."""
    return clean(" ".join(text[:limit].split()))


def marked_turns(marks: Sequence[bool]) -> str:
    """`turns 2 and 4 of 5`, `no turn of 5`."""
    shown = [str(turn) for turn, mark in enumerate(marks, 1) if mark]
    if not shown:
        return f"no turn of {len(marks)}"
    *others, last = shown
    told = f"turns {', '.join(others)} and {last}" if others else f"turn {last}"
    return f"{told} of {len(marks)}"
