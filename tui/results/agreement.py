"""How far repeated answers agree: a target's samples, judges, and the passes of one judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from engine.analysis.figures import Analysis, Figure, RepeatAgreement
from engine.analysis.findings import NO_COEFFICIENT, coefficient, percent, whose
from engine.display import one_line
from engine.report.scale import RATES
from tui.results.text import VerdictScope, paragraph, title
from tui.text.ink import Ink, Piece, fitted, pad, pad_apart
from tui.text.plot import Whiskers, tick_line, whiskers
from tui.widgets.sheet import SheetRow

_FIGURE: Final = 7
_NOTES: Final = {
    "samples": ("between samples", "does a target answer the same way again?"),
    "judges": ("between judges", "do two judges see the same?"),
    "passes": ("between passes of one judge", "does a judge answer the same way again?"),
}
_NONE: Final = (
    "Nothing was answered twice. Agreement needs several samples (`num_samples:`), judges, or "
    "passes of a judge in config.yaml."
)
_MEANS: Final = (
    "agree: of all pairs of answers; unan.: of all things, those with one answer. AC1 (Gwet) and "
    "α (Krippendorff) are agreement beyond chance: 1 is all, 0 what chance gives; κ is Fleiss'. "
    "Where nearly all answers are alike, α and κ say little, and AC1 more. " + NO_COEFFICIENT
)


def agreement_rows(analysis: Analysis, width: int) -> list[SheetRow]:
    """How far judges and passes agree, in `width` cells."""
    found = [one.agreement for one in analysis.targets if one.agreement is not None]
    found += analysis.agreement
    if not found:
        return list(paragraph(_NONE, width, ink=Ink.MUTED))
    rows: list[SheetRow] = []
    for between, (words, note) in _NOTES.items():
        of_kind = [one for one in found if one.between == between]
        if of_kind:
            rows.append(title(words, width, note))
            rows += _table(of_kind, width)
    return [*rows, SheetRow([]), *paragraph(_MEANS, width, ink=Ink.FAINT)]


def _table(concords: Sequence[RepeatAgreement], width: int) -> Iterator[SheetRow]:
    names = min(max(cell_len(_name(one)) for one in concords), max(width // 3, 12))
    right = _FIGURE * 5 + 12
    bar = width - names - right - 4
    head = [Piece(" " * (names + 3))]
    head += tick_line(RATES, bar) if bar >= 10 else []
    for text in ("agree", "unan.", "AC1", "α", "κ"):
        head.append(Piece(pad(text, _FIGURE, right=True), Ink.FAINT))
    head.append(Piece(pad("divided", 12, right=True), Ink.FAINT))
    yield SheetRow(fitted(head, width))
    known = [_name(one) for one in concords]
    for one in concords:
        line = [Piece(" " + pad_apart(_name(one), known, names) + "  ", Ink.STRONG)]
        if bar >= 10:
            drawn = Whiskers(one.percent.value, one.percent.low, one.percent.high)
            line += whiskers(drawn, RATES, bar)
        line += [
            Piece(pad(text, _FIGURE, right=True), ink)
            for text, ink in (
                (percent(one.percent.value), Ink.TEXT),
                (percent(one.unanimous.value), Ink.MUTED),
                (_value(one.ac1), Ink.TEXT),
                (_value(one.alpha), Ink.MUTED),
                (_value(one.kappa), Ink.MUTED),
            )
        ]
        divided = f"{one.divided:,} of {one.things:,}"
        ink = Ink.WARN if one.divided else Ink.GOOD
        line.append(Piece(pad(divided, 12, right=True), ink))
        yield SheetRow(fitted(line, width), _details(one))


def _name(one: RepeatAgreement) -> str:
    if one.between == "samples":
        return one_line(one.of) or "all targets"
    return one_line(whose(one))


def _details(one: RepeatAgreement) -> VerdictScope:
    if one.between == "samples":
        return VerdictScope((one.of,) if one.of else ())
    return VerdictScope(split=True)


def _value(figure: Figure | None) -> str:
    return "—" if figure is None else coefficient(figure.value)
