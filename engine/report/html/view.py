"""An analysis as the templates read it, and evidence: some of the conversations that failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    Analysis,
    Estimate,
    MetricInfo,
    Outcome,
    TargetResult,
)
from engine.analysis.findings import Finding, answer, other_findings
from engine.analysis.sections import Section, VerdictScope, sections
from engine.benchmark import ConversationKey, Track
from engine.display import one_line, plural
from engine.jury import Jury, verdict_to_show
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
