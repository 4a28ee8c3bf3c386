"""Self-contained HTML pages without scripts: the report of results, and the calibration of judges;
and the environment of all templates.

The templates are in `templates/`. Everything that a template prints is cleaned (`engine.display`)
and escaped, unless a template made it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from engine.analysis.calibration import Calibration, Confusion
from engine.analysis.calibration_words import against_words, calibration_sections
from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    Analysis,
    Estimate,
    MetricInfo,
    Outcome,
    Overall,
    TargetResult,
)
from engine.analysis.findings import (
    MARKS,
    Finding,
    answer,
    legend,
    marks_mean,
    other_findings,
    rests_on,
)
from engine.analysis.methods import counted_by, methods
from engine.analysis.number_words import (
    coefficient,
    coefficient_interval,
    p_value_words,
    points,
    points_interval,
    signed_points,
)
from engine.analysis.provenance import served_words
from engine.analysis.sections import (
    Forest,
    Grid,
    Row,
    Section,
    VerdictScope,
    cell_text,
    scope_of,
    sections,
    whose,
)
from engine.analysis.validation_figures import ValidationReport
from engine.analysis.validation_words import swap_words, validation_sections
from engine.benchmark import ConversationKey, Track
from engine.display import clean, joined_names, one_line, percent, plural, span
from engine.jury import Jury, verdict_to_show
from engine.report.scale import RATES, Scale, scale_of
from engine.scripted import is_script
from engine.store.tables import StoredTake, Verdict

MOST_EVIDENCE: Final = 240
"""The most pieces of evidence on one page, so that it stays small enough to send."""
_MOST_OF_CELL: Final = 3
_LONGEST: Final = 500
"""The most characters of a justification or a quote."""

TakesWithVerdicts = Mapping[ConversationKey, tuple[StoredTake, Sequence[Verdict]]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why one conversation failed, by the verdict that is shown for what counts."""

    conv_id: str
    target: str
    metric_id: str
    judge: str
    justification: str
    shown_where: str
    """In which turns, and which of them count."""
    quotes: Sequence[tuple[str, int]]
    """Passages that were found, each with its turn."""


def evidence_of(
    outcomes: Iterable[Outcome],
    judged: TakesWithVerdicts,
    jury: Jury,
    most: int = MOST_EVIDENCE,
) -> list[Evidence]:
    """At most `most` failed conversations whose quotes were found: of each metric one, then one of
    each of its targets, then more, from different base scenarios as far as possible; sorted by
    metric, then by target."""
    cells: defaultdict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for failed in _spread_out(outcome for outcome in outcomes if outcome.passed is False):
        cell = cells[failed.metric_id, failed.key.target_id]
        if len(cell) < _MOST_OF_CELL:
            evidence_here = _evidence_of(failed, judged, jury)
            if evidence_here is not None:
                cell.append(evidence_here)
    by_metric: defaultdict[str, list[list[Evidence]]] = defaultdict(list)
    for (metric_id, _), of_cell in cells.items():
        if of_cell:
            by_metric[metric_id].append(of_cell)
    ranked = [
        # each metric begins with another target, so that no target stands for all
        (again, (number - shift) % len(targets), evidence)
        for shift, targets in enumerate(by_metric.values())
        for number, of_cell in enumerate(targets)
        for again, evidence in enumerate(of_cell)
    ]
    ranked.sort(key=lambda entry: entry[:2])
    return sorted(
        (evidence for *_, evidence in ranked[:most]),
        key=lambda evidence: (evidence.metric_id, evidence.target),
    )


