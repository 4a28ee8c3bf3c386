"""Results as text: in about ten lines, or with all details."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

from engine.analysis.figures import Analysis, Overall, RepeatAgreement
from engine.analysis.findings import (
    Certainty,
    answer,
    findings,
    legend,
    rate_cell,
    size_words,
)
from engine.analysis.sections import sections
from engine.cli.section_lines import (
    NARROW,
    NARROW_LAYOUT,
    TableLayout,
    section_lines,
    table_that_fits,
)
from engine.display import joined_names, one_line, percent

_READABLE: Final = 100
"""Brief results are set at most this wide."""


def page_of_output() -> TableLayout:
    """As wide as the terminal, at least `NARROW`; in a pipe names stay whole."""
    columns = get_terminal_size().columns
    return TableLayout(max(NARROW, columns), whole_names=not sys.stdout.isatty())


def brief_results(analyses: Sequence[Analysis], page: TableLayout = NARROW_LAYOUT) -> str:
    """Of each, the rates and the answer; last what all have in common, and the legend."""
    width = min(page.width, _READABLE)
    answers = [answer(analysis) for analysis in analyses]
    shared = [line for line in answers[0] if all(line in lines for lines in answers[1:])]
    shared = [line for line in shared if line.kind is Certainty.CAUTION]
    if len(analyses) == 1:
        shared = []
    parts: list[str] = []
    for analysis, lines in zip(analyses, answers, strict=True):
        parts += _head(analysis, page)
        for line in lines:
            if line not in shared:
                parts += _wrapped(str(line), width, "  ")
        parts.append("")
    for line in shared:
        parts += _wrapped(str(line), width)
    last = f"{_legend(analyses)} · more: --details, --methods"
    return "\n".join([*parts, *wrap(last, width)])


def detailed_results(analysis: Analysis, page: TableLayout = NARROW_LAYOUT) -> str:
    """The rates, the findings in full, and the sections behind them."""
    parts = [*_head(analysis, page)]
    for finding in findings(analysis):
        parts += _wrapped(str(finding), page.width, "  ")
    parts += wrap(f"{_legend([analysis])} · among {analysis.family}", page.width)
    return "\n".join([*parts, *section_lines(sections(analysis), page)])


def _legend(analyses: Sequence[Analysis]) -> str:
    has_agreement = any(target.agreement for one in analyses for target in one.targets)
    return legend(analyses, *(["agree: samples of one conversation"] if has_agreement else []))


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    # an id in it stays whole, to be copied
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _head(analysis: Analysis, page: TableLayout) -> Iterator[str]:
    size, name = size_words(analysis), one_line(analysis.benchmark)
    if isinstance(analysis, Overall) and analysis.benchmarks:
        name = f"{name}: {joined_names(analysis.benchmarks)}"
    yield f"{name}{size.rjust(max(min(page.width, _READABLE) - len(name), len(size) + 2))}"
    if analysis.targets and analysis.tracks:
        yield from (f"  {row}" for row in _rate_rows(analysis, page).splitlines())


def _rate_rows(analysis: Analysis, page: TableLayout) -> str:
    """A row for each target: both rates, and how often its samples agree."""
    room = replace(page, width=page.width - 2)
    has_samples = any(target.agreement for target in analysis.targets)
    rows = [
        [
            target.target,
            *(rate_cell(analysis, target, track) for track in analysis.tracks),
            *([_agree(target.agreement)] if has_samples else []),
        ]
        for target in analysis.targets
    ]
    return table_that_fits((), rows, set(), room)


def _agree(agreement: RepeatAgreement | None) -> str:
    return "" if agreement is None else f"agree {percent(agreement.percent.value)}"
