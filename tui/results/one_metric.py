"""What is known of the metric under the cursor: its meaning, and its newest failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from engine.display import one_line
from tui.results.text import READABLE, paragraph, title
from tui.text.ink import Ink, Line, Piece, fitted_line
from tui.text.wrap import first_rows

if TYPE_CHECKING:
    from engine.store.records import VerdictRow

MOST_FAILURES: Final = 8
_WHY_LINES: Final = 2
"""The most lines of a failure's quote or reason."""


def metric_facts(
    definition: str, failures: Sequence[VerdictRow], width: int, height: int
) -> list[Line]:
    """What fits into so many cells and rows: what a metric means, and how it failed last."""
    lines = [row.line for row in paragraph(definition, width, ink=Ink.MUTED)] if definition else []
    if failures:
        head = title("how it failed last", width, "W reads all that failed").line
        lines += [*([[]] if lines else []), head]
    for row in failures:
        added = _failure(row, width)
        if len(lines) + len(added) > height:
            break
        lines += added
    return lines[:height]


def _failure(row: VerdictRow, width: int) -> list[Line]:
    name = fitted_line([Piece(" ✗ ", Ink.BAD), Piece(one_line(str(row.key)))], width)
    words = row.justification if row.quote is None else f"“{row.quote}”"
    room = max(min(width - 4, READABLE), 8)
    reason = first_rows(one_line(words), room, _WHY_LINES)
    return [name, *([Piece(f"   {line}", Ink.MUTED)] for line in reason)]
