"""How the targets hold up over a conversation: the pass rates if it had ended at each turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from engine.analysis.onset import OnsetCurve
from engine.analysis.sections import VerdictScope
from engine.benchmark import Track
from engine.display import one_line, percent
from tui.format import TRACK_SIGNS
from tui.results.text import paragraph, title
from tui.text.ink import Ink, Piece, fitted_line, pad, pad_apart
from tui.text.plot import Curve, plot
from tui.widgets.sheet import SheetRow

_SAYS: Final = {
    Track.POSITIVE: "shown by the end of each turn",
    Track.NEGATIVE: "still avoided at the end of each turn",
}
_MEANS: Final = (
    "What would count had each conversation ended with that turn, by the judges' marks of each "
    "reply; of one without marks, from the turn of its earliest quote on, though it may have begun "
    "before."
)
_TURN: Final = 6
_PLOT: Final = (100, 12)
_AT_ONCE: Final = 12
"""The most curves drawn, as more cannot be told apart: the chosen one and the first others."""


def onset_rows(courses: Sequence[OnsetCurve], target: str | None, width: int) -> list[SheetRow]:
    """The pass rate by the end of each turn, for all targets; `target` is the chosen one,
    highlighted. `width` is in cells."""
    if not any(curve.of for curve in courses):
        words = "No verdict says yet in which turn its evidence stands."
        return list(paragraph(words, width, ink=Ink.MUTED))
    rows: list[SheetRow] = []
    for track in Track:
        of_track = [curve for curve in courses if curve.track is track and curve.of]
        of_track.sort(key=lambda curve: (-curve.passing[-1], curve.target))
        if of_track:
            rows += _track(track, of_track, target, width)
    return [*rows, *paragraph(_MEANS, width, ink=Ink.FAINT)]


def _track(
    track: Track, courses: Sequence[OnsetCurve], target: str | None, width: int
) -> Iterator[SheetRow]:
    yield title(f"{TRACK_SIGNS[track]} {track.value} metrics", width, _SAYS[track])
    names = max(8, *(cell_len(one_line(curve.target)) for curve in courses))
    names = min(names, 24, max(width - 2 * _TURN, 8))
    turns = range(len(courses[0].seen))
    fit = max((width - names - 16) // _TURN, 2)
    shown = turns if len(turns) <= fit else [*turns[: fit - 1], turns[-1]]
    heads = "".join(pad(f"{turn + 1}", _TURN, right=True) for turn in shown)
    yield SheetRow(fitted_line([Piece(" " + pad("turn", names) + heads, Ink.FAINT)], width))
    for curve in courses:
        label = pad_apart(
            one_line(curve.target), (one_line(curve.target) for curve in courses), names
        )
        yield _curve_row(curve, shown, label, width, is_chosen=curve.target == target)
    unplaced = sum(curve.unplaced for curve in courses)
    if unplaced:
        words = f"{unplaced:,} more have evidence in no turn, and are left out here."
        yield from paragraph(words, width, Piece("·", Ink.WARN), Ink.MUTED)
    for line in plot(_curves(courses, target), min(width - 1, _PLOT[0]), _PLOT[1]):
        yield SheetRow([Piece(" "), *line])


def _curve_row(
    onset_curve: OnsetCurve, shown: Sequence[int], label: str, width: int, *, is_chosen: bool
) -> SheetRow:
    ink = Ink.ACCENT if is_chosen else Ink.TEXT
    line = [Piece(" " + label, Ink.STRONG)]
    before = None
    for turn in shown:
        share = onset_curve.passing[turn]
        same = before is not None and percent(share) == percent(before)
        line.append(Piece(pad(percent(share), _TURN, right=True), Ink.FAINT if same else ink))
        before = share
    line.append(Piece(f"  of {onset_curve.of:,}", Ink.MUTED))
    return SheetRow(
        fitted_line(line, width), VerdictScope((onset_curve.target,), track=onset_curve.track)
    )


def _curves(courses: Sequence[OnsetCurve], target: str | None) -> list[Curve]:
    chosen = [curve for curve in courses if curve.target == target]
    others = [curve for curve in courses if curve.target != target][: _AT_ONCE - len(chosen)]
    return [
        *(Curve(one_line(other.target), other.passing, Ink.MUTED) for other in others),
        *(Curve(one_line(curve.target), curve.passing, Ink.ACCENT) for curve in chosen),
    ]
