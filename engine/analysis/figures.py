"""The results of an analysis as plain values: rates, comparisons, agreement, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from engine.analysis.comparability import ExposedConversation, Exposure, GroupCheck
from engine.analysis.provenance import (
    UP_TO_DATE,
    Provenance,
    Stale,
    Staleness,
    UnrecordedPrompts,
    staleness_sums,
)
from engine.benchmark import ConversationKey, Track, base_id
from engine.checks import CheckKind, FaultKind, UserAuditMode
from engine.display import plural
from engine.progress import others_in_words
from engine.statistics.agreement import Agreement
from engine.statistics.ranks import RankRange

ENOUGH_SCENARIOS: Final = 8
"""With fewer base scenarios, a rate is marked as resting on too few, and a validation run gives no
interval for its ranking."""


@dataclass(frozen=True, slots=True)
class CastVote:
    """One judge's newest answer on a conversation in one pass."""

    judge: str
    number: int
    """Which pass of this judge, 0-based."""
    passed: bool | None
    """None where this answer cannot be used."""
    counts: bool = True
    """Whether it is a vote in what counts; not if it is unusable, or a second opinion."""
    lacks_quote: bool = False
    """Whether none of its quotes is found in the transcript."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What counts for one conversation that belongs to the present benchmark."""

    key: ConversationKey
    metric_id: str
    track: Track
    demographic: Mapping[str, str]
    passed: bool | None
    unscored: str | None
    """Why there is no verdict; None where there is one."""
    votes: Sequence[CastVote] = ()
    """The votes of every judge and pass."""
    stale: Stale = UP_TO_DATE
    """Which inputs of its take and counting verdicts have changed since."""
    exposed: ExposedConversation | None = None
    """How much of its plan it reached; None where it was not played to its end."""
    transcript: str | None = None
    """The scenario's `transcript_id`."""

    @property
    def base(self) -> str:
        return base_id(self.key.scenario_id)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the store holds outside the present benchmark; it does not count."""

    conversations: int = 0
    targets: Sequence[str] = ()
    samples: int = 0
    """How many of the conversations would count with a larger `num_samples`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A pass rate with its interval."""

    rate: float | None
    """`passed` over `scored`, 0 to 1; None where nothing was scored."""
    low: float | None
    high: float | None
    """The 95% interval is `low` to `high`; None where there is no rate."""
    passed: int
    scored: int
    of: int
    """Conversations that the benchmark asks for; `of - scored` have no verdict."""
    base_scenarios: int
    """Scored base scenarios, which the interval rests on: rows of one are not independent."""
    effective_n: float
    """How many independent rows the scored rows are worth."""
    if_missing_failed: float | None = None
    """The rate if everything unscored had failed; None where nothing was asked for."""
    if_missing_passed: float | None = None
    benchmarks: int | None = None
    """How many benchmarks' rates it is the mean of, each weighing the same; None for a rate of one
    benchmark, which is `passed` of `scored`."""

    @property
    def too_few(self) -> bool:
        return self.base_scenarios < ENOUGH_SCENARIOS

    @property
    def missing(self) -> int:
        return self.of - self.scored


@dataclass(frozen=True, slots=True)
class Tally:
    """A count without an interval."""

    passed: int
    scored: int

    @property
    def rate(self) -> float | None:
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """The name and track behind a metric's id."""

    id: str
    name: str
    track: Track


