"""Cards that only show text: a metric's definition, the keys of a screen (taken from its bindings),
the findings of a pilot, and earlier notices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.screen import Screen

from engine.benchmark import Metric, Track, When
from engine.display import display_text, one_line
from engine.errors import StoreError
from tui.bindings import KeyAction, actions_by_pane
from tui.format import TRACK_SIGNS
from tui.navigation import ShownNotice
from tui.screens.base import Shell
from tui.screens.dialogs import TextCard
from tui.state.headline import metric_in
from tui.text.blocks import Block, Document, Passage, Rule
from tui.text.ink import Ink, Line, Piece, fitted_line, pad
from tui.text.wrap import wrap, wrapped_lines

if TYPE_CHECKING:
    from engine.cli.piloting import PilotPage


_DIRECTIONS: Final = {
    Track.POSITIVE: "positive: the behaviour is wanted. ✓ pass where it is present, ✗ fail where "
    "it is absent.",
    Track.NEGATIVE: "negative: the behaviour is unwanted. ✓ pass where it is absent, ✗ fail where "
    "it is present.",
}


def open_definition(shell: Shell, benchmark: str, scenario_id: str) -> None:
    """Show the metric of a scenario, or a notice where neither the store nor the file has it."""
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
    """A card with the definition of one metric."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d,q,escape,backspace", "close", "close")]

    def __init__(self, metric: Metric) -> None:
        super().__init__(partial(_metric_lines, metric_blocks(metric)), id="definition")


def _metric_lines(blocks: Sequence[Block], width: int) -> list[Line]:
    laid = Document(width)
    laid.set(blocks)
    return [*map(laid.line, range(laid.height))]


def metric_blocks(metric: Metric) -> list[Block]:
    """Name, direction, definition, examples and, where it matters, the turns that count."""
    counts = f"present where it is shown {metric.when.in_words}"
    if metric.when is not When.ANYWHERE:
        counts += "; elsewhere it does not count"
    name = f"{TRACK_SIGNS[metric.track]} {one_line(metric.name)}"
    return [
        Rule("name", name, one_line(metric.id), ink=Ink.STRONG),
        Passage("direction", "means", _DIRECTIONS[metric.track]),
        Passage("definition", "behaviour", display_text(metric.definition.strip())),
        *(
            Passage(("example", number), "example", display_text(example), ink=Ink.MUTED)
            for number, example in enumerate(metric.examples)
        ),
        Passage("when", "counts", f"{counts}."),
    ]


_KEYS_WIDTH: Final = 20
_WIDTH: Final = 76
"""Cells of the card, as the stylesheet says."""
_LEGEND: Final = (
    (
        "+ 91% [67–98] 29/32",
        Ink.STRONG,
        "29 of 32 scored conversations passed: 91%. With many more conversations the rate "
        "would lie between 67% and 98% (a 95% interval: this holds in about 19 of 20 cases)",
    ),
    ("✓ pass", Ink.GOOD, "the target did what the metric asks for"),
    ("✗ fail", Ink.BAD, "it did not"),
    ("· unscored", Ink.WARN, "no verdict that can be used; the reason is beside it"),
    ("~", Ink.WARN, "stale: what it was made from has changed since; `is:stale` filters"),
    ("◇ ◆", Ink.STRONG, "a turn with a landmark; filled where the judge quotes from it"),
    ("· •", Ink.STRONG, "a turn without one; filled where the judge quotes from it"),
    ("+ −", Ink.STRONG, "positive and negative metrics; both count what passed"),
)


class HelpScreen(TextCard, inherit_bindings=False):
    """A card with the signs and keys of the screen it was opened from."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,question_mark", "close", "close")
    ]

    def __init__(self, about: Screen[object]) -> None:
        lines = partial(_help_lines, actions_by_pane(about))
        super().__init__(lines, id="keys", width=_WIDTH, footer=": finds commands by name")


def _help_lines(places: Sequence[tuple[str, Sequence[KeyAction]]], width: int) -> list[Line]:
    lines: list[Line] = [[Piece("Signs", Ink.ACCENT)]]
    for sign, ink, meaning in _LEGEND:
        lines += _help_rows(sign, ink, meaning, width)
    for title, pane_actions in places:
        lines += [[], [Piece(title, Ink.ACCENT)]]
        for deed in pane_actions:
            lines += _help_rows("  ".join(deed.keys), Ink.STRONG, deed.meaning, width)
    return lines


def _help_rows(name: str, ink: Ink, meaning: str, width: int) -> list[Line]:
    """The name with its meaning wrapped in a second column, which begins below a long name. In a
    narrow card, the meaning stands below each name."""
    narrow = width < 3 * _KEYS_WIDTH
    edge = " " * (4 if narrow else _KEYS_WIDTH + 2)
    texts = wrapped_lines(meaning, max(width - len(edge), 10))
    rows: list[Line] = [[Piece(edge), Piece(text)] for text in texts]
    if narrow or cell_len(name) >= _KEYS_WIDTH:
        return [[Piece(f"  {name}", ink)], *rows]
    return [[Piece("  " + pad(name, _KEYS_WIDTH), ink), Piece(texts[0])], *rows[1:]]


class PilotScreen(TextCard, inherit_bindings=False):
    """A card with the findings of a pilot, opened when the pilot has ended."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,backspace", "close", "close")]

    def __init__(self, page: PilotPage) -> None:
        super().__init__(partial(_pilot_lines, page), id="pilot")


def _pilot_lines(page: PilotPage, width: int) -> list[Line]:
    head, *table = map(display_text, page.table)
    lines: list[Line] = [[Piece(head, Ink.ACCENT)]]
    lines += [fitted_line([Piece(row)], width) for row in table]
    for sentence in (display_text(sentence).strip() for sentence in page.sentences):
        ink = Ink.WARN if sentence.startswith("!") else Ink.TEXT
        rows = wrap(sentence, width)
        lines += [[], *([Piece(sentence[row.start : row.end], ink)] for row in rows)]
    return lines


class MessagesScreen(TextCard, inherit_bindings=False):
    """A card with earlier notices, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace,exclamation_mark", "close", "close")
    ]

    def __init__(self, messages: Sequence[ShownNotice]) -> None:
        super().__init__(partial(_message_lines, messages), id="keys")


def _message_lines(messages: Sequence[ShownNotice], width: int) -> list[Line]:
    lines: list[Line] = [[Piece("Last notices", Ink.ACCENT)]]
    for message in messages:
        lines.append([])
        for part in display_text(message.text).splitlines():
            rows = wrap(part, width)
            ink = Ink.BAD if message.bad else Ink.TEXT
            lines += [[Piece(part[row.start : row.end], ink)] for row in rows]
    return lines
