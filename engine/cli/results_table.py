"""Results as text: in about ten lines, or with all details."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

from engine.analysis.figures import (
    Analysis,
    Overall,
    RepeatAgreement,
    TargetResult,
)
from engine.analysis.findings import (
    Certainty,
    answer,
    findings,
    legend,
    marks_mean,
    rate_cell,
    size_words,
)
from engine.analysis.number_words import coefficient
from engine.analysis.sections import estimate_text, sections
from engine.benchmark import Track
from engine.cli.section_lines import (
    NARROW,
    NARROW_LAYOUT,
    TableLayout,
    section_lines,
    table_that_fits,
)
from engine.display import joined_names, one_line, percent, span

WIDE: Final = 120
LEGEND: Final = "rate [95%] passed/conversations in base scenarios · agree: samples of one scenario"
LEGEND_OF_ALL: Final = (
    "rate [95%] base scenarios in benchmarks: the mean of the benchmarks' rates, with equal weights"
)
_READABLE: Final = 100
"""Brief results are set at most this wide."""


def page_of_output() -> TableLayout:
    """As wide as the terminal, at least `NARROW`; in a pipe names stay whole."""
    columns = get_terminal_size().columns
    return TableLayout(max(NARROW, columns), whole_names=not sys.stdout.isatty())


def brief_results(analyses: Sequence[Analysis], page: TableLayout = NARROW_LAYOUT) -> str:
    """Of each, the rates and the answer (`engine.analysis.findings`); last what all have in common,
    and the legend."""
    width = min(page.width, _READABLE)
    answers = [answer(analysis) for analysis in analyses]
    shared = [line for line in answers[0] if all(line in lines for lines in answers[1:])]
    shared = [line for line in shared if line.kind is Certainty.CAUTION]
    if len(analyses) == 1:
        shared = []
    parts: list[str] = []
    for analysis, lines in zip(analyses, answers, strict=True):
        parts += _brief_head(analysis, page)
        for line in lines:
            if line not in shared:
                parts += _brief_line(str(line), width, "  ")
        parts.append("")
    for line in shared:
        parts += _brief_line(str(line), width)
    has_agreement = any(target.agreement for one in analyses for target in one.targets)
    columns = ["agree: samples of one conversation"] if has_agreement else []
    last = f"{legend(analyses, *columns)} · more: --details, --methods"
    return "\n".join([*parts, *wrap(last, width)])


def _brief_line(text: str, width: int, indent: str = "") -> list[str]:
    # an id in it stays whole, to be copied
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _brief_head(analysis: Analysis, page: TableLayout) -> Iterator[str]:
    size, name = size_words(analysis), one_line(analysis.benchmark)
    if isinstance(analysis, Overall) and analysis.benchmarks:
        name = f"{name}: {joined_names(analysis.benchmarks)}"
    yield f"{name}{size.rjust(max(min(page.width, _READABLE) - len(name), len(size) + 2))}"
    if analysis.targets and analysis.tracks:
        yield from (f"  {row}" for row in _brief_rows(analysis, page).splitlines())


def _brief_rows(analysis: Analysis, page: TableLayout) -> str:
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


def results_table(analysis: Analysis, page: TableLayout = NARROW_LAYOUT) -> str:
    """All details: the rates, the findings, and the sections behind them."""
    title, meaning = analysis.benchmark, LEGEND
    if isinstance(analysis, Overall):
        which = joined_names(analysis.benchmarks) if analysis.benchmarks else "nothing is scored"
        title, meaning = f"{title}: {which}", LEGEND_OF_ALL
    parts = [title, _leaderboard(analysis, page), *_wrapped(meaning, page.width)]
    if analysis.family.size:
        parts += _wrapped(marks_mean(analysis), page.width)
    for finding in findings(analysis):
        parts += wrap(str(finding), page.width, subsequent_indent="  ")
    return "\n".join([*parts, *section_lines(sections(analysis), page)])


def _leaderboard(analysis: Analysis, page: TableLayout) -> str:
    wide, targets = page.width >= WIDE, analysis.targets
    of_all = isinstance(analysis, Overall)
    columns = {"target": [target.target for target in targets]}
    for track in analysis.tracks if of_all else Track:
        columns[str(track)] = [_cell(analysis, target, track, ranked=wide) for target in targets]
    columns["scored"] = [f"{target.scored:,}/{target.of:,}" for target in targets]
    if not of_all:
        agreements = [target.agreement for target in targets]
        columns["agree"] = [percent(one.percent.value) if one else "—" for one in agreements]
        if wide:
            columns["AC1"] = [
                coefficient(one.ac1.value) if one and one.ac1 else "—" for one in agreements
            ]
    like = "for new metrics"
    if isinstance(analysis, Overall):
        like = "for benchmarks like these" if analysis.on_like else ""
    if wide and like:
        columns[like] = [_new_metrics_cell(target) for target in targets]
    right = {number for number, head in enumerate(columns) if head in _RIGHT}
    return table_that_fits([*columns], [*zip(*columns.values(), strict=True)], right, page)


_RIGHT: Final = frozenset({"scored", "agree", "AC1"})


def _cell(analysis: Analysis, result: TargetResult, track: Track, *, ranked: bool) -> str:
    estimate, place = result.tracks[track], _rank_cell(result, track) if ranked else ""
    if not isinstance(analysis, Overall):
        return estimate_text(estimate) + place
    if estimate.rate is None:
        return "—"
    over = f"{estimate.base_scenarios:,} in {analysis.counted_in(result, track)}"
    return f"{percent(estimate.rate):>4} {span(estimate.low, estimate.high)} {over}{place}"


def _rank_cell(result: TargetResult, track: Track) -> str:
    rank = result.ranks.get(track)
    return f" #{rank}" if rank is not None and rank.tells else ""


def _new_metrics_cell(result: TargetResult) -> str:
    rates = [
        f"{'+' if track is Track.POSITIVE else '−'} {span(estimate.low, estimate.high)}"
        for track, estimate in result.new_metrics.items()
        if estimate is not None
    ]
    return " ".join(rates) or "—"


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width) or [""]
