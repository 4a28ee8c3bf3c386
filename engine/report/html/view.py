"""An analysis as the templates read it, and evidence: some of the conversations that failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from engine.analysis.answer import answer
from engine.analysis.figures import (
    ENOUGH_SCENARIOS,
    Analysis,
    Comparison,
    Estimate,
    Gap,
    MetricInfo,
    Outcome,
    Overall,
    RepeatAgreement,
    TargetResult,
)
from engine.analysis.findings import Finding, findings, pairs_by_kind, points_interval, rests_on
from engine.analysis.provenance import Staleness
from engine.benchmark import ConversationKey, Track
from engine.display import joined_names, one_line, percent, plural
from engine.jury import Jury, verdict_to_show
from engine.report import scale
from engine.report.scale import Scale
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


@dataclass(frozen=True, slots=True)
class PairDifference:
    """A comparison or a gap, from the side that passes more often."""

    more: str
    less: str
    size: float
    low: float | None
    high: float | None
    p: float | None
    sure: bool
    rests_on: str
    behind: Mapping[str, str | None]
    """The arguments of a `TranscriptLinks` to its conversations: of two targets, those on which
    they differ; of groups, those of the side that passes more often."""

    @classmethod
    def of(cls, contrast: Comparison | Gap) -> PairDifference:
        contrast = contrast.greater_first
        if isinstance(contrast, Comparison):
            behind = {"target": contrast.left, "against": contrast.right, "type": contrast.track}
        else:
            behind = {"target": contrast.target, "who": f"{contrast.axis}={contrast.left}"}
        interval = (contrast.low, contrast.high, contrast.p_adjusted)
        return cls(
            contrast.left,
            contrast.right,
            contrast.difference,
            *interval,
            contrast.sure,
            rests_on(contrast),
            behind,
        )

    @property
    def ends(self) -> str:
        return points_interval(self.low, self.high)

    @property
    def points(self) -> str:
        """Whole points; `<1` for a difference that rounds to 0."""
        return "<1" if 0 < self.size < 0.005 else f"{self.size * 100:.0f}"


def scale_of(differences: Iterable[PairDifference]) -> Scale:
    """A scale that contains all of them with their intervals, and 0."""
    return scale.scale_of(
        end
        for difference in differences
        for end in (difference.size, difference.low, difference.high)
    )


@dataclass(frozen=True, slots=True)
class GroupRate:
    """A target's pass rate with one group of people; None where nothing was scored."""

    value: str
    rate: float | None
    scenarios: int

    def __str__(self) -> str:
        return f"{self.value} {percent(self.rate)}"


class TranscriptLinks(Protocol):
    """Makes links to the conversations behind a figure."""

    def __call__(self, **wanted: str | None) -> str:
        """The link for `target`, `metric`, `type`, `outcome`, `who` (`axis=value`), `against` and
        `only`; empty where there is none."""
        ...


def no_link(**_wanted: str | None) -> str:
    """A `TranscriptLinks` for a page without transcripts."""
    return ""


