"""What the results come to, how far answers agree, and how it all was made, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.analysis.figures import Analysis, Concord, Figure
from engine.analysis.findings import (
    MARKS,
    Finding,
    Kind,
    coefficient,
    findings,
    listed,
    percent,
    plural,
    span,
    whose,
)
from engine.cli.html_report.markup import Markup, Piece, element
from engine.cli.html_report.parts import Frame, cell, head, named, row, table, value_cell

_HEADINGS: Final = {
    Kind.REAL: "Sure, as far as chance goes",
    Kind.OPEN: "Seen, but it may be chance",
    Kind.CAUTION: "Before you use a number",
}


def in_short(analysis: Analysis, frame: Frame) -> Markup:
    told = findings(analysis)
    if not told:
        return frame.part("short", "In short", "Nothing has been judged yet.")
    content: list[Piece] = []
    for kind, heading in _HEADINGS.items():
        of_kind = [one for one in told if one.kind is kind]
        if of_kind:
            content += [frame.heading(heading), _listed(of_kind)]
    return frame.part("short", "In short", "", *content)


def _listed(told: Sequence[Finding]) -> Markup:
    rows = [
        element("li", element("span", MARKS[one.kind], class_="sign", aria_hidden="true"), one.text)
        for one in told
    ]
    return element("ul", rows, class_=f"findings {told[0].kind}")


def agreement(analysis: Analysis, frame: Frame) -> Markup | None:
    concords = [one.agreement for one in analysis.targets if one.agreement is not None]
    rows = [_concord(one) for one in (*concords, *analysis.agreement)]
    if not rows:
        return None
    heads = [
        head("Between"),
        head("Agree"),
        head("Unanimous"),
        head("Gwet AC1"),
        head("Krippendorff α"),
        head("Fleiss κ"),
        head("Over", kind="number"),
    ]
    why = (
        "How alike repeated answers on the same thing are: 1 always, 0 no more than chance would "
        "have it. α and κ fall towards 0 where nearly all answers are the same, although there is "
        "hardly any disagreement; AC1 does not."
    )
    return frame.part("agreement", "Agreement", why, table(None, heads, rows, stacks=False))


def _concord(concord: Concord) -> Markup:
    return row(
        named(whose(concord)),
        _figure(concord.percent, rate=True),
        _figure(concord.unanimous, rate=True),
        [_figure(figure, rate=False) for figure in (concord.ac1, concord.alpha, concord.kappa)],
        cell(f"{concord.things:,}", kind="number"),
    )


def _figure(figure: Figure | None, *, rate: bool) -> Markup:
    if figure is None:
        return cell("—")
    if rate:
        return value_cell(percent(figure.value), span(figure.low, figure.high))
    if figure.low is None or figure.high is None:
        return value_cell(coefficient(figure.value), "")
    ends = f"[{coefficient(figure.low)} to {coefficient(figure.high)}]"
    return value_cell(coefficient(figure.value), ends)


def how_made(analysis: Analysis, frame: Frame) -> Markup:
    cost = [] if analysis.cost is None else [analysis.cost]
    sentences = [*analysis.notes, analysis.headline_rule, *_makers(analysis), *cost]
    content = [element("p", sentence) for sentence in sentences if sentence]
    return frame.part("made", "How it was made", "", *content)


def _makers(analysis: Analysis) -> Iterator[str]:
    for judge in analysis.judges:
        passes = f" in {plural(judge.passes, 'pass', 'passes')}" if judge.passes > 1 else ""
        lost = f"; {judge.unusable:,} more could not be used" if judge.unusable else ""
        second = "" if judge.counting or not judge.verdicts else ", as a second opinion"
        yield f"{judge.name} gave {plural(judge.verdicts, 'verdict')}{passes}{second}{lost}."
    models = [f"{one.target} is {one.model}" for one in analysis.targets if one.model != one.target]
    if models:
        yield f"Behind the targets: {listed(models)}."
    yield (
        "Rows of one base scenario resemble each other: their intra-class correlation, pooled over "
        f"the run, is {analysis.correlation:.2f} (0 not at all, 1 as if they were one)."
    )
