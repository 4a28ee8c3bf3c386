"""What is known of the metric under the cursor: its meaning, each target's rate, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from engine.analysis.figures import Analysis
from engine.display import one_line, percent, plural, span
from engine.report.scale import RATES
from tui.results.leaderboard import NAME_WIDTH
from tui.results.sections import of_estimate
from tui.results.text import READABLE, paragraph, title
from tui.text.ink import Ink, Line, Piece, fitted_line, pad, pad_apart
from tui.text.plot import tick_line, whiskers
from tui.text.wrap import first_rows
from tui.widgets.grids import HeatCell

if TYPE_CHECKING:
    from engine.store.records import VerdictRow

MOST_FAILURES: Final = 8
_WHY_LINES: Final = 2
"""The most lines of a failure's quote or reason."""
_RATE: Final = 15
_LEAST_BAR: Final = 10


def metric_facts(
    analysis: Analysis,
    spot: HeatCell,
    definition: str,
    failures: Sequence[VerdictRow],
    width: int,
    height: int,
) -> list[Line]:
    """What fits into so many cells and rows: what the metric at `spot` means, its rate with each
    target, and of its newest `failures` first those of the target at `spot`."""
    parts = [_meaning(definition, width), _rates(analysis, spot, width)]
    lines: list[Line] = []
    for part in parts:
        # what is left out must not take the place of what fits
        if part and len(lines) + len(part) < height:
            lines += [*([[]] if lines else []), *part]
    target = analysis.targets[spot.column].target
    own = [row for row in failures if row.key.target_id == target]
    others = [row for row in failures if row.key.target_id != target]
    for rows, whose, note in (
        (own, one_line(target), "W reads all that failed"),
        (others, "others", ""),
    ):
        head = title(f"how {whose} failed last", width, note).line
        lines += _failures(rows, head, width, height - len(lines), apart=bool(lines))
    return lines


def _failures(
    rows: Sequence[VerdictRow], head: Line, width: int, height: int, *, apart: bool
) -> list[Line]:
    """As many failures as fit whole into so many rows, below a heading."""
    lines: list[Line] = [*([[]] if apart else []), head]
    before = len(lines)
    for row in rows:
        added = _failure(row, width)
        if len(lines) + len(added) > height:
            break
        lines += added
    return lines if len(lines) > before else []


def _meaning(definition: str, width: int) -> list[Line]:
    return [row.line for row in paragraph(definition, width, ink=Ink.MUTED)] if definition else []


def _rates(analysis: Analysis, spot: HeatCell, width: int) -> list[Line]:
    """The rate of the metric with each target, and its interval on a scale."""
    metric = analysis.metrics[spot.row]
    names = [one_line(result.target) for result in analysis.targets]
    low, high = NAME_WIDTH
    name = min(max(low, *map(len, names)), high)
    results = [result.metrics.get(metric.id) for result in analysis.targets]
    counts = [
        ""
        if result is None or result.rate is None
        else f"{result.passed:,} of {result.scored:,}, {plural(result.base_scenarios, 'scenario')}"
        for result in results
    ]
    bar = width - name - 2 - _RATE - 2 - max(map(len, counts), default=0) - 1
    if bar < _LEAST_BAR:
        return []
    lines: list[Line] = [[Piece(" " * (name + 2 + _RATE)), *tick_line(RATES, bar)]]
    for column, (target_name, result, count) in enumerate(zip(names, results, counts, strict=True)):
        ink = Ink.STRONG if column == spot.column else Ink.TEXT
        line = [Piece(f" {pad_apart(target_name, names, name)} ", ink)]
        if result is None or result.rate is None:
            line.append(Piece("nothing scored yet", Ink.MUTED))
        else:
            rate = f"{percent(result.rate):>4} {span(result.low, result.high)}"
            line += [Piece(pad(rate, _RATE)), *whiskers(of_estimate(result), RATES, bar)]
            line.append(Piece(f"  {count}", Ink.MUTED))
        lines.append(fitted_line(line, width))
    return lines


def _failure(row: VerdictRow, width: int) -> list[Line]:
    name = fitted_line([Piece(" ✗ ", Ink.BAD), Piece(one_line(str(row.key)))], width)
    words = row.justification if row.quote is None else f"“{row.quote}”"
    room = max(min(width - 4, READABLE), 8)
    reason = first_rows(one_line(words), room, _WHY_LINES)
    return [name, *([Piece(f"   {line}", Ink.MUTED)] for line in reason)]
