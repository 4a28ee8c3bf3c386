"""What a metric asks, whole: its direction in words, the behaviour, and where it must be shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual.binding import Binding, BindingType

from engine.benchmark import Metric, Track, When
from engine.display import drawn, one_line
from engine.errors import StoreError
from tui.format import TRACK_SIGNS
from tui.screens.base import Shell
from tui.screens.dialogs import TextCard
from tui.state.headline import metric_in
from tui.text.blocks import Block, Document, Passage, Rule
from tui.text.ink import Ink, Line, Piece

_DIRECTIONS: Final = {
    Track.POSITIVE: "positive: the behaviour is wanted. ✓ pass where it is present, ✗ fail where "
    "it is absent.",
    Track.NEGATIVE: "negative: the behaviour is unwanted. ✓ pass where it is absent, ✗ fail where "
    "it is present.",
}


def open_definition(shell: Shell, benchmark: str, scenario_id: str) -> None:
    """Show what conversations of a scenario are judged by, or say that nobody knows."""
    try:
        metric = metric_in(shell.watch, benchmark, scenario_id)
    except StoreError as error:
        shell.tell(str(error), bad=True)
        return
    if metric is None:
        shell.tell("Neither the benchmark's file nor the store says what it is judged by.")
    else:
        shell.navigator.show(DefinitionScreen(metric))


class DefinitionScreen(TextCard, inherit_bindings=False):
    """Lies over the screen on which a conversation stands that is judged by the metric."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d,q,escape,backspace", "close", "close")]

    def __init__(self, metric: Metric) -> None:
        super().__init__(partial(_lines, metric_blocks(metric)), id="definition")


def _lines(blocks: Sequence[Block], width: int) -> list[Line]:
    laid = Document(width)
    laid.set(blocks)
    return [*map(laid.line, range(laid.height)), [Piece("d closes this", Ink.MUTED)]]


def metric_blocks(metric: Metric) -> list[Block]:
    """What there is to know of it, for whoever reads a verdict on it."""
    counts = f"present where it is shown {metric.when.in_words}"
    if metric.when is not When.ANYWHERE:
        counts += "; elsewhere it does not count"
    name = f"{TRACK_SIGNS[metric.track]} {one_line(metric.name)}"
    return [
        Rule("name", name, one_line(metric.id), ink=Ink.STRONG),
        Passage("direction", "means", _DIRECTIONS[metric.track]),
        Passage("definition", "behaviour", drawn(metric.definition)),
        *(
            Passage(("example", number), "example", drawn(example), ink=Ink.MUTED)
            for number, example in enumerate(metric.examples)
        ),
        Passage("when", "counts", f"{counts}."),
    ]
