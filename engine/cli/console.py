"""Where the headless commands speak: results to stdout, all else to stderr, as plain text."""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Sequence
from typing import Final
from unicodedata import east_asian_width

from engine.display import clean

_PLAINER: Final = str.maketrans(
    {"─": "-", "–": "-", "—": "-", "−": "-", "·": ".", "…": "...", "✓": "+", "✗": "x", "’": "'"}
)


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """What a terminal of another encoding is shown in place of characters that it has not."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAINER)
    return text.encode(error.encoding, "replace").decode(error.encoding), error.end


def take_any_encoding() -> None:
    """Print what a terminal can show, and something like it for the rest, rather than fail."""
    # an error handler and not `errors="replace"`: a table of question marks cannot be read
    codecs.register_error("crosswind", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="crosswind")


def out(text: str = "") -> None:
    """A line of the result."""
    print(clean(text))  # noqa: T201  (the one place that writes results)


def out_json(value: object) -> None:
    """The result for a script: whatever a model said, escaped as JSON does it."""
    print(json.dumps(value, indent=2, ensure_ascii=True))  # noqa: T201


def tell(text: str) -> None:
    """A line for the person who watches."""
    print(clean(text), file=sys.stderr, flush=True)  # noqa: T201


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int]) -> str:
    """Columns aligned by width, those in `right` to the right; two blanks between them."""

    def width(text: str) -> int:
        # by the standard library: rich would take longer to load than most commands take
        return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)

    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        parts = []
        for column, cell in enumerate(row):
            gap = " " * (widths[column] - width(cell))
            parts.append(gap + cell if column in right else cell + gap)
        return "  ".join(parts).rstrip()

    rule = "  ".join("─" * size for size in widths)
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])