def _spread_out(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """One of each metric, target and base scenario, then a second one of each, and so on."""
    before: Counter[tuple[str, str, str]] = Counter()
    numbered = []
    for outcome in outcomes:
        cell = outcome.metric_id, outcome.key.target_id, outcome.base
        numbered.append((before[cell], outcome))
        before[cell] += 1
    return [outcome for _, outcome in sorted(numbered, key=lambda pair: pair[0])]


def _evidence_of(outcome: Outcome, judged: TakesWithVerdicts, jury: Jury) -> Evidence | None:
    """The evidence of a conversation; None where no quote was found."""
    _, verdicts = judged[outcome.key]
    shown = verdict_to_show(verdicts, jury)
    if shown is None:
        return None
    quotes = [(one_line(quote.text, _LONGEST), quote.turn) for quote in shown.quotes if quote.turn]
    return (
        Evidence(
            conv_id=str(outcome.key),
            target=outcome.key.target_id,
            metric_id=outcome.metric_id,
            judge=shown.judge,
            justification=one_line(shown.justification, _LONGEST),
            shown_where=shown.shown_where,
            quotes=quotes,
        )
        if quotes
        else None
    )


MOMENT: Final = "%d %B %Y, %H:%M UTC"
GENERATOR: Final = "Crosswind results"
"""Marks a page as ours, so that it may be overwritten."""


TranscriptLinks = Callable[[VerdictScope], str]
"""Makes a link to the conversations behind a figure; empty where there is none."""


def evidence_links(prefix: str, evidence: Sequence[Evidence]) -> TranscriptLinks:
    """From a target's metric to its first evidence on the same page."""
    places: dict[tuple[str, str], int] = {}
    for number, one in enumerate(evidence):
        places.setdefault((one.metric_id, one.target), number)

    def link(scope: VerdictScope) -> str:
        if scope.metric is None or len(scope.targets) != 1 or scope.people:
            return ""
        place = places.get((scope.metric, scope.targets[0]))
        return "" if place is None else f"#{prefix}-e{place}"

    return link


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """One benchmark's part of a page."""

    analysis: Analysis
    prefix: str
    """The prefix of its ids, unique on the page."""
    level: int
    """The level of its sections' headings."""
    link: TranscriptLinks
    """Links to the conversations behind a figure."""
    evidence: Sequence[Evidence] = ()
    """The evidence on a self-contained page."""

    def anchor(self, number: int) -> str:
        """The id of a piece of evidence that a cell links to; empty for the others of that cell."""
        evidence, own = self.evidence[number], f"{self.prefix}-e{number}"
        scope = VerdictScope((evidence.target,), evidence.metric_id)
        return own if self.link(scope) == f"#{own}" else ""

    @property
    def answer(self) -> Sequence[Finding]:
        """The results in a few lines."""
        return answer(self.analysis)

    @property
    def findings(self) -> Sequence[Finding]:
        """What the answer leaves out or says in fewer words."""
        return other_findings(self.analysis)

    def best_first(self, track: Track) -> Sequence[TargetResult]:
        """All targets by their rate on one track, the highest first."""
        return sorted(self.analysis.targets, key=lambda result: _rank_key(result.tracks[track]))

    def ranked(self, track: Track) -> bool:
        """Whether any target's rank on this track rules out a place."""
        return any(
            track in target.ranks and target.ranks[track].tells for target in self.analysis.targets
        )

    @property
    def sections(self) -> Sequence[Section]:
        """What there is to show of each statistic."""
        return sections(self.analysis)

    def failed(self, metric: MetricInfo) -> int:
        """The number of failed conversations on a metric."""
        cells = [target.metrics.get(metric.id) for target in self.analysis.targets]
        return sum(cell.scored - cell.passed for cell in cells if cell is not None)

    def rests_on(self, result: TargetResult, track: Track) -> str:
        """`31 of 32 conversations in 4 scenarios`, `12 scenarios in 3 benchmarks`."""
        estimate = result.tracks[track]
        scenarios = plural(estimate.base_scenarios, "scenario")
        if estimate.benchmarks is not None:
            return f"{scenarios} in {plural(estimate.benchmarks, 'benchmark')}"
        return f"{estimate.passed} of {plural(estimate.scored, 'conversation')} in {scenarios}"

    @property
    def hollow_mean(self) -> str:
        """What a hollow dot among the pass rates means; empty where there is none."""
        rates = [rate for target in self.analysis.targets for rate in target.tracks.values()]
        if not any(rate.too_few and rate.scored for rate in rates):
            return ""
        return f"A hollow dot rests on fewer than {ENOUGH_SCENARIOS} scenarios."


def _rank_key(estimate: Estimate) -> tuple[bool, float]:
    return estimate.rate is None, -(estimate.rate or 0.0)


def readable_time(at: str | None) -> str:
    """An ISO 8601 time as text, in UTC; `unknown` for None."""
    return "unknown" if at is None else f"{datetime.fromisoformat(at).astimezone(UTC):{MOMENT}}"


_MOST_PAIRS: Final = 24
"""The most pairs shown at once, the clearest first."""
_MOST_FOLDED: Final = 100
"""The most pairs beyond those that are folded away; the others are left out, as each takes a
kilobyte."""
_WORD: Final = re.compile(r"[^\s-]+-?")
"""What a browser keeps on one line."""
_MOST_COLUMNS: Final = 14
"""The most targets side by side in a table, which fits a sheet of paper."""
_LYING: Final = 7
"""From so many targets on, a table is printed on a lying sheet of paper (style.css)."""


@cache
def environment() -> Environment:
    jinja = Environment(
        loader=PackageLoader("engine.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    jinja.globals |= {
        "marks": MARKS,
        "most_columns": _MOST_COLUMNS,
        "most_pairs": _MOST_PAIRS,
        "most_folded": _MOST_FOLDED,
        "rates": RATES,
        "scale_of": _scale_of,
    }
    words = (
        p_value_words,
        coefficient,
        marks_mean,
        readable_time,
        percent,
        plural,
        points,
        points_interval,
        signed_points,
        served_words,
        span,
        coefficient_interval,
        rates_in_words,
        counted_by,
        rests_on,
        scope_of,
        type_name,
        whole_points,
        whose,
        cell_text,
        validation_views,
        VerdictScope,
        heads_turn,
        legend,
    )
    jinja.globals |= {word.__name__: word for word in words}
    return jinja


def heads_turn(names: Sequence[str]) -> bool:
    """Whether names side by side would break within words, on a screen or on paper."""
    characters = (140 if len(names) >= _LYING else 105) // max(len(names), 1)
    return any(len(word) > characters for name in names for word in _WORD.findall(name))


def type_name(value: object) -> str:
    """By which a template tells the kinds of blocks and cells."""
    return next(one.__name__ for one in (Estimate, type(value)) if isinstance(value, one))


def rates_in_words(grid: Grid, row: Row) -> str:
    """`younger 40%, older 80%`."""
    return ", ".join(
        f"{name.text} {percent(None if estimate is None else estimate.rate)}"
        for (name, _), estimate in zip(grid.columns, grid.estimates(row), strict=True)
    )


def whole_points(difference: float) -> str:
    """In points; `<1` for a difference that rounds to 0."""
    return "<1" if 0 < difference < 0.005 else f"{difference * 100:.0f}"


def _scale_of(forest: Forest) -> Scale:
    """A scale that contains all differences with their intervals, and 0."""
    return scale_of(
        end
        for group in forest.groups
        for one in group.differences
        for end in (one.difference, one.low, one.high)
    )


def _printable(value: object) -> object:
    """Foreign text without control characters and changes of text direction."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


COMPARING: Final = (
    "All pairs of targets and all demographic gaps of a benchmark form one family. Holm's "
    "step-down procedure with stated shares decides which differences are significant: at most 5% "
    "of such results have any that is false. An interval is at the level at which its difference "
    "was tested, and excludes 0 exactly if it is significant; its p agrees with that. The "
    "ranks of a target begin after all targets that are significantly above it and end before all "
    "that are significantly below."
)
"""How differences are marked."""


def html_report(
    analyses: Sequence[Analysis],
    at: datetime,
    evidence: Mapping[str, Sequence[Evidence]] = MappingProxyType({}),
) -> str:
    """One self-contained page about one benchmark or several, which may include an `Overall`;
    `evidence` is by the benchmark's name."""
    templates = environment()
    style = templates.get_template("style.css").render()
    level = 2 if len(analyses) == 1 else 3
    return templates.get_template("page.html").render(
        generator=GENERATOR,
        style=Markup(style),  # noqa: S704  (a file of ours, which holds no text of others)
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        title=analyses[0].title if len(analyses) == 1 else "Results",
        lead=lead_words(analyses, at),
        scripted=scripted_words(analyses),
        comparing=COMPARING,
        together=together_words(analyses),
        views=[
            _view(analysis, f"b{number}", level, evidence.get(analysis.benchmark, ()))
            for number, analysis in enumerate(analyses, 1)
        ],
    )


def _view(
    analysis: Analysis, prefix: str, level: int, evidence: Sequence[Evidence]
) -> BenchmarkView:
    return BenchmarkView(analysis, prefix, level, evidence_links(prefix, evidence), evidence)


def together_words(analyses: Sequence[Analysis]) -> str:
    """How several benchmarks were combined; empty where they were not."""
    return "\n".join(
        p for analysis in analyses if isinstance(analysis, Overall) for p in methods(analysis)
    )


def lead_words(analyses: Sequence[Analysis], at: datetime) -> str:
    """The number of targets and conversations, and the date."""
    # an `Overall` only repeats the counts of the others
    analyses = [analysis for analysis in analyses if not isinstance(analysis, Overall)] or analyses
    targets = {target.target for each_analysis in analyses for target in each_analysis.targets}
    scored = sum(target.scored for each_analysis in analyses for target in each_analysis.targets)
    return (
        f"{plural(len(targets), 'target')} in {plural(scored, 'scored conversation')}, "
        f"{at:{MOMENT}}"
    )


def scripted_words(analyses: Sequence[Analysis]) -> str:
    """A warning about scripted models; empty where there were none."""
    models = sorted({model for analysis in analyses for model in analysis.scripted_models})
    if not models:
        return ""
    known = f"Scripted models took part: {joined_names(models)}. They are not language models"
    targets = {target.model for analysis in analyses for target in analysis.targets}
    real = sorted(model for model in targets if not is_script(model))
    if not real:
        return (
            f"{known}: these numbers show how Crosswind works, and say nothing about any assistant."
        )
    no = "is not a script" if len(real) == 1 else "are not scripts"
    return (
        f"{known}. {joined_names(real)} {no}; what this page says about assistants rests on these."
    )


_SCRIPTED = (
    "A judge here is a script, not a language model: its numbers show how Crosswind works, and "
    "say nothing about language models as judges."
)


@dataclass(frozen=True, slots=True)
class SectionsView:
    """Sections below a title, such as those about one judge, for the template."""

    prefix: str
    """The prefix of its ids on the page."""
    title: str
    lead: str
    sections: Sequence[Section]
    level: int = 3
    """The level of its headings."""

    def link(self, scope: VerdictScope | Confusion) -> str:
        """Empty: nothing behind its figures is on the page."""
        del scope
        return ""


def validation_views(reports: Iterable[ValidationReport]) -> list[SectionsView]:
    lead = "Everything else is unchanged. Does the ranking of the targets hold?"
    return [
        SectionsView(f"v{number}", swap_words(report), lead, validation_sections(report))
        for number, report in enumerate(reports, 1)
    ]


def calibration_page(
    title: str,
    calibrations: Sequence[Calibration],
    notes: Sequence[str],
    at: datetime,
    *,
    scripted: bool,
) -> str:
    """The page about judges' calibration. `notes` say who labelled, what was left out, and whether
    people's verdicts count."""
    templates = environment()
    style = templates.get_template("style.css").render()
    labels = max((calibration.labels for calibration in calibrations), default=0)
    return templates.get_template("calibration.html").render(
        generator=GENERATOR,
        style=Markup(style),  # noqa: S704  (a file of ours, which holds no text of others)
        style_digest=b64encode(sha256(style.encode()).digest()).decode(),
        title=title,
        lead=f"{plural(labels, 'label')}, {at:{MOMENT}}",
        scripted=_SCRIPTED if scripted else "",
        notes=notes,
        views=[
            SectionsView(f"j{number}", one.judge, against_words(one), calibration_sections(one))
            for number, one in enumerate(calibrations, 1)
        ],
    )
