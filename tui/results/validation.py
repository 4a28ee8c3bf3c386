"""Whether the order of the targets holds with another model, by a benchmark's validation runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from engine.analysis.findings import NO_ALPHA, points_interval, signed_points, with_ends
from engine.analysis.sections import VerdictScope
from engine.analysis.validation_figures import (
    ALL_TARGETS,
    RateShift,
    TrackReport,
    ValidationReport,
)
from engine.analysis.validation_words import change_words, floor_words
from engine.benchmark import Role, Track
from engine.display import one_line, percent, plural
from engine.report.scale import RATES
from engine.statistics.agreement import Agreement, Flips
from tui.format import TRACK_SIGNS
from tui.results.text import paragraph, title
from tui.text.ink import Ink, Piece, fitted_line, pad_apart
from tui.text.plot import change_line
from tui.widgets.sheet import SheetRow

if TYPE_CHECKING:
    from engine.pipeline.report import ValidatedBenchmark

_LEAST_BAR: Final = 12


def validation_rows(
    benchmark: str, validations: Sequence[ValidatedBenchmark], width: int
) -> list[SheetRow]:
    """What each validation run shows about the order of the targets, in `width` cells."""
    if not validations:
        return list(_nothing_rows(benchmark, width))
    return [
        row for validation in validations for row in (*_validated(validation, width), SheetRow([]))
    ]


def _nothing_rows(benchmark: str, width: int) -> Iterator[SheetRow]:
    texts = (
        "No validation run yet: does the order of the targets hold with another judge, another "
        "user model, or metrics that another model writes?",
        f"crosswind validate {benchmark} --replay evaluator",
        f"crosswind validate {benchmark} --swap evaluator --with NAME",
    )
    for text, ink in zip(texts, (Ink.MUTED, Ink.ACCENT, Ink.ACCENT), strict=True):
        yield from paragraph(text, width, ink=ink)


def _validated(validated_benchmark: ValidatedBenchmark, width: int) -> Iterator[SheetRow]:
    report = validated_benchmark.report
    if report is None:
        yield title(one_line(validated_benchmark.branch.label), width)
        yield from paragraph(validated_benchmark.fault or "", width, Piece("✗", Ink.BAD), Ink.BAD)
        return
    note = f"{one_line(report.before)} → {one_line(report.after)}"
    role = report.swap.role.value
    what = f"{role} once more" if report.swap.is_replay else f"another {role}"
    if report.swap.stance is not None:
        what = "another stance"
    yield title(what, width, note)
    for track in report.tracks:
        yield from _track(validated_benchmark, track, width)
        yield from _floor(report, width, track.track)
    if report.agreement is not None and report.flips is not None:
        yield from _answers(report.agreement, report.flips, report.conversations, width)
        yield from _floor(report, width)
    yield from _unscored(report, width)
    for text in report.says:
        yield from paragraph(text, width, Piece("·", Ink.MUTED), Ink.MUTED)


def _floor(report: ValidationReport, width: int, of: Track | None = None) -> Iterator[SheetRow]:
    for text in floor_words(report, of):
        yield from paragraph(text, width, Piece("=", Ink.MUTED))


def _track(
    validated_benchmark: ValidatedBenchmark, track: TrackReport, width: int
) -> Iterator[SheetRow]:
    sign = TRACK_SIGNS[track.track]
    figures = [
        f"{name} {with_ends(figure.value, figure.scenarios)}"
        for name, figure in (("τ", track.tau_b), ("ρ", track.rho))
        if figure is not None
    ]
    words = f"{len(track.changed)} of {plural(track.pairs, 'pair')} changed order"
    line = [
        Piece(f" {sign} ", Ink.TEXT),
        Piece(f"{words}  ", Ink.WARN if track.changed else Ink.GOOD),
        Piece("  ".join(figures) or "all level on a side", Ink.STRONG),
    ]
    yield SheetRow(fitted_line(line, width))
    shifts = [track.together, *track.shifts]
    names = max(cell_len(one_line(shift.target)) for shift in shifts)
    known = [one_line(shift.target) for shift in shifts]
    for shift in shifts:
        label = pad_apart(one_line(shift.target), known, min(names, 24))
        yield _shift_row(validated_benchmark, track, shift, label, width)
    for pair in track.changed:
        yield from paragraph(change_words(pair), width, Piece("·", Ink.WARN))


def _shift_row(
    validated_benchmark: ValidatedBenchmark,
    track: TrackReport,
    shift: RateShift,
    label: str,
    width: int,
) -> SheetRow:
    known = shift.interval
    figures = (
        f"{percent(shift.before):>4} → {percent(shift.after):<4} {signed_points(shift.shift):>4}"
    )
    figures += f" {points_interval(known.low, known.high):<13}" if known is not None else " " * 14
    bar = max(width - cell_len(label + figures) - 8, _LEAST_BAR)
    ink = Ink.WARN if shift.sure else Ink.MUTED
    line = [
        Piece(" ! " if shift.sure else "   ", ink),
        Piece(label + "  ", Ink.TEXT),
        *change_line(shift.before, shift.after, RATES, bar, ink),
        Piece("  " + figures, ink),
    ]
    return SheetRow(fitted_line(line, width), _verdict_scope(validated_benchmark, track, shift))


def _verdict_scope(
    validated_benchmark: ValidatedBenchmark, track: TrackReport, shift: RateShift
) -> VerdictScope:
    report = validated_benchmark.report
    judge = report.after if report and validated_benchmark.branch.role is Role.EVALUATOR else None
    targets = () if shift.target == ALL_TARGETS else (shift.target,)
    return VerdictScope(
        targets, track=track.track, benchmark=validated_benchmark.played, judge=judge
    )


def _answers(agreement: Agreement, flips: Flips, count: int, width: int) -> Iterator[SheetRow]:
    figures = [f"agree in {percent(agreement.percent.value)} of {plural(count, 'conversation')}"]
    figures += [
        NO_ALPHA if figure is None else f"{name} {with_ends(figure.value, figure.interval)}"
        for name, figure in (("AC1", agreement.ac1), ("α", agreement.alpha))
    ]
    yield from paragraph("Both sides " + "; ".join(figures) + ".", width)
    changed = f"fail → pass {flips.right_only:,} · pass → fail {flips.left_only:,}"
    same = f"both pass {flips.both:,} · both fail {flips.neither:,}"
    yield from paragraph(f"{changed} · {same}", width, ink=Ink.MUTED)


def _unscored(report: ValidationReport, width: int) -> Iterator[SheetRow]:
    if report.unscored_before or report.unscored_after:
        words = f"Unscored: {report.unscored_before:,} before, {report.unscored_after:,} after."
        yield from paragraph(words, width, Piece("·", Ink.WARN))
