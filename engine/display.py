"""Prepares text for display: makes foreign text harmless to a terminal, and puts amounts and rates
into words.

All stored or streamed text passes `clean` on its way to a terminal. It changes and drops
characters, so offsets (such as those of evidence) must be applied to the stored text first and the
pieces between them cleaned afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

TAB: Final = "    "
_MONOCHROME: Final = re.compile(r"vt\d+.*|.*-(mono|m)")
MARKS_IN_A_ROW: Final = 4
"""Combining marks can stack without end; no script needs more than this on one character."""

_REPLACEMENT: Final = "\ufffd"
_VANISH: Final = (0x200B, 0xFEFF, 0x2060, 0x00AD, 0xFFF9, 0xFFFA, 0xFFFB)
_REPLACED: Final = (
    *range(0x80, 0xA0),  # C1 controls: some terminals take them for escape sequences
    0x061C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x2028,
    0x2029,
    *range(0xD800, 0xE000),  # lone surrogates
    *range(0xE0000, 0xE0080),  # tags: invisible text
)
# U+2400 and up: visible symbols for the control characters, so that their presence shows
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
"""Where too many combining marks could be: these are neither word characters nor white space."""


def clean(text: str) -> str:
    """Remove or replace every character that acts on a terminal. Newlines and tabs stay."""
    # the fast path for nearly all text; CPython keeps the ASCII flag with each string
    if text.isascii() and text.isprintable():
        return text
    if _SUSPECT.search(text) is not None:
        text = text.translate(_TABLE)
    return text if text.isascii() else without_long_marks(text)


def without_long_marks(printable: str) -> str:
    """Clean text that `isprintable`, in which only long runs of combining marks can be left."""
    return _LONG_RUN.sub(_fewer_marks, printable)


def _fewer_marks(run: re.Match[str]) -> str:
    shown: list[str] = []
    marks = 0
    for char in run[0]:
        marks = marks + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        if marks <= MARKS_IN_A_ROW:
            shown.append(char)
    return "".join(shown)


def display_text(text: str) -> str:
    """`clean`, with tabs expanded to spaces, so that views of lines can wrap the text."""
    return clean(text).replace("\t", TAB)


def is_monochrome(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a terminal without colours."""
    has = environ.get("COLORTERM", "").strip()
    return not has and _MONOCHROME.fullmatch(environ.get("TERM", "").lower()) is not None


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
ASCII_SIGNS: Final[Mapping[int, str]] = {ord(pair[0]): pair[1] for pair in _SIGNS.split()}


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows no more, as far as the environment says; without a locale UTF-8
    is taken for granted, as most terminals know it."""
    asked = environ.get(ASCII_VARIABLE, "")
    if asked:
        return asked != "0"
    locale = next((environ[name] for name in _LOCALE if environ.get(name)), "UTF-8")
    return "utf8" not in locale.lower().replace("-", "")


def joined_names(names: Sequence[str]) -> str:
    """`a, b and c`; at least one name."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def plural(number: int, singular: str, many: str | None = None) -> str:
    """`1 row`, `2 rows`, `1,200 tries`; `many` defaults to `singular` with an s."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


def percent(rate: float | None) -> str:
    """`97%`; `100%` and `0%` only for exactly 1 and 0, `—` for None."""
    if rate is None:
        return "—"
    if 0 < rate < 1:
        return f"{min(99, max(1, round(rate * 100)))}%"
    return f"{rate:.0%}"


def span(low: float | None, high: float | None) -> str:
    """The interval of a rate in whole per cents: `[84–100]`.

    Ends are rounded, also to 0 and 100: unlike the rate of `percent`, they claim nothing of all or
    none, and an upper end of 0.996 written as 99 would leave out rates that the interval holds.
    Only a lower end of 100 and an upper end of 0 are exact, so that the rate, as `percent` writes
    it, lies within.
    """
    if low is None or high is None:
        return ""
    least = round(low * 100) if low >= 1 else min(99, round(low * 100))
    most = round(high * 100) if high <= 0 else max(1, round(high * 100))
    return f"[{least}–{most}]"


def one_line(text: str, limit: int = 400) -> str:
    """`clean`, on a single line and cut to `limit` characters, for a cell of a table."""
    return clean(" ".join(text[:limit].split()))


def marked_turns(marks: Sequence[bool]) -> str:
    """`turns 2 and 4 of 5`, `no turn of 5`."""
    shown = [str(turn) for turn, mark in enumerate(marks, 1) if mark]
    if not shown:
        return f"no turn of {len(marks)}"
    *others, last = shown
    turns = f"turns {', '.join(others)} and {last}" if others else f"turn {last}"
    return f"{turns} of {len(marks)}"
