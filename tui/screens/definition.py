"""What a metric asks, whole: its direction in words, the behaviour, and where it must be shown."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from engine.benchmark import Metric, Track, When
from engine.display import drawn, one_line
from engine.errors import StoreError
from tui.format import TRACK_SIGNS
from tui.screens.base import Shell
from tui.screens.dialogs import WIDTH, Overlay
from tui.state.headline import metric_in
from tui.text.blocks import Block, Document, Passage, Rule
from tui.text.ink import Ink, Line, Piece
from tui.widgets.base import BREAKPOINTS_DOWN
from tui.widgets.lines import Lines

_DIRECTIONS: Final = {
    Track.POSITIVE: "positive: the behaviour is wanted. ✓ pass where it is present, ✗ fail where "
    "it is absent.",
    Track.NEGATIVE: "negative: the behaviour is unwanted. ✓ pass where it is absent, ✗ fail where "
    "it is present.",
}
_FRAME: Final = 6
"""Cells of a card beside its text."""


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


class DefinitionScreen(Overlay[None], inherit_bindings=False):
    """Lies over the screen on which a conversation stands that is judged by the metric."""

    VERTICAL_BREAKPOINTS = BREAKPOINTS_DOWN
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d,q,escape,backspace", "close", "close")]

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._blocks = metric_blocks(metric)
        self._list = Lines(id="definition")

    def compose(self) -> ComposeResult:
        with Vertical(classes="card"):
            yield self._list

    def on_mount(self) -> None:
        self._show()
        self._list.focus()

    def on_resize(self) -> None:
        self._show()

    def action_close(self) -> None:
        self.dismiss()

    def _show(self) -> None:
        laid = Document(max(min(WIDTH, self.app.size.width) - _FRAME, 1))
        laid.set(self._blocks)
        told: list[Line] = [laid.line(row) for row in range(laid.height)]
        self._list.show([*told, [Piece("d closes this", Ink.MUTED)]])


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
