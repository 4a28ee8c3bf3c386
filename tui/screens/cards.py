"""Cards that only show text: a metric's definition, the keys of a screen (taken from its bindings),
the findings of a pilot, and earlier notices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
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
from tui.text.ink import Ink, Line, Piece, fitted_line, length, pad
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
        shell.navigator.show(definition_card(metric))


def definition_card(metric: Metric) -> TextCard:
    """A card with the definition of one metric."""
    drawing = partial(_metric_lines, metric_blocks(metric))
    return TextCard(drawing, id="definition", opened_by="d")


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


_LEAST_NAME: Final = 14
_MOST_NAME: Final = 20
"""Cells of the keys or the sign before their meaning."""
_WIDTH: Final = 76
_WIDE: Final = 116
"""Cells of the card of keys, as the stylesheet says; on a terminal of 120 cells or more it is wide
and has two columns."""
_BETWEEN: Final = 2
"""Cells between two columns."""
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


class HelpScreen(TextCard):
    """A card with the keys of the screen it was opened from, and on its second page the signs."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual has it)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "close", "close"),
        Binding("tab,right_curly_bracket,left_curly_bracket", "turn", "turn"),
    ]

    def __init__(self, about: Screen[object]) -> None:
        self._places = actions_by_pane(about)
        self._shows_signs = False
        super().__init__(self._draw, id="keys", width=_WIDE)
        self._say()

    @property
    def lines(self) -> Sequence[Line]:
        self._width = _WIDE if self.app.size.width >= 120 else _WIDTH
        return super().lines

    def action_turn(self) -> None:
        self._shows_signs = not self._shows_signs
        self._list.show(self.lines)
        self._list.jump(0)
        self._say()

    def _say(self) -> None:
        other = "keys" if self._shows_signs else "what the signs mean"
        self._footer.say([Piece(f"Tab: {other}   : finds commands by name", Ink.MUTED)])

    def _draw(self, width: int) -> list[Line]:
        items = _sign_items if self._shows_signs else partial(_key_items, self._places)
        if self._width < _WIDE:
            return [row for rows in items(width) for row in rows]
        return _in_columns(items((width - _BETWEEN) // 2), (width - _BETWEEN) // 2)


def _sign_items(width: int) -> list[list[Line]]:
    return [
        [[Piece("Signs", Ink.ACCENT)]],
        *(_help_rows(sign, ink, meaning, width) for sign, ink, meaning in _LEGEND),
    ]


def _key_items(places: Sequence[tuple[str, Sequence[KeyAction]]], width: int) -> list[list[Line]]:
    """The rows of each key; those of the first key of a group begin with its title."""
    items: list[list[Line]] = []
    for title, pane_actions in places:
        above: list[Line] = [[Piece(title, Ink.ACCENT)]]
        if items:
            above.insert(0, [])
        for deed in pane_actions:
            name = "  ".join(deed.keys)
            items.append([*above, *_help_rows(name, Ink.STRONG, deed.meaning, width)])
            above = []
    return items


def _in_columns(items: Sequence[list[Line]], width: int) -> list[Line]:
    """The rows in two columns of so many cells and about the same height."""
    left: list[Line] = []
    right: list[Line] = []
    half = sum(map(len, items)) / 2
    for rows in items:
        column = right if right or len(left) + len(rows) / 2 > half else left
        # a column does not begin with a blank row
        column += rows if column or rows[0] else rows[1:]
    pairs = zip_longest(left, right, fillvalue=())
    return [[*one, Piece(" " * (width + _BETWEEN - length(one))), *two] for one, two in pairs]


def _help_rows(name: str, ink: Ink, meaning: str, width: int) -> list[Line]:
    """The name with its meaning wrapped in a second column, which begins below a long name. In a
    narrow card, the meaning stands below each name."""
    narrow = width < 3 * _LEAST_NAME
    room = _LEAST_NAME if width < 3 * _MOST_NAME else _MOST_NAME
    edge = " " * (4 if narrow else room + 2)
    texts = wrapped_lines(meaning, max(width - len(edge), 10))
    rows: list[Line] = [[Piece(edge), Piece(text)] for text in texts]
    if narrow or cell_len(name) >= room:
        return [[Piece(f"  {name}", ink)], *rows]
    return [[Piece("  " + pad(name, room), ink), Piece(texts[0])], *rows[1:]]


def pilot_card(page: PilotPage) -> TextCard:
    """A card with the findings of a pilot, opened when the pilot has ended."""
    return TextCard(partial(_pilot_lines, page), id="pilot")


def _pilot_lines(page: PilotPage, width: int) -> list[Line]:
    head, *table = map(display_text, page.table)
    lines: list[Line] = [[Piece(head, Ink.ACCENT)]]
    lines += [fitted_line([Piece(row)], width) for row in table]
    for sentence in (display_text(sentence).strip() for sentence in page.sentences):
        ink = Ink.WARN if sentence.startswith("!") else Ink.TEXT
        rows = wrap(sentence, width)
        lines += [[], *([Piece(sentence[row.start : row.end], ink)] for row in rows)]
    return lines


def messages_card(messages: Sequence[ShownNotice]) -> TextCard:
    """A card with earlier notices, the newest first."""
    drawing = partial(_message_lines, messages)
    return TextCard(drawing, id="keys", opened_by="exclamation_mark")


def _message_lines(messages: Sequence[ShownNotice], width: int) -> list[Line]:
    lines: list[Line] = [[Piece("Last notices", Ink.ACCENT)]]
    for message in messages:
        lines.append([])
        for part in display_text(message.text).splitlines():
            rows = wrap(part, width)
            ink = Ink.BAD if message.bad else Ink.TEXT
            lines += [[Piece(part[row.start : row.end], ink)] for row in rows]
    return lines
