"""What the figures come to, in sentences; and what one has to know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from engine.stages.analysis import Analysis, JudgeInfo
from engine.stages.findings import MARKS, Kind, findings
from tui.results.lines import paragraph, title
from tui.widgets.ink import Ink, Piece
from tui.widgets.sheet import Row

_INKS: Final[Mapping[Kind, Ink]] = {
    Kind.REAL: Ink.GOOD,
    Kind.OPEN: Ink.MUTED,
    Kind.CAUTION: Ink.WARN,
}
_HEADS: Final[Mapping[Kind, tuple[str, str]]] = {
    Kind.REAL: ("sure", "chance is an unlikely explanation"),
    Kind.OPEN: ("open", "seen, but chance may explain it"),
    Kind.CAUTION: ("to know", "before the figures are used"),
}


def says_rows(analysis: Analysis, width: int) -> list[Row]:
    if not any(one.scored for one in analysis.targets):
        return list(_nothing_yet(analysis, width))
    return [*_findings(analysis, width), *_notes(analysis, width)]


def _nothing_yet(analysis: Analysis, width: int) -> Iterator[Row]:
    if not analysis.metrics:
        yield from paragraph("This benchmark has no metrics yet.", width, ink=Ink.MUTED)
    yield from paragraph("Nothing is scored yet, so there is nothing to say.", width, ink=Ink.MUTED)
    yield from paragraph(
        "Where no run is at work, 1 leads to the benchmarks, and b begins one.",
        width,
        ink=Ink.MUTED,
    )


def _findings(analysis: Analysis, width: int) -> Iterator[Row]:
    found = findings(analysis)
    for kind in Kind:
        texts = [one.text for one in found if one.kind is kind]
        if texts:
            yield title(_HEADS[kind][0], width, _HEADS[kind][1])
        for text in texts:
            mark = Piece(MARKS[kind], _INKS[kind])
            yield from paragraph(text, width, mark, Ink.MUTED if kind is Kind.OPEN else Ink.TEXT)


def _notes(analysis: Analysis, width: int) -> Iterator[Row]:
    yield title("how it was counted", width)
    rule = analysis.headline_rule
    if rule.rstrip(".") not in {one.text for one in findings(analysis)}:
        yield from paragraph(rule, width, ink=Ink.MUTED)
    for judge in analysis.judges:
        yield from paragraph(_judge(judge), width, ink=Ink.MUTED)
    if analysis.correlation:
        text = (
            f"Rows of one base scenario are alike by {analysis.correlation:.2f} (intra-class "
            "correlation); the intervals allow for it."
        )
        yield from paragraph(text, width, ink=Ink.MUTED)
    for note in analysis.notes:
        yield from paragraph(note, width, Piece("!", Ink.WARN))
    if analysis.cost is not None:
        yield from paragraph(analysis.cost, width, ink=Ink.MUTED)


def _judge(judge: JudgeInfo) -> str:
    text = f"{judge.name}: {judge.verdicts:,} verdicts"
    if judge.counting < judge.verdicts:
        text += f", {judge.counting:,} of them count"
    if judge.passes > 1:
        text += f", in {judge.passes} passes"
    if judge.unusable:
        text += f"; {judge.unusable:,} more could not be used"
    return text + "."
