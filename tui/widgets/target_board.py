"""The progress of the five stages, and the state of each target for any number of targets.

A target has one line if the view is wide or there are many targets, else two, and more if something
holds it up. The cursor is on a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from engine.benchmark import Track
from tui.format import UNKNOWN, interval_rate, rate
from tui.state.board import StageState, StageView, TargetView, share
from tui.text.ink import Ink, Line, Piece, fitted_line, length, pad, pad_apart
from tui.widgets.base import CursorView, LineView

WHOLE: Final = 150
"""In this many cells or more, a target's line has room for everything."""
DENSE: Final = 112
"""In this many cells or more, a target's line has room without the intervals."""
MANY: Final = 6
"""With more targets than this, one line each is better than two."""
USUAL_RATE: Final = 20
"""Cells of a rate with its interval: early ones may be shorter, and would shift columns."""
USUAL_SPEND: Final = 7
"""Cells of a sum of money: less would shift columns."""
_SPEED: Final = 11
"""Cells of tokens per second, with a blank before them."""
LONGEST_NAME: Final = 20
SHORT_NAME: Final = 14
LONG_BAR: Final = 28
LONGEST_BAR: Final = 80
"""The widest bar, in cells: up to this many conversations have a cell each."""


class TargetBoard(CursorView):
    """A view of all targets. The cursor is visible only while the view has the focus."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: len(self._lines), self._row, id=id)
        self._targets: Sequence[TargetView] = ()
        self._lines: list[Line] = []
        self._owners: list[int | None] = []
        """The index of each line's target; None for other lines."""
        self._laid_width = 0

    @property
    def cursor(self) -> int | None:
        """The index of the target under the cursor; None if there is none."""
        return self._item

    def show(self, targets: Sequence[TargetView]) -> None:
        if targets != self._targets:
            self._targets = targets
            self._item = min(self._item or 0, len(targets) - 1) if targets else None
            self._lay()

    def lay_out(self) -> None:
        if self.line_width != self._laid_width:
            self._lay()

    @property
    def page_step(self) -> int:
        """In targets, each of which takes a row or two."""
        return max(self.page_height // 2, 1)

    def item_count(self) -> int:
        return len(self._targets)

    def item_rows(self, item: int) -> range:
        first = self._owners.index(item)
        return range(first, first + self._owners.count(item))

    def item_at(self, row: int, column: int) -> int | None:
        del column
        return self._owners[row] if 0 <= row < len(self._owners) else None

    def _row(self, index: int) -> Line:
        return self._lines[index]

    def row_back(self, index: int) -> Ink | None:
        return super().row_back(index) if self.has_focus else None

    def _lay(self) -> None:
        before = self._lines
        self._lines, self._owners = [], []
        for owner, line in self._all_lines():
            self._lines.append(fitted_line(line, self.line_width))
            self._owners.append(owner)
        self._laid_width = self.line_width
        self.measure(len(self._lines))
        # a new height makes Textual lay out the whole screen; else only changed lines are drawn
        if len(before) != len(self._lines):
            self.styles.height = len(self._lines)
            self.redraw()
            return
        for index, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.redraw(index, index + 1)

    def _all_lines(self) -> list[tuple[int | None, Line]]:
        layout = _layout(self._targets, self.line_width)
        lines: list[tuple[int | None, Line]] = []
        if layout.heading:
            lines.append((None, _heading(layout)))
        for number, target in enumerate(self._targets):
            drawn = _in_one(target, layout) if layout.heading else _in_two(target, layout)
            lines += [(number, line) for line in [*drawn, *_kept_by(target, layout)]]
        return lines


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a target's lines, with widths in cells."""

    heading: bool
    """Whether each target has one line, below a heading."""
    intervals: bool
    names: Sequence[str]
    name_width: int
    bar_width: int
    running: str
    """The word for conversations that have begun and not ended."""
    rate_width: int
    """The width of each of the two rates."""
    spend_width: int
    speeds: bool
    """Whether there is room for tokens per second."""
    roomy: bool
    """Whether there is room for optional details."""


def _layout(targets: Sequence[TargetView], width: int) -> _Layout:
    longest = max([6, *(cell_len(target.name) for target in targets)])
    heading = width >= WHOLE or (width >= DENSE and len(targets) > MANY)
    intervals = not heading or width >= WHOLE
    name = min(longest, LONGEST_NAME if width >= DENSE else SHORT_NAME)
    rates = [_rate(target, track, intervals) for target in targets for track in Track]
    column = max([USUAL_RATE if intervals else 13, *(cell_len(text) for text in rates)])
    roomy = width >= DENSE
    spend = max([USUAL_SPEND, *(cell_len(target.spend) for target in targets)])
    # of the lower of two lines
    speeds = name + 2 * column + spend + _SPEED + 5 <= width
    # what all other parts of a line take; the bar gets the rest
    rest = name + 2 * column + spend + 59 if heading else name + (72 if roomy else 58)
    cut_off = any(target.at_rest and target.running for target in targets)
    any_paused = any(target.paused for target in targets)
    running = "cut off" if cut_off else "held" if any_paused else "running"
    most = max((target.to_simulate for target in targets), default=0)
    bar_width = min(max(width - rest, 4), max(LONG_BAR, min(most, LONGEST_BAR)))
    names = [target.name for target in targets]
    return _Layout(
        heading, intervals, names, name, bar_width, running, column, spend, speeds, roomy
    )


def _rate(target: TargetView, track: Track, intervals: bool) -> str:  # noqa: FBT001  (how wide it is, not a switch of what)
    known = target.rates.get(track)
    if intervals and known is not None:
        return interval_rate(known, track)
    return rate(target.positive if track is Track.POSITIVE else target.negative, track)


def _heading(layout: _Layout) -> Line:
    passes = "passes, " if layout.intervals else ""
    cells = [
        pad("target", layout.name_width),
        pad("simulated", layout.bar_width + 10),
        pad(layout.running, 7, right=True),
        pad("failed", 6, right=True),
        pad("judged", 9, right=True),
        " " + pad(f"{passes}positive", layout.rate_width),
        pad(f"{passes}negative", layout.rate_width),
        pad("tok/s", 5, right=True),
        pad("spend", layout.spend_width, right=True),
        pad("left", 7, right=True),
    ]
    return [Piece(" " + " ".join(cells), Ink.MUTED)]


def _in_one(target: TargetView, layout: _Layout) -> list[Line]:
    return [
        [
            *_how_far(target, layout),
            Piece(" " + pad(str(target.running), 7, right=True), _quiet_ink(target.running)),
            Piece(" " + pad(str(target.failed), 6, right=True), _alarming_ink(target.failed)),
            Piece(" " + pad(share(target.judged, target.to_judge), 9, right=True) + "  "),
            *_rates(target, layout),
            *_speed_and_cost(target, layout),
        ]
    ]


def _in_two(target: TargetView, layout: _Layout) -> list[Line]:
    """Two lines for a narrow terminal: the progress, and below it the results."""
    idle = target.at_rest and not target.running
    running = "" if idle else f" {target.running} {layout.running}"
    upper = [
        *_how_far(target, layout),
        Piece(pad(running, 12), _quiet_ink(target.running)),
        Piece(pad(f" {target.failed} failed", 10), _alarming_ink(target.failed)),
        Piece(f" judged {share(target.judged, target.to_judge)}"),
    ]
    left = target.left_about if layout.roomy else target.left
    left = "" if left == UNKNOWN else f"  {left} left"
    # before anything is scored there is nothing to say, and its room stays
    is_scored = bool(target.positive.scored or target.negative.scored)
    rates = _rates(target, layout)
    lower = [
        Piece(pad(" passes" if is_scored else "", layout.name_width + 2), Ink.MUTED),
        *(rates if is_scored else [Piece(" " * length(rates))]),
        *_speed_and_cost(target, layout),
    ]
    return [[*upper, Piece(left, Ink.MUTED)], lower]


def _how_far(target: TargetView, layout: _Layout) -> list[Piece]:
    return [
        Piece(" " + pad_apart(target.name, layout.names, layout.name_width) + " ", Ink.STRONG),
        *field_of(target, layout.bar_width),
        Piece(" " + pad(share(target.simulated, target.to_simulate), 9)),
    ]


def field_of(target: TargetView, width: int) -> list[Piece]:
    """Draw the conversations as a bar, a whole number of cells for each if there is room: passed,
    failed by a verdict, ended but not judged, begun, and to come."""
    counts = _field_counts(target)
    per_conversation = max(width // max(target.to_simulate, 1), 1)
    cells = min(width, per_conversation * target.to_simulate)
    pieces: list[Piece] = []
    total = filled = 0
    for count, (sign, _, ink) in zip(counts, _FIELD, strict=True):
        # the ends are rounded, not the lengths, so that rounding errors do not add up
        total += max(count, 0)
        end = total * cells // max(target.to_simulate, 1)
        # each kind that occurs has at least one cell
        end = min(max(end, filled + (count > 0)), cells)
        pieces.append(Piece(sign * (end - filled), ink))
        filled = end
    rest = [Piece("─" * (cells - filled), Ink.RULE), Piece(" " * (width - cells))]
    return [piece for piece in [*pieces, *rest] if piece.text]


_FIELD: Final = (
    ("█", "passed", Ink.GOOD),
    ("▓", "failed", Ink.BAD),
    ("▒", "no verdict", Ink.ACCENT),
    ("░", "begun", Ink.ACCENT),
)


def _field_counts(target: TargetView) -> Sequence[int]:
    """How many conversations of each kind of `_FIELD` there are."""
    tracks = (target.positive, target.negative)
    passed = sum(track.passed for track in tracks)
    judged = min(sum(track.scored for track in tracks), target.simulated)
    # including those between two messages, or the bar would flicker
    begun = min(target.running + target.between, max(target.to_simulate - target.simulated, 0))
    return [passed, judged - passed, target.simulated - judged, begun]


def field_legend(targets: Sequence[TargetView], width: int) -> Line:
    """What the signs in the bars of these targets mean, in so many cells: of those that occur."""
    counts = [sum(found) for found in zip(*map(_field_counts, targets), strict=True)]
    line: list[Piece] = [Piece(" ")]
    for count, (sign, word, ink) in zip(counts, _FIELD, strict=False):
        if count > 0:
            line += [Piece(f"{sign} ", ink), Piece(f"{word}  ", Ink.MUTED)]
    if len(line) > 1 and any(target.simulated < target.to_simulate for target in targets):
        line += [Piece("─ ", Ink.RULE), Piece("to come", Ink.MUTED)]
    return fitted_line(line, width)


def _rates(target: TargetView, layout: _Layout) -> list[Piece]:
    return [
        Piece(pad(_rate(target, track, layout.intervals), layout.rate_width) + " ")
        for track in Track
    ]


def _speed_and_cost(target: TargetView, layout: _Layout) -> list[Piece]:
    """Speed and cost; for a target at a standstill, cost and what it waits for."""
    if layout.heading:
        tokens, left = pad(target.tokens, 5, right=True), pad(target.left, 7, right=True)
        spend = pad(target.spend, layout.spend_width, right=True)
    else:
        # `1.0k` and `959` take the same room, so that the curves behind them stay below each other
        speed = "" if target.tokens == UNKNOWN else f" {pad(target.tokens, 4, right=True)} tok/s"
        tokens, left = pad(speed, _SPEED) if layout.speeds else "", ""
        spend = pad(target.spend, layout.spend_width)
    if target.still is not None:
        return [Piece(f"{spend} ", Ink.MUTED), Piece(f" {target.still}", Ink.WARN)]
    if layout.heading:
        return [Piece(" ".join([tokens, spend, left]), Ink.MUTED)]
    trend = [Piece(f"  {target.trend}", Ink.ACCENT)] if layout.roomy else []
    return [Piece(f"{spend} {tokens}", Ink.MUTED), *trend]


def _kept_by(target: TargetView, layout: _Layout) -> list[Line]:
    """What holds the target up, and if it is not held, its last problem."""
    start = Piece(" " * (layout.name_width + 2))
    lines: list[Line] = []
    if target.others is not None:
        lines.append([start, Piece(f"! {target.others}", Ink.WARN)])
    if target.held is not None:
        return [*lines, [start, Piece(target.held, Ink.WARN)]]
    if target.limited is not None:
        lines.append([start, Piece(target.limited, Ink.MUTED)])
    if target.problem is not None:
        lines.append([start, Piece("last problem: ", Ink.WARN), Piece(target.problem)])
    return lines


def _quiet_ink(number: int) -> Ink:
    return Ink.TEXT if number else Ink.FAINT


def _alarming_ink(number: int) -> Ink:
    return Ink.BAD if number else Ink.FAINT


ROOMY = 21
"""A stage with this many cells or more has a bar."""
WORDY = 32
"""In this many cells or more, it says what it counts."""


class StageStrip(LineView):
    """The stages in two rows that share the width equally; or in one row, each as wide as its
    text."""

    can_focus = False
    DEFAULT_CSS = """
    StageStrip { height: 2; overflow: hidden hidden; scrollbar-gutter: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(lambda: 2, self._row, id=id)
        self._stages: Sequence[StageView] = ()

    def lay_out(self) -> None:
        """Nothing: there are always two rows."""

    def show(self, stages: Sequence[StageView]) -> None:
        if stages != self._stages:
            self._stages = stages
            self.redraw()

    def _row(self, index: int) -> Line:
        if not self._stages:
            return []
        if self.size.height == 1:
            return fitted_line(_in_one_row(self._stages), self.line_width)
        cell, spare = divmod(self.line_width - 1, len(self._stages))
        line = [Piece(" ")]
        for number, stage in enumerate(self._stages):
            width = cell + (number < spare)
            drawn = (_upper if index == 0 else _lower)(stage, width - 2)
            line += [*drawn, Piece(" " * (width - length(drawn)))]
        return line


def _in_one_row(stages: Sequence[StageView]) -> list[Piece]:
    line = []
    for place, stage in enumerate(stages):
        begun = stage.state is not StageState.WAITING
        line += [
            Piece("  " if place else " "),
            stage.sign,
            Piece(stage.name, Ink.STRONG if begun else Ink.MUTED),
        ]
        # a finished stage without failures needs no count
        if begun and (stage.failed or stage.state is not StageState.DONE):
            line.append(Piece(f" {stage.count}", Ink.BAD if stage.failed else Ink.MUTED))
    return line


def _upper(stage: StageView, width: int) -> list[Piece]:
    mark = Ink.BAD if stage.failed else stage.state.ink
    name = Ink.MUTED if stage.state is StageState.WAITING else Ink.STRONG
    pieces = [stage.sign, Piece(stage.name, name)]
    if width >= ROOMY - 2:
        room = width - length(pieces)
        pieces.append(
            Piece(pad(stage.words(room - 1), room, right=True), mark if stage.failed else Ink.MUTED)
        )
    return pieces


def _lower(stage: StageView, width: int) -> list[Piece]:
    if width < ROOMY - 2:
        text = f"{stage.count} {stage.word}" if stage.count else stage.word
        text = text if len(text) <= width - 2 else stage.count or stage.word
        return [Piece(pad("  " + text, width), Ink.BAD if stage.failed else Ink.MUTED)]
    named = stage.noun and width >= WORDY
    count = f"{stage.count} {stage.noun}" if named else stage.count
    room = max(width - 2 - 1 - len(count), 1)
    if not stage.total:
        return [Piece("  "), Piece("─" * (width - 2), Ink.RULE)]
    filled = stage.done * room // stage.total
    ink = Ink.GOOD if stage.state is StageState.DONE else Ink.ACCENT
    return [
        Piece("  "),
        Piece("━" * filled, ink),
        Piece("─" * (room - filled), Ink.RULE),
        Piece(" " + count, Ink.MUTED),
    ]
