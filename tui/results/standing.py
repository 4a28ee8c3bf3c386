"""How the targets stand: the rate of each on each track, drawn with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from engine.benchmark import Track
from engine.display import one_line
from engine.stages.analysis import ENOUGH_SCENARIOS, Analysis, Estimate, TargetResult
from engine.stages.findings import percent, plural, span
from tui.widgets.ink import Ink, Piece, fitted, pad
from tui.widgets.sheet import Row
from tui.widgets.whiskers import RATES, Whiskers, whiskers
from tui.wording import TRACK_SIGNS

ONE_LINE_FROM: Final = 126
"""Cells from which on both tracks of a target stand on one line."""
NAME_WIDTH: Final = (8, 24)
_RATE, _SPAN, _RANK = 5, 9, 6
_LEAST_BAR: Final = 10


def standing_rows(analysis: Analysis, width: int) -> list[Row]:
    if not analysis.targets:
        return [Row([Piece("  The configuration names no targets.", Ink.MUTED)])]
    if width >= ONE_LINE_FROM and len(analysis.tracks) > 1:
        rows = _in_one_line(analysis, width)
    else:
        rows = _below_each_other(analysis, width)
    return [*rows, *_legend(analysis)]


def _below_each_other(analysis: Analysis, width: int) -> list[Row]:
    name = _name_width(analysis)
    said = max(cell_len(_worded(one.tracks[t])) for one in analysis.targets for t in Track)
    spans = _SPAN if width - name - said > 46 else 0
    bar = width - name - 5 - _RATE - spans - said - _RANK - 2
    if bar < _LEAST_BAR:
        said += bar - _LEAST_BAR
        bar = _LEAST_BAR
    head = [Piece(" " * (name + 5 + _RATE + spans)), *RATES.axis(bar)]
    rows = [Row(fitted([*head, Piece("  rank", Ink.FAINT)], width))]
    for one in analysis.targets:
        for number, track in enumerate(analysis.tracks):
            estimate = one.tracks[track]
            line = [
                *_name(one, name, number),
                Piece(TRACK_SIGNS[track] + " ", Ink.MUTED),
                Piece(pad(percent(estimate.rate), _RATE, right=True) + " ", Ink.STRONG),
                *(
                    [Piece(pad(span(estimate.low, estimate.high), spans), Ink.MUTED)]
                    if spans
                    else []
                ),
                *whiskers(of_estimate(estimate), RATES, bar),
                Piece("  " + pad(_rank(one, track), _RANK), Ink.TEXT),
                Piece(pad(_worded(estimate), max(said, 0), right=True), Ink.MUTED),
            ]
            rows.append(Row(line, one.target))
    return rows


def _in_one_line(analysis: Analysis, width: int) -> list[Row]:
    name = _name_width(analysis)
    counts = max(cell_len(_counted(one.tracks[t])) for one in analysis.targets for t in Track)
    each = (width - name - 2) // len(analysis.tracks) - 2
    bar = each - 2 - _RATE - _SPAN - 2 - counts - _RANK
    head: list[Piece] = [Piece(" " * (name + 2))]
    for track in analysis.tracks:
        words = pad(f"{TRACK_SIGNS[track]} {track.value}", 2 + _RATE + _SPAN)
        head += [Piece(words, Ink.MUTED), *RATES.axis(bar)]
        head.append(Piece("  " + pad("rank", _RANK) + pad("rows, scen.", counts) + "  ", Ink.FAINT))
    rows = [Row(fitted(head, width))]
    for one in analysis.targets:
        line = [*_name(one, name, 0)]
        for track in analysis.tracks:
            estimate = one.tracks[track]
            line += [
                Piece("  " + pad(percent(estimate.rate), _RATE - 1, right=True) + " ", Ink.STRONG),
                Piece(pad(span(estimate.low, estimate.high), _SPAN), Ink.MUTED),
                *whiskers(of_estimate(estimate), RATES, bar),
                Piece("  " + pad(_rank(one, track), _RANK), Ink.TEXT),
                Piece(pad(_counted(estimate), counts) + "  ", Ink.MUTED),
            ]
        rows.append(Row(fitted(line, width), one.target))
    return rows


def of_estimate(estimate: Estimate) -> Whiskers:
    return Whiskers(estimate.rate, estimate.low, estimate.high, sure=not estimate.too_few)


def _name_width(analysis: Analysis) -> int:
    low, high = NAME_WIDTH
    names = (cell_len(one_line(one.target)) for one in analysis.targets)
    missing = (cell_len(_unscored(one)) for one in analysis.targets if one.unscored)
    return min(max(low, *names, *missing), high)


def _name(one: TargetResult, width: int, number: int) -> Iterator[Piece]:
    """On the first line of a target its name; on the second, what is missing."""
    yield Piece(" ")
    if number == 0:
        yield Piece(pad(one_line(one.target), width), Ink.STRONG)
    elif one.unscored:
        yield Piece(pad(_unscored(one), width), Ink.WARN)
    else:
        yield Piece(" " * width)
    yield Piece(" ")


def _unscored(one: TargetResult) -> str:
    return f"· {one.of - one.scored:,} unscored"


def _worded(estimate: Estimate) -> str:
    if not estimate.scored:
        return "nothing scored yet"
    rows, scenarios = (
        plural(count, one)
        for count, one in ((estimate.scored, "row"), (estimate.base_scenarios, "scenario"))
    )
    return f"{estimate.passed:,} of {rows}, {scenarios}"


def _counted(estimate: Estimate) -> str:
    return f"{estimate.passed:,}/{estimate.scored:,}, {estimate.base_scenarios:,}"


def _rank(one: TargetResult, track: Track) -> str:
    place = one.ranks.get(track)
    return "—" if place is None else str(place)


def _legend(analysis: Analysis) -> Iterator[Row]:
    estimates: Sequence[Estimate] = [
        estimate for one in analysis.targets for estimate in one.tracks.values()
    ]
    if any(one.too_few and one.scored for one in estimates):
        words = f" ○ fewer than {ENOUGH_SCENARIOS} base scenarios: too few for a rank"
        yield Row([Piece(words, Ink.FAINT)])
