"""How each target is doing: one widget that draws lines, whatever the number of targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual import events

from tui.widgets.ink import Ink, Line, Piece, pad
from tui.widgets.line_view import LineView
from tui.wording import UNKNOWN, bar

ONE_LINE: Final = 112
"""Cells from which on a target fits on one line."""
_REST: Final = 91
"""Cells of such a line without the name and the bar."""


@dataclass(frozen=True, slots=True)
class TargetView:
    """What the board shows of a target, in words where it can be."""

    name: str
    simulated: int
    to_simulate: int
    running: int
    failed: int
    judged: int
    to_judge: int
    positive: str
    negative: str
    tokens: str
    """A second."""
    spend: str
    left: str
    problem: str | None = None
    """The last one."""


class TargetBoard(LineView):
    """A heading and a line or two for each target, and its last problem below it."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (Textual's name for it)
        super().__init__(id=id)
        self._targets: Sequence[TargetView] = ()
        self._lines: list[Line] = []
        self._laid_width = 0

    def show(self, targets: Sequence[TargetView]) -> None:
        if targets != self._targets:
            self._targets = targets
            self._lay()

    def on_resize(self, event: events.Resize) -> None:
        del event
        if self.line_width != self._laid_width:
            self._lay()

    def row_count(self) -> int:
        return len(self._lines)

    def row(self, index: int) -> Line:
        return self._lines[index]

    def _lay(self) -> None:
        before, self._lines = self._lines, self._all_lines()
        self._laid_width = self.line_width
        self.measure(len(self._lines))
        self.styles.height = len(self._lines)
        if len(before) != len(self._lines):
            self.redraw()
            return
        for index, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.redraw(index, index + 1)

    def _all_lines(self) -> list[Line]:
        width = self.line_width
        name = min(max([6, *(len(target.name) for target in self._targets)]), 20)
        if width >= ONE_LINE:
            lines: list[Line] = [_heading(name, width)]
            for target in self._targets:
                lines += [_whole(target, name, width), *_problem(target, name)]
            return lines
        lines = []
        for target in self._targets:
            lines += [*_in_two(target, min(name, 14), width), *_problem(target, min(name, 14))]
        return lines


def _bar_width(name: int, width: int) -> int:
    return min(max(width - name - _REST, 6), 28)


def _heading(name: int, width: int) -> Line:
    cells = [
        pad("target", name),
        pad("simulated", _bar_width(name, width) + 10),
        pad("running", 7, right=True),
        pad("failed", 6, right=True),
        pad("judged", 9, right=True),
        "  " + pad("positive", 14),
        pad("negative", 14),
        pad("tok/s", 5, right=True),
        pad("spend", 7, right=True),
        pad("left", 7, right=True),
    ]
    return [Piece(" " + " ".join(cells), Ink.MUTED)]


def _whole(target: TargetView, name: int, width: int) -> Line:
    filled, rest = bar(target.simulated, target.to_simulate, _bar_width(name, width))
    return [
        Piece(" " + pad(target.name, name) + " ", Ink.STRONG),
        Piece(filled, _bar_ink(target)),
        Piece("─" * len(rest), Ink.RULE),
        Piece(" " + pad(_share(target.simulated, target.to_simulate), 9)),
        Piece(" " + pad(str(target.running), 7, right=True), _quiet(target.running)),
        Piece(" " + pad(str(target.failed), 6, right=True), _alarming(target.failed)),
        Piece(" " + pad(_share(target.judged, target.to_judge), 9, right=True)),
        Piece("   " + pad(target.positive, 14) + " "),
        Piece(pad(target.negative, 14) + " "),
        Piece(pad(target.tokens, 5, right=True) + " ", Ink.MUTED),
        Piece(pad(target.spend, 7, right=True) + " ", Ink.MUTED),
        Piece(pad(target.left, 7, right=True), Ink.MUTED),
    ]


def _in_two(target: TargetView, name: int, width: int) -> list[Line]:
    """For a narrow terminal: what is done above, what came of it below."""
    room = min(max(width - name - 56, 4), 14)
    filled, rest = bar(target.simulated, target.to_simulate, room)
    upper = [
        Piece(" " + pad(target.name, name) + " ", Ink.STRONG),
        Piece(filled, _bar_ink(target)),
        Piece("─" * len(rest), Ink.RULE),
        Piece(" " + pad(_share(target.simulated, target.to_simulate), 9)),
        Piece(pad(f"{target.running} running", 12), _quiet(target.running)),
        Piece(pad(f"{target.failed} failed", 10), _alarming(target.failed)),
        Piece(f"judged {_share(target.judged, target.to_judge)}"),
    ]
    lower = [
        Piece(" " * (name + 2)),
        Piece(pad(target.positive, room + 10)),
        Piece(pad(target.negative, 16)),
        Piece(pad(f"{target.tokens} tok/s", 11), Ink.MUTED),
        Piece(pad(target.spend, 8), Ink.MUTED),
        Piece("" if target.left == UNKNOWN else f"{target.left} left", Ink.MUTED),
    ]
    return [upper, lower]


def _bar_ink(target: TargetView) -> Ink:
    return Ink.GOOD if target.simulated == target.to_simulate else Ink.ACCENT


def _problem(target: TargetView, name: int) -> list[Line]:
    if target.problem is None:
        return []
    return [[Piece(" " * (name + 2)), Piece("last problem: ", Ink.WARN), Piece(target.problem)]]


def _share(done: int, total: int) -> str:
    return f"{done}/{total}"


def _quiet(number: int) -> Ink:
    return Ink.TEXT if number else Ink.FAINT


def _alarming(number: int) -> Ink:
    return Ink.BAD if number else Ink.FAINT