@dataclass(frozen=True, slots=True)
class RepeatAgreement(Agreement):
    """How far repeated answers on the same thing agree, and whose they are."""

    between: str
    """`samples`, `judges`, or `passes` of one judge."""
    of: str
    """Of samples, the target's id, or empty for all targets; of passes, the judge's name; of
    judges, all their names."""

    @property
    def disagreeing(self) -> int:
        """How many things have answers that disagree."""
        return self.things - round(self.unanimous.value * self.things)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """All results of one target."""

    target: str
    model: str
    """The label of the model behind it."""
    tracks: Mapping[Track, Estimate]
    new_metrics: Mapping[Track, Estimate | None]
    """The same rates with intervals for other metrics like these: clustered by metric. None for
    fewer than two metrics."""
    ranks: Mapping[Track, RankRange]
    """The rank on each track on which this target and another were scored."""
    metrics: Mapping[str, Estimate]
    scenarios: Mapping[str, Tally]
    base_scenarios: Mapping[str, Tally]
    demographics: Mapping[str, Mapping[str, Estimate]]
    """By axis, then by value."""
    metrics_by_people: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    """By metric, then by axis and value."""
    samples: Mapping[int, Tally]
    unscored: Mapping[str, int]
    """Conversations without a verdict, by reason."""
    agreement: RepeatAgreement | None
    """Agreement between the samples of a scenario; None where each was played once."""
    staleness: Mapping[str, Staleness] = field(default_factory=dict)
    """By metric; of an `Overall`, by benchmark."""
    exposure: Exposure = field(default_factory=Exposure)

    @property
    def scored(self) -> int:
        return sum(track.scored for track in self.tracks.values())

    @property
    def of(self) -> int:
        return sum(track.of for track in self.tracks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedDifference:
    """The difference between two sides on the same scenarios, and whether it is significant."""

    left: str
    right: str
    difference: float
    """Pass rate of `left` minus that of `right`: 0.1 is ten points."""
    low: float | None
    high: float | None
    """The interval, adjusted for the family, is `low` to `high`; None for fewer than two base
    scenarios."""
    p: float | None
    """The unadjusted p value."""
    p_adjusted: float | None
    """Adjusted for the family, by the same procedure as the interval."""
    base_scenarios: int
    rows: int
    """Conversations of both sides that it rests on."""

    @property
    def sure(self) -> bool:
        """Whether it is marked: the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def reversed_sides(self) -> Self:
        """The same difference with the sides exchanged."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            difference=-self.difference,
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
        )

    @property
    def greater_first(self) -> Self:
        """The same difference with the side that passes more often on the left."""
        return self.reversed_sides() if self.difference < 0 else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(MarkedDifference):
    """One target against another, on the scenarios (each variant is one) both were scored on."""

    track: Track | None
    """None for both tracks together."""
    error: float | None = None
    """Standard error of `difference`; None for fewer than two base scenarios."""
    freedom: int = 0
    """Degrees of freedom of `error`."""
    benchmarks: int | None = None
    """How many benchmarks it is the mean of; None in the results of one benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(MarkedDifference):
    """One demographic value against another within the same base scenarios."""

    axis: str
    target: str | None
    """None for all targets pooled."""


PROMISE: Final = "✓ significant: of results like these, at most 5% carry any false ✓"
"""What a mark means."""


@dataclass(frozen=True, slots=True)
class ComparisonFamily:
    """The comparisons that share one error rate: all those in a benchmark's results, or in those of
    several benchmarks together. A comparison without an interval is in no family and is never
    marked."""

    pairs: int = 0
    """Pairs of targets, on all metrics and on each track."""
    gaps: int = 0
    """Demographic gaps, of all targets together and of each."""
    pairs_on_like: int = 0
    """Pairs of targets, for benchmarks like these."""
    smallest_found: float | None = None
    """The smallest true difference between two targets on all metrics that such results mark 4
    times out of 5; None where they would mark none, or for several benchmarks together."""

    @property
    def size(self) -> int:
        return self.pairs + self.gaps + self.pairs_on_like

    def __str__(self) -> str:
        """`45 comparisons: 30 pairs of targets, 15 demographic gaps`."""
        parts = [
            (self.pairs, "pair of targets", "pairs of targets"),
            (self.gaps, "demographic gap", None),
            (
                self.pairs_on_like,
                "pair of targets for benchmarks like these",
                "pairs of targets for benchmarks like these",
            ),
        ]
        counts = ", ".join(plural(*part) for part in parts if part[0])
        return f"{plural(self.size, 'comparison')}: {counts}" if counts else "no comparisons"


@dataclass(frozen=True, slots=True)
class WeakestMetric:
    """The metric that all targets together pass least often."""

    metric: MetricInfo
    passed: int
    scored: int
    failure: str
    """The id of a conversation that failed, with the target that fails most often."""

    @property
    def rate(self) -> float:
        return self.passed / self.scored


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """A judge and the number of its verdicts."""

    name: str
    passes: int
    verdicts: int
    """Usable verdicts."""
    unusable: int
    counting: int
    """Usable verdicts that are votes in what counts."""


@dataclass(frozen=True, slots=True)
class ServedByOthers:
    """Replies or verdicts that came from another model than the one that was asked."""

    what: str
    """A plural noun, such as `replies of target alpha`."""
    target: str | None
    """The target's id; None where it is not about a target."""
    asked: str
    served: Mapping[str, int]
    """Their number, by the other model's name."""
    of: int

    def __str__(self) -> str:
        return f"{others_in_words(self.served, self.of, self.what)}, not from {self.asked}"


