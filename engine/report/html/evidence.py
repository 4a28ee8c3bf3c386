"""Some of the conversations behind each figure, in the evaluator's words, for a page by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.analysis.figures import Outcome
from engine.benchmark import ConversationKey
from engine.display import one_line
from engine.jury import Jury, verdict_to_show
from engine.store.tables import StoredTake, Verdict

_MOST: Final = 240
"""Conversations of one benchmark: a page that is sent stays a page that is sent."""
_MOST_OF_CELL: Final = 3
_LONGEST: Final = 500
"""Characters of a justification or a quote."""

TakesWithVerdicts = Mapping[ConversationKey, tuple[StoredTake, Sequence[Verdict]]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why one conversation failed, as the verdict says that stands for what counts."""

    conv_id: str
    target: str
    metric_id: str
    judge: str
    justification: str
    quotes: Sequence[tuple[str, int]]
    """Passages that were found, each with its turn."""


def evidence_of(
    outcomes: Iterable[Outcome], judged: TakesWithVerdicts, jury: Jury
) -> list[Evidence]:
    """Of each metric and target some that failed and of which a quote was found; by metric, then in
    the order of the outcomes."""
    cells: defaultdict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for one in outcomes:
        cell = cells[one.metric_id, one.key.target_id]
        if one.passed is False and len(cell) < _MOST_OF_CELL:
            told = _told(one, judged, jury)
            if told is not None:
                cell.append(told)
    full = [cell for cell in cells.values() if cell]
    of_each = max(1, min(_MOST_OF_CELL, _MOST // max(1, len(full))))
    found = [one for cell in full for one in cell[:of_each]][:_MOST]
    return sorted(found, key=lambda one: one.metric_id)


def _told(one: Outcome, judged: TakesWithVerdicts, jury: Jury) -> Evidence | None:
    """None where no quote of it was found."""
    _, verdicts = judged[one.key]
    shown = verdict_to_show(verdicts, jury)
    if shown is None:
        return None
    quotes = [(one_line(each.text, _LONGEST), each.turn) for each in shown.quotes if each.turn]
    return (
        Evidence(
            conv_id=str(one.key),
            target=one.key.target_id,
            metric_id=one.metric_id,
            judge=shown.judge,
            justification=one_line(shown.justification, _LONGEST),
            quotes=quotes,
        )
        if quotes
        else None
    )