@dataclass(frozen=True, slots=True)
class EvidenceLinks:
    """A `TranscriptLinks` from a target's metric to its first evidence on the same page."""

    prefix: str
    places: Mapping[tuple[str, str], int]

    def __call__(self, **wanted: str | None) -> str:
        """As `TranscriptLinks`."""
        metric, target = wanted.get("metric"), wanted.get("target")
        place = self.places.get((metric or "", target or ""))
        return "" if place is None or wanted.get("who") else f"#{self.prefix}-e{place}"


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """One benchmark's part of a page."""

    analysis: Analysis
    prefix: str
    """The prefix of its ids, unique on the page."""
    level: int
    """The level of its sections' headings."""
    link: TranscriptLinks = no_link
    """Links to the conversations behind a figure."""
    evidence: Sequence[Evidence] = ()
    """The evidence on a self-contained page."""
    brief: bool = False
    """Whether most pairs of targets, and metrics by group, are left out."""

    @classmethod
    def alone(
        cls,
        analysis: Analysis,
        prefix: str,
        level: int,
        evidence: Sequence[Evidence],
        *,
        brief: bool,
    ) -> BenchmarkView:
        """A view for a page without transcripts, whose figures link to its evidence."""
        places = {
            (item.metric_id, item.target): number
            for number, item in reversed(list(enumerate(evidence)))
        }
        return cls(analysis, prefix, level, EvidenceLinks(prefix, places), evidence, brief)

    def anchor(self, number: int) -> str:
        """The id of a piece of evidence that a cell links to; empty for the others of that cell."""
        evidence, own = self.evidence[number], f"{self.prefix}-e{number}"
        return (
            own if self.link(metric=evidence.metric_id, target=evidence.target) == f"#{own}" else ""
        )

    @property
    def answer(self) -> Sequence[Finding]:
        """The results in a few lines."""
        return answer(self.analysis)

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings in full."""
        return findings(self.analysis)

    def best_first(self, track: Track) -> Sequence[TargetResult]:
        """All targets by their rate on one track, the highest first."""
        return sorted(self.analysis.targets, key=lambda result: _rank_key(result.tracks[track]))

    def ranked(self, track: Track) -> bool:
        """Whether any target's rank on this track rules out a place."""
        return any(
            track in target.ranks and target.ranks[track].tells for target in self.analysis.targets
        )

    @property
    def exposed(self) -> Sequence[TargetResult]:
        """The targets with finished conversations."""
        return [target for target in self.analysis.targets if target.exposure.conversations]

    @property
    def made_with(self) -> str:
        """The program, configuration and prompts behind the numbers, in sentences."""
        provenances = list(self.analysis.provenances.values())
        prompts = sorted(
            {
                (stage, digest)
                for provenance in provenances
                for stage, of in provenance.prompts.items()
                for digest in of
            }
        )
        listed = ", ".join(f"{stage} {digest}" for stage, digest in prompts) or "unknown"
        counted = (
            f"Counted by Crosswind {provenances[0].version} under configuration "
            f"{provenances[0].configuration}. Prompts: {listed}."
        )
        left_out = self.analysis.left_out.conversations
        if not left_out:
            return counted
        stored = plural(left_out, "stored conversation")
        return f"{counted} Left out: {stored} no longer part of the benchmark."

    @property
    def stale(self) -> Mapping[str, Staleness]:
        """The staleness of each metric with anything stale."""
        return {
            name: staleness
            for name, staleness in self.analysis.staleness.items()
            if staleness.stale
        }

    @property
    def metrics(self) -> Sequence[MetricInfo]:
        """The metrics that any target was asked on."""
        targets = self.analysis.targets
        return [
            metric
            for metric in self.analysis.metrics
            if any(metric.id in target.metrics for target in targets)
        ]

    def failed(self, metric: MetricInfo) -> int:
        """The number of failed conversations on a metric."""
        cells = [target.metrics.get(metric.id) for target in self.analysis.targets]
        return sum(cell.scored - cell.passed for cell in cells if cell is not None)

    @property
    def no_signal(self) -> dict[str, bool]:
        """The metrics that do not separate targets, and whether all conversations pass."""
        return {check.metric_id: check.passed for check in self.analysis.no_signal}

    @property
    def compared(self) -> Sequence[tuple[str, Sequence[PairDifference]]]:
        """The pairs under what they are compared on: significant ones first, then by size."""
        return [
            (
                where,
                sorted(map(PairDifference.of, pairs), key=lambda pair: (not pair.sure, -pair.size)),
            )
            for where, pairs in pairs_by_kind(self.analysis)
        ]

    def rests_on(self, result: TargetResult, track: Track) -> str:
        """`31 of 32 conversations in 4 scenarios`, `12 scenarios in 3 benchmarks`."""
        estimate, analysis = result.tracks[track], self.analysis
        scenarios = plural(estimate.base_scenarios, "scenario")
        if isinstance(analysis, Overall):
            return f"{scenarios} in {plural(analysis.counted_in(result, track), 'benchmark')}"
        return f"{estimate.passed} of {plural(estimate.scored, 'conversation')} in {scenarios}"

    @property
    def hollow_mean(self) -> str:
        """What a hollow dot among the pass rates means; empty where there is none."""
        rates = [rate for target in self.analysis.targets for rate in target.tracks.values()]
        if not any(rate.too_few and rate.scored for rate in rates):
            return ""
        return f"A hollow dot rests on fewer than {ENOUGH_SCENARIOS} scenarios."

    @property
    def rates_mean(self) -> str:
        """An explanation of pass rates and their intervals."""
        if isinstance(self.analysis, Overall):
            return (
                "The dot is the mean of a target's pass rates in these benchmarks, with equal "
                "weights. The line is its 95% interval: if the benchmarks were made again from as "
                "many scenarios of the same kinds, 19 of 20 such intervals would contain the true "
                "mean."
            )
        return (
            "The dot is the pass rate of the scored conversations. The line is its 95% interval: "
            "if the benchmark were made again from as many scenarios of the same kind, 19 of 20 "
            "such intervals would contain the true rate."
        )

    @property
    def cells_mean(self) -> str:
        """An explanation of the table of metrics by targets."""
        if isinstance(self.analysis, Overall):
            return (
                "How often each target passes the positive and the negative metrics of each "
                "benchmark."
            )
        return (
            "How often each target passes each metric. A negative metric passes if the behaviour "
            "is absent. Each cell rests on few scenarios: read rows and columns, not single cells."
        )

    @property
    def differences_mean(self) -> str:
        """An explanation of the differences between targets."""
        line = "if it excludes 0, the difference is significant, its dot filled."
        if isinstance(self.analysis, Overall):
            return (
                "How much more often the first target passes: the mean difference over the "
                "benchmarks in which both were scored, on the scenarios that both were scored on. "
                f"The line is the interval among all comparisons of this section: {line}"
            )
        meaning = (
            "How much more often the first target passes, on the scenarios that both were scored "
            f"on. The line is the interval among all comparisons of this benchmark: {line}"
        )
        if None not in self.analysis.compared_on:
            return meaning
        return (
            f"{meaning} All metrics together rest on more scenarios than either track, so they "
            "detect smaller differences."
        )

    def values(self, axis: str) -> Sequence[str]:
        """All values on a demographic axis, sorted."""
        targets = self.analysis.targets
        return sorted({value for target in targets for value in target.demographics.get(axis, {})})

    def rates_of(self, target: TargetResult, axis: str) -> Sequence[GroupRate]:
        """One for each of `values`, in that order."""
        cells = target.demographics.get(axis, {})
        return [
            GroupRate(value, cells[value].rate, cells[value].base_scenarios)
            if value in cells
            else GroupRate(value, None, 0)
            for value in self.values(axis)
        ]

    def metrics_by_people(
        self, axis: str
    ) -> Sequence[tuple[MetricInfo, str, Sequence[Estimate | None]]]:
        """Each metric and target, with an estimate for each of `values`."""
        return [
            (metric, target.target, [cells[axis].get(value) for value in self.values(axis)])
            for metric in self.metrics
            for target in self.analysis.targets
            if axis in (cells := target.metrics_by_people.get(metric.id, {}))
        ]

    def widest_gap(self, target: TargetResult, axis: str) -> PairDifference | None:
        """The target's widest gap on an axis, a significant one before any other."""
        gaps = self.analysis.gaps
        own = [
            PairDifference.of(gap)
            for gap in gaps
            if (gap.axis, gap.target) == (axis, target.target)
        ]
        return max(own, key=lambda gap: (gap.sure, gap.size), default=None)

    @property
    def pooled_gaps(self) -> Sequence[PairDifference]:
        return [PairDifference.of(gap) for gap in self.analysis.gaps if gap.target is None]

    @property
    def concords(self) -> Sequence[RepeatAgreement]:
        own = [target.agreement for target in self.analysis.targets if target.agreement is not None]
        return [*own, *self.analysis.agreement]

    def differing(self, agreement: RepeatAgreement) -> str:
        """A link to the conversations on which answers differ."""
        if agreement.between == "samples":
            return self.link(target=agreement.of, only="samples")
        return self.link(only="split")

    @property
    def makers(self) -> Sequence[str]:
        """Sentences on where the figures come from."""
        analysis = self.analysis
        sentences = [analysis.headline_rule, *_makers(analysis), analysis.cost]
        return [sentence for sentence in sentences if sentence]


