"""Results as text: in about ten lines, or with all details."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shutil import get_terminal_size
from textwrap import fill, wrap
from typing import Final

from engine.analysis.answer import answer, legend, rate_cell, size_words
from engine.analysis.comparability import exposure_words
from engine.analysis.figures import (
    Analysis,
    Comparison,
    Estimate,
    Figure,
    Gap,
    MarkedDifference,
    Overall,
    RepeatAgreement,
    TargetResult,
)
from engine.analysis.findings import (
    NO_COEFFICIENT,
    Certainty,
    agreement_subject,
    coefficient,
    findings,
    marks_mean,
    p_value_words,
    pairs_by_kind,
    points,
    points_interval,
)
from engine.analysis.provenance import Staleness
from engine.benchmark import Track
from engine.cli.console import table
from engine.display import joined_names, one_line, percent, span

NARROW: Final = 80
WIDE: Final = 120
LEGEND: Final = "rate [95%] passed/conversations in base scenarios · agree: samples of one scenario"
LEGEND_OF_ALL: Final = (
    "rate [95%] base scenarios in benchmarks: the mean of the benchmarks' rates, with equal weights"
)
_SHORTEST_NAME: Final = 8
_READABLE: Final = 100
"""Brief results are set at most this wide."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The space that a table is drawn in."""

    width: int = NARROW
    """Columns."""
    whole_names: bool = False
    """Whether names are never shortened, even if the table gets wider: the reader of a pipe looks
    them up."""


def page_of_output() -> TableLayout:
    """As wide as the terminal, at least `NARROW`; in a pipe names stay whole."""
    columns = get_terminal_size().columns
    return TableLayout(max(NARROW, columns), whole_names=not sys.stdout.isatty())


