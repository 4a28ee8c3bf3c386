"""How far judges and human labels agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from engine.analysis.calibration import LEAST_LABELS, Calibration, CalibrationPart, RateOf
from engine.analysis.calibration_words import (
    beyond_chance,
    confusion_words,
    needed_words,
    shares_of,
    uncorrected_words,
)
from engine.display import one_line, percent, plural, span
from engine.report.scale import RATES
from engine.statistics.agreement import Agreement
from engine.statistics.calibration import Accuracy, Share
from tui.results.text import paragraph, title
from tui.text.ink import Ink, Piece, fitted_line, pad
from tui.text.plot import Whiskers, tick_line, whiskers
from tui.widgets.sheet import SheetRow

if TYPE_CHECKING:
    from engine.pipeline.labelling.calibrations import CalibrationReport


_NAME: Final = 28
_OF: Final = 25
"""Cells of a name beside its rate. With these, both corrections fit into 80 columns."""
_SHARE: Final = 29
"""Cells of a share's figures: rate, interval and number of labels."""
_LEAST_BAR: Final = 10


def label_rows(report: CalibrationReport, width: int) -> list[SheetRow]:
    """Each judge against the human labels, in `width` cells; a row on a difference leads to it."""
    rows: list[SheetRow] = []
    for calibration in report.calibrations:
        rows += _judge(calibration, width)
    for note in report.notes:
        rows += paragraph(note, width, Piece("·", Ink.MUTED), Ink.MUTED)
    return rows


def _judge(calibration: Calibration, width: int) -> Iterator[SheetRow]:
    of = f"{plural(calibration.labels, 'label')} on {plural(calibration.clusters, 'base scenario')}"
    yield title(one_line(calibration.judge), width, of)
    if calibration.labels < LEAST_LABELS:
        words = f"Fewer than {LEAST_LABELS} labels: only counts are reported."
        yield from paragraph(words, width, Piece("!", Ink.WARN))
    else:
        yield from _accuracy(calibration.accuracy, width)
        yield from _agreement(calibration.agreement, width)
        yield from _rates(calibration, width)
        for part in (*calibration.by_metric, *calibration.by_target):
            yield from _part_rows(part, width)
    yield from _counts(calibration, width)
    yield from _confusions(calibration, width)
    yield SheetRow([])


def _accuracy(accuracy: Accuracy, width: int) -> Iterator[SheetRow]:
    bar = _bar_width(width)
    if bar >= _LEAST_BAR:
        head = [Piece(" " * (_NAME + 3)), *tick_line(RATES, bar)]
        yield SheetRow(fitted_line(head, width))
    for name, share, among in shares_of(accuracy):
        if share is None:
            none = Piece(f"not known, 0 labels {among}")
            line = [Piece(f" {pad(name, _NAME)}  ", Ink.TEXT), none]
            yield SheetRow(fitted_line(line, width))
        else:
            yield _share(name, share, width)


def _share(name: str, share: Share, width: int) -> SheetRow:
    low, high = share.interval.low, share.interval.high
    figures = (
        f"  {percent(share.value):>4} {span(low, high):<9} {plural(share.labels, 'label'):>12}"
    )
    bar = _bar_width(width)
    line = [Piece(f" {pad(name, _NAME)}  ", Ink.TEXT)]
    if bar >= _LEAST_BAR:
        line += whiskers(Whiskers(share.value, low, high), RATES, bar)
    return SheetRow(fitted_line([*line, Piece(figures, Ink.STRONG)], width))


def _bar_width(width: int) -> int:
    """Cells of a bar between the name and the figures of a share."""
    return width - _NAME - _SHARE - 4


def _agreement(agreement: Agreement | None, width: int) -> Iterator[SheetRow]:
    if words := beyond_chance(agreement):
        yield from paragraph(f"{words[0].upper()}{words[1:]}.", width)


def _rates(calibration: Calibration, width: int) -> Iterator[SheetRow]:
    yield title("pass rates", width, "as judged → corrected for the judge's errors")
    for rate in calibration.rates:
        yield _rate(rate.of or "all targets", rate, width)
    for part in calibration.by_metric:
        yield _rate(part.of, part.rate, width)
    yield from paragraph(f"{needed_words(calibration).capitalize()}.", width, ink=Ink.MUTED)


def _rate(name: str, rate: RateOf, width: int) -> SheetRow:
    line = [Piece(f" {pad(one_line(name), _OF, middle=True)}  ", Ink.TEXT)]
    line.append(Piece(f"{percent(rate.judged):>4}", Ink.STRONG))
    if rate.powered is None:
        line.append(Piece(f"     {uncorrected_words(rate)}", Ink.MUTED))
        return SheetRow(fitted_line(line, width))
    known = rate.powered.interval
    line.append(Piece(f" → {percent(rate.powered.value):>4} {span(known.low, known.high):<9}"))
    gladen = rate.rogan_gladen
    if gladen.value is not None and gladen.interval is not None:
        ends = span(gladen.interval.low, gladen.interval.high)
        line.append(Piece(f"  Rogan-Gladen {percent(gladen.value)} {ends}", Ink.MUTED))
    else:
        line.append(Piece("  Rogan-Gladen cannot correct", Ink.MUTED))
    return SheetRow(fitted_line(line, width))


def _part_rows(part: CalibrationPart, width: int) -> Iterator[SheetRow]:
    if part.accuracy is not None:
        yield title(one_line(part.of), width, plural(part.labels, "label"))
        yield from _accuracy(part.accuracy, width)
        yield from _agreement(part.agreement, width)


def _counts(calibration: Calibration, width: int) -> Iterator[SheetRow]:
    if not calibration.metrics:
        return
    yield title("counts", width, "unweighted")
    for metric in calibration.metrics:
        words = (
            f"{one_line(metric.metric_id)}: both present {metric.both_present}, "
            f"only the judge {metric.only_judge}, only people {metric.only_people}, "
            f"both absent {metric.both_absent}"
        )
        yield from paragraph(words, width)


def _confusions(calibration: Calibration, width: int) -> Iterator[SheetRow]:
    if calibration.confusions:
        yield title("where they differ", width, "Enter reads it")
    for confusion in calibration.confusions:
        words = confusion_words(confusion, one_line(calibration.judge))
        words = f"{one_line(confusion.conv_id)}: {words}"
        yield SheetRow(fitted_line([Piece(f" {words}")], width), confusion)