def _rank_key(estimate: Estimate) -> tuple[bool, float]:
    return estimate.rate is None, -(estimate.rate or 0.0)


def _makers(analysis: Analysis) -> Iterator[str]:
    for judge in analysis.judges:
        passes = f" in {plural(judge.passes, 'pass', 'passes')}" if judge.passes > 1 else ""
        lost = f"; {judge.unusable:,} more could not be used" if judge.unusable else ""
        second = "" if judge.counting or not judge.verdicts else ", as a second opinion"
        yield f"{judge.name} gave {plural(judge.verdicts, 'verdict')}{passes}{second}{lost}."
    models = [
        f"{target.target} is {target.model}"
        for target in analysis.targets
        if target.model != target.target
    ]
    if models:
        yield f"Behind the targets: {joined_names(models)}."
    if isinstance(analysis, Overall):
        return
    if analysis.correlation is None:
        yield (
            "How alike conversations of one base scenario are cannot be told: each counts as one."
        )
        return
    yield (
        "Conversations of one base scenario resemble each other: their intra-class correlation, "
        f"pooled over the run, is {analysis.correlation:.2f} (0 not at all, 1 as if they were one)."
    )


def readable_time(at: str | None) -> str:
    """An ISO 8601 time as text, in UTC; `unknown` for None."""
    return "unknown" if at is None else f"{datetime.fromisoformat(at).astimezone(UTC):{MOMENT}}"