def brief_results(analyses: Sequence[Analysis], page: TableLayout = TableLayout()) -> str:
    """Of each, the rates and the answer (`engine.analysis.answer`); last what all have in common,
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
    return "\n".join([*parts, *wrap(f"{legend(analyses)} · more: --details, --methods", width)])


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
            *(
                ["" if target.agreement is None else _agree(target.agreement)]
                if has_samples
                else []
            ),
        ]
        for target in analysis.targets
    ]
    return _table_that_fits((), rows, set(), room)


def _agree(agreement: RepeatAgreement | None) -> str:
    return "" if agreement is None else f"agree {percent(agreement.percent.value)}"


def results_table(analysis: Analysis, page: TableLayout = TableLayout()) -> str:
    """All details: the rates, the findings, and the tables behind them."""
    if isinstance(analysis, Overall):
        which = joined_names(analysis.benchmarks) if analysis.benchmarks else "nothing is scored"
        parts = [f"{analysis.benchmark}: {which}"]
        parts += [_leaderboard_of_all(analysis, page), *_wrapped(LEGEND_OF_ALL, page.width)]
    else:
        parts = [analysis.benchmark, _leaderboard(analysis, page), *_wrapped(LEGEND, page.width)]
    parts += _exposure(analysis, page)
    if analysis.family.size:
        parts += _wrapped(marks_mean(analysis), page.width)
    for finding in findings(analysis):
        parts += wrap(str(finding), page.width, subsequent_indent="  ")
    for note in _notes(analysis):
        parts += _wrapped(note, page.width)
    for title, drawn in _detail_sections(analysis, page):
        parts += ["", title, drawn]
    return "\n".join(parts)


def _notes(analysis: Analysis) -> Iterator[str]:
    yield from analysis.notes
    if analysis.cost is not None:
        yield analysis.cost


def _leaderboard(analysis: Analysis, page: TableLayout) -> str:
    wide = page.width >= WIDE
    head = ["target", "positive", "negative", "scored", "agree"]
    body = [
        [
            target.target,
            *(_cell(target, track, ranked=wide) for track in Track),
            f"{target.scored}/{target.of}",
            "—" if target.agreement is None else percent(target.agreement.percent.value),
        ]
        for target in analysis.targets
    ]
    right = {3, 4}
    if wide:
        head += ["AC1", "for new metrics"]
        right |= {5}
        for row, result in zip(body, analysis.targets, strict=True):
            row += [
                _value(None if result.agreement is None else result.agreement.ac1),
                _new_metrics_cell(result),
            ]
    return _table_that_fits(head, body, right, page)


def _leaderboard_of_all(analysis: Overall, page: TableLayout) -> str:
    wide = page.width >= WIDE
    head = ["target", *(str(track) for track in analysis.tracks), "scored"]
    body = [
        [
            target.target,
            *(_mean(analysis, target, track, ranked=wide) for track in analysis.tracks),
            f"{target.scored:,}/{target.of:,}",
        ]
        for target in analysis.targets
    ]
    right = {len(head) - 1}
    if wide and analysis.on_like:
        head.append("for benchmarks like these")
        for row, result in zip(body, analysis.targets, strict=True):
            row.append(_new_metrics_cell(result))
    return _table_that_fits(head, body, right, page)


def _mean(analysis: Overall, result: TargetResult, track: Track, *, ranked: bool) -> str:
    estimate = result.tracks[track]
    if estimate.rate is None:
        return "—"
    over = f"{estimate.base_scenarios:,} in {analysis.counted_in(result, track)}"
    place = _rank_cell(result, track) if ranked else ""
    return f"{percent(estimate.rate):>4} {span(estimate.low, estimate.high)} {over}{place}"


def _exposure(analysis: Analysis, page: TableLayout) -> list[str]:
    """A table, or one sentence, about how much of their plans the conversations reached."""
    exposures = {
        target.target: target.exposure
        for target in analysis.targets
        if target.exposure.conversations
    }
    if not exposures:
        return []
    if all(exposure.is_full for exposure in exposures.values()):
        planned = sum(exposure.planned for exposure in exposures.values())
        landmarks = f"all {planned:,} landmarks were reached" if planned else "no landmarks"
        return _wrapped(f"exposure: no conversation ended early, {landmarks}", page.width)
    rows = [[name, *exposure_words(exposure)] for name, exposure in exposures.items()]
    head = ["exposure", "ended early", "landmarks reached", "reached the last", "withheld"]
    return [_table_that_fits(head, rows, {1, 2, 3, 4}, page)]


def _cell(result: TargetResult, track: Track, *, ranked: bool) -> str:
    return _estimate(result.tracks[track]) + (_rank_cell(result, track) if ranked else "")


def _rank_cell(result: TargetResult, track: Track) -> str:
    rank = result.ranks.get(track)
    return f" #{rank}" if rank is not None and rank.tells else ""


def _estimate(estimate: Estimate) -> str:
    if estimate.rate is None:
        return "—"
    return (
        f"{percent(estimate.rate):>4} {span(estimate.low, estimate.high)} "
        f"{estimate.passed}/{estimate.scored} in {estimate.base_scenarios}"
    )


def _new_metrics_cell(result: TargetResult) -> str:
    rates = [
        f"{'+' if track is Track.POSITIVE else '−'} {span(estimate.low, estimate.high)}"
        for track, estimate in result.new_metrics.items()
        if estimate is not None
    ]
    return " ".join(rates) or "—"


def _value(figure: Figure | None) -> str:
    return "—" if figure is None else coefficient(figure.value)


# Details


def _detail_sections(analysis: Analysis, page: TableLayout) -> Iterator[tuple[str, str]]:
    yield f"{analysis.part} by target", _metrics(analysis, page)
    if stale := {
        name: staleness for name, staleness in analysis.staleness.items() if staleness.stale
    }:
        yield f"stale by {analysis.part}", _stale(stale, analysis.part, page)
    for where, pairs in pairs_by_kind(analysis):
        yield f"target against target, {where}", _pairs(pairs, page)
    if analysis.gaps:
        yield "between demographic groups, within a scenario", _gaps(analysis.gaps, page)
    if analysis.axes:
        yield "metric by demographic group", _people(analysis, page)
    if concords := _all_concords(analysis):
        yield "agreement", _agreement_table(concords, page)


def _metrics(analysis: Analysis, page: TableLayout) -> str:
    """One row for each target, as there may be many with long names."""
    rows = [
        [
            f"{metric.id} {metric.name}" if number == 0 else "",
            target.target,
            _estimate(target.metrics[metric.id]) if metric.id in target.metrics else "—",
        ]
        for metric in analysis.metrics
        for number, target in enumerate(analysis.targets)
    ]
    return _table_that_fits([analysis.part, "target", "passes"], rows, set(), page)


def _stale(by_name: Mapping[str, Staleness], part: str, page: TableLayout) -> str:
    rows = [
        [
            name,
            f"{staleness.stale_takes:,}/{staleness.conversations:,}",
            f"{staleness.stale_verdicts:,}/{staleness.verdicts:,}",
            ", ".join(staleness.reasons),
        ]
        for name, staleness in by_name.items()
    ]
    return _table_that_fits([part, "takes", "verdicts", "what changed"], rows, {1, 2}, page)


def _pairs(pairs: Sequence[Comparison], page: TableLayout) -> str:
    rows = [
        [
            _order(pair),
            _difference_words(pair),
            str(pair.base_scenarios),
            p_value_words(pair.p_adjusted),
            "significant" if pair.sure else "may be chance",
        ]
        for pair in sorted(pairs, key=lambda pair: (not pair.sure, -abs(pair.difference)))
    ]
    return _table_that_fits(
        ["more often > than", "by", "scenarios", "adjusted", ""], rows, {2}, page
    )


def _gaps(gaps: Sequence[Gap], page: TableLayout) -> str:
    rows = [
        [
            _order(gap),
            gap.target or "all",
            _difference_words(gap),
            "✓" if gap.sure else "·",
            f"{gap.base_scenarios:,} ({gap.rows:,})",
        ]
        for gap in gaps
    ]
    head = ["more often with > than", "target", "by", "", "scenarios (conv.)"]
    return _table_that_fits(head, rows, {4}, page)


def _people(analysis: Analysis, page: TableLayout) -> str:
    rows = [
        [
            metric.id,
            target.target,
            f"{axis} {value}",
            _estimate(estimate),
        ]
        for metric in analysis.metrics
        for target in analysis.targets
        for axis, values in target.metrics_by_people.get(metric.id, {}).items()
        for value, estimate in values.items()
    ]
    return _table_that_fits(["metric", "target", "people", "passes"], rows, set(), page)


def _order(difference: MarkedDifference) -> str:
    """Both names, the one that passes more often first."""
    first = difference.greater_first
    return f"{first.left} {'>' if first.difference else '='} {first.right}"


def _difference_words(difference: MarkedDifference) -> str:
    first = difference.greater_first
    return f"{points(first.difference)} {points_interval(first.low, first.high)}"


def _all_concords(analysis: Analysis) -> list[RepeatAgreement]:
    of_targets = [target.agreement for target in analysis.targets if target.agreement is not None]
    return [*of_targets, *analysis.agreement]


def _agreement_table(concords: Sequence[RepeatAgreement], page: TableLayout) -> str:
    rows = [
        [
            agreement_subject(agreement),
            percent(agreement.percent.value),
            percent(agreement.unanimous.value),
            _value(agreement.ac1),
            _value(agreement.alpha),
            _value(agreement.kappa),
            f"{agreement.things:,}",
        ]
        for agreement in concords
    ]
    head = ["between", "agree", "unanimous", "AC1", "α", "κ", "over"]
    drawn = _table_that_fits(head, rows, {1, 2, 3, 4, 5, 6}, page)
    if all(agreement.alpha and agreement.kappa for agreement in concords):
        return drawn
    return f"{drawn}\n{fill(NO_COEFFICIENT, page.width)}"


def _table_that_fits(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int], page: TableLayout
) -> str:
    """The table. If it is too wide, the names in the first column are shortened, as far as they
    stay distinct."""
    drawn = table(head, rows, right=frozenset(right))
    over = max(map(len, drawn.splitlines())) - page.width
    if over <= 0 or not rows or page.whole_names:
        return drawn
    names = [row[0] for row in rows]
    room = max(_SHORTEST_NAME, max(map(len, names)) - over)
    shorter = [[name, *row[1:]] for name, row in zip(shortened(names, room), rows, strict=True)]
    return table(head, shorter, right=frozenset(right))


def shortened(names: Sequence[str], room: int) -> list[str]:
    """The names cut to `room` characters, or to as many as keep different names different. Both
    ends stay, as similar names differ there."""
    apart = len(set(names))
    while True:
        shorter = [_without_middle(name, room) for name in names]
        if len(set(shorter)) == apart:
            return shorter
        room += 1


def _without_middle(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    tail = (room - 1) // 2
    return f"{name[: room - 1 - tail]}…{name[-tail:]}"


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width) or [""]