@dataclass(frozen=True, slots=True)
class UserAuditResult:
    """In how many conversations of one target the user model did not do its part."""

    of: int
    """Conversations of the benchmark that were played to their end."""
    looked_at: int
    """Those that were audited: imported ones, and those of older versions, were not."""
    invalid: int
    """Those with at least one fault."""
    faults: Mapping[FaultKind, int]
    """Conversations by kind of fault."""
    landmarks_checked: int | None = None
    """Conversations whose landmarks a model checked; None where the check is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisContext:
    """What is known of a benchmark beside the outcomes of its conversations."""

    benchmark: str
    title: str
    metrics: Sequence[MetricInfo]
    """In the order of the benchmark's file."""
    headline_rule: str = ""
    """How several verdicts on one conversation become the one that counts, in a sentence."""
    scripted_models: Sequence[str] = ()
    """The labels of the scripts that took part, which are no language models."""
    others: Sequence[ServedByOthers] = ()
    """Replies and verdicts from other models than those that were asked."""
    left_out: LeftOut = field(default_factory=LeftOut)
    notes: Sequence[str] = ()
    """What a reader should know before the figures are used."""
    cost: str | None = None
    """How the cost of the calls is known, in a sentence; None where nothing need be said."""
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    """By target."""
    unrecorded: UnrecordedPrompts = field(default_factory=UnrecordedPrompts)
    user_audit: UserAuditMode = UserAuditMode.OFF
    user_audits: Mapping[str, UserAuditResult] = field(default_factory=dict)
    """By target; empty where the audit is off."""
    group_checks: Mapping[str, GroupCheck] = field(default_factory=dict)
    """By axis of the counting conversations."""
    unanswered: Mapping[CheckKind, int] = field(default_factory=dict)
    """Counting conversations of which a check was asked for and gave no usable answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis(AnalysisContext):
    """The results of a benchmark."""

    targets: Sequence[TargetResult]
    """The highest positive rate first, then the highest negative one, no data last."""
    comparisons: Sequence[Comparison] = ()
    """Every pair on both tracks together, then on each track; in the order of `targets`, `left`
    before `right`."""
    gaps: Sequence[Gap] = ()
    """Those pooled over targets first."""
    family: ComparisonFamily = field(default_factory=ComparisonFamily)
    """The family of `comparisons` and `gaps`."""
    agreement: Sequence[RepeatAgreement] = ()
    """Between the samples of all targets, then between judges, then between passes."""
    no_signal: Mapping[str, bool] = field(default_factory=dict)
    """Metrics that do not separate targets: whether all scored conversations pass, or all fail."""
    judges: Sequence[JudgeInfo] = ()
    correlation: float | None = None
    """The intra-class correlation of the rows of a base scenario, pooled over the run; None where
    it cannot be estimated, and each base scenario then counts as one row."""
    without_quote: Mapping[str, float] = field(default_factory=dict)
    """By target: the share of its votes that count of which no quote is found."""
    weakest: WeakestMetric | None = None
    """None where nothing failed, and for several benchmarks together."""

    @property
    def part(self) -> str:
        """A noun for the entries of `metrics` and of `staleness`."""
        return "metric"

    def target(self, name: str) -> TargetResult | None:
        return next((target for target in self.targets if target.target == name), None)

    def compared(self, track: Track | None) -> Sequence[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.track is track]

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Over all targets, by metric."""
        return staleness_sums(target.staleness for target in self.targets)

    @property
    def compared_on(self) -> Sequence[Track | None]:
        """The tracks that targets are compared on; None is both together."""
        return list(dict.fromkeys(comparison.track for comparison in self.comparisons))

    @property
    def tracks(self) -> Sequence[Track]:
        """The tracks of the benchmark's metrics."""
        return [track for track in Track if any(metric.track is track for metric in self.metrics)]

    @property
    def axes(self) -> Sequence[str]:
        return sorted({axis for target in self.targets for axis in target.demographics})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall(Analysis):
    """The results of several benchmarks together, with equal weights.

    Its `metrics` are the benchmarks, one for each track that a benchmark has. A rate is the mean
    over the benchmarks in which the target was scored, with an interval for their scenarios;
    `new_metrics` has the interval for benchmarks like these. `staleness` is by benchmark.
    """

    benchmarks: Sequence[str] = ()
    """The names of benchmarks in which anything is scored."""
    skipped: Sequence[str] = ()
    """The names of those in which nothing is."""
    on_like: Sequence[Comparison] = ()
    """Every pair on each track, for benchmarks like these; empty below `ENOUGH_BENCHMARKS`."""

    @property
    def part(self) -> str:
        return "benchmark"

    def benchmarks_on(self, track: Track) -> Sequence[str]:
        """The benchmarks in which any target was scored on this track."""
        return [
            benchmark
            for benchmark in self.benchmarks
            if any(_is_scored(target, part_of(benchmark, track)) for target in self.targets)
        ]

    def missing_benchmarks(self, target: TargetResult, track: Track) -> Sequence[str]:
        """Those among `benchmarks_on` in which this target was not scored."""
        every = self.benchmarks_on(track)
        return [
            benchmark for benchmark in every if not _is_scored(target, part_of(benchmark, track))
        ]


def part_of(benchmark: str, track: Track) -> str:
    """The id of a benchmark's track among an `Overall`'s metrics."""
    return f"{benchmark} {track}"


def _is_scored(target: TargetResult, part: str) -> bool:
    return part in target.metrics and target.metrics[part].scored > 0
