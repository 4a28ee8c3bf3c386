"""What a conversation is judged by, said above it."""

from __future__ import annotations

from typing import Final

from engine.benchmark import Metric, metric_of
from engine.display import one_line
from engine.watch import BenchmarkInfo
from tui.format import TRACK_SIGNS
from tui.state.transcript import Dialogue
from tui.text.ink import Ink, Line, Piece, length, shorten

ENOUGH: Final = 20
"""Cells that a definition takes at least to say anything."""


def metric_behind(info: BenchmarkInfo | None, dialogue: Dialogue) -> Metric | None:
    """What a conversation of this benchmark is judged by; None where that is not known."""
    metric_id = metric_of(dialogue.shown.key.scenario_id)
    return None if info is None else info.metrics.get(metric_id, dialogue.metric)


def measured(
    info: BenchmarkInfo | None, dialogue: Dialogue | None, width: int
) -> tuple[Line, Line]:
    """Both ends of the line below a conversation's id, in so many cells: what it is judged by and
    whether that is wanted; and as whom the person speaks. Nothing where that is not known."""
    metric = None if dialogue is None else metric_behind(info, dialogue)
    if dialogue is None or metric is None:
        return (), ()
    people = () if dialogue.scenario is None else dialogue.scenario.demographic.values()
    group = " · ".join(people)
    right = [Piece(f"  {one_line(group)} ", Ink.MUTED)] if group else []
    left = [
        Piece(f"   {TRACK_SIGNS[metric.track]} ", Ink.MUTED),
        Piece(one_line(metric.name), Ink.STRONG),
    ]
    room = width - length([*left, *right]) - 3
    if room > ENOUGH:
        left.append(Piece(f"  {shorten(one_line(metric.definition), room)}", Ink.FAINT))
    return left, right
