"""What the verdicts of a benchmark say, and how surely: values that a screen can draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from engine.analysis.comparability import ExposedConversation, Exposure, GroupCheck
from engine.analysis.provenance import UP_TO_DATE, Provenance, Stale, Staleness, sums
from engine.benchmark import ConversationKey, Track, base_id
from engine.checks import FaultKind, UserAuditMode
from engine.display import plural
from engine.progress import others_in_words
from engine.statistics.ranks import RankRange

ENOUGH_SCENARIOS: Final = 8
"""Base scenarios below which a rate is marked as resting on too little, and no ranking is given."""


@dataclass(frozen=True, slots=True)
class CastVote:
    """One judge's answer on a conversation in one pass; the newest where there are several."""

    judge: str
    number: int
    """Which pass of this judge, 0-based."""
    passed: bool | None
    """None where this answer cannot be used."""
    counts: bool = True
    """Whether it has a say in what counts: not where it cannot be used, nor that of a judge who was
    only asked for a second opinion."""


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
    """Of every judge and pass, whether they agree or not."""
    stale: Stale = UP_TO_DATE
    """What of its take and of the verdicts that count is not what would be asked today."""
    exposed: ExposedConversation | None = None
    """What of its plan it came to; None where it was not played to an end."""
    transcript: str | None = None
    """As a scenario's `transcript_id`."""

    @property
    def base(self) -> str:
        return base_id(self.key.scenario_id)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the store holds but the present benchmark does not, and so does not count."""

    conversations: int = 0
    targets: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A pass rate, and how surely it is known."""

    rate: float | None
    """Of what was scored; None where nothing was."""
    low: float | None
    high: float | None
    """The 95% interval; None where there is no rate."""
    passed: int
    scored: int
    of: int
    """Conversations that the benchmark asks for; `of - scored` have no verdict."""
    base_scenarios: int
    """Scored ones. What the interval rests on: rows of one base scenario are not independent."""
    effective_n: float
    """How many independent rows the scored ones are worth."""

    @property
    def too_few(self) -> bool:
        return self.base_scenarios < ENOUGH_SCENARIOS

    @property
    def missing(self) -> int:
        return self.of - self.scored

    @property
    def if_missing_failed(self) -> float | None:
        return self.passed / self.of if self.of else None

    @property
    def if_missing_passed(self) -> float | None:
        return (self.passed + self.missing) / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class MeanEstimate(Estimate):
    """The mean of several benchmarks' rates, each weighing the same: not `passed` of `scored`."""

    worst: float | None
    """The mean with what is unscored taken as failed; None where nothing was asked for."""
    best: float | None
    """With it taken as passed."""

    @property
    def if_missing_failed(self) -> float | None:
        return self.worst

    @property
    def if_missing_passed(self) -> float | None:
        return self.best


@dataclass(frozen=True, slots=True)
class Tally:
    """A plain count, where no interval is said."""

    passed: int
    scored: int

    @property
    def rate(self) -> float | None:
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """What a metric's id stands for."""

    id: str
    name: str
    track: Track


@dataclass(frozen=True, slots=True)
class Figure:
    """A coefficient with its interval, where one can be given."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RepeatAgreement:
    """How far repeated answers on the same thing agree."""

    between: str
    """`samples`, `judges`, or `passes` of one judge."""
    of: str
    """A target's id for its samples, `` for those of all targets; the judge's name for its passes,
    the names of all for judges."""
    things: int
    """Answered at least twice."""
    percent: Figure
    """Of all pairs of answers on one thing, the share that agree."""
    unanimous: Figure
    """The share of things on which all answers agree."""
    ac1: Figure | None
    alpha: Figure | None
    kappa: Figure | None
    """Fleiss'; only where everything was answered equally often."""

    @property
    def divided(self) -> int:
        """Things on which not all answers agree."""
        return self.things - round(self.unanimous.value * self.things)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Everything about one target."""

    target: str
    model: str
    """The label of the model behind it."""
    scripted: bool
    """Whether a scripted model had a part in its conversations."""
    tracks: Mapping[Track, Estimate]
    new_metrics: Mapping[Track, Estimate | None]
    """The same rate for metrics like these, not only for these: clustered by metric. None below
    two metrics."""
    ranks: Mapping[Track, RankRange]
    """Of each track on which this target and another were scored."""
    metrics: Mapping[str, Estimate]
    scenarios: Mapping[str, Tally]
    base_scenarios: Mapping[str, Tally]
    demographics: Mapping[str, Mapping[str, Estimate]]
    """By axis, then by value."""
    metrics_by_people: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    """The same of each metric, by its id."""
    samples: Mapping[int, Tally]
    unscored: Mapping[str, int]
    """How many conversations have no verdict, by reason."""
    agreement: RepeatAgreement | None
    """Between the samples of one scenario; None where each was played once."""
    staleness: Mapping[str, Staleness] = field(default_factory=dict)
    """Of what counts, by metric."""
    exposure: Exposure = field(default_factory=Exposure)

    @property
    def scored(self) -> int:
        return sum(one.scored for one in self.tracks.values())

    @property
    def of(self) -> int:
        return sum(one.of for one in self.tracks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedDifference:
    """One side against another on the same scenarios, and how sure the difference is."""

    left: str
    right: str
    difference: float
    """`left` minus `right`, in rates of passing: 0.1 is ten points."""
    low: float | None
    high: float | None
    """The interval among all of the family; None where there are fewer than two scenarios."""
    p: float | None
    """Of this one looked at alone."""
    p_adjusted: float | None
    """Among all of the family, by the procedure of `low` and `high`."""
    base_scenarios: int
    rows: int
    """Conversations that it rests on, of both sides."""

    @property
    def sure(self) -> bool:
        """Whether it is marked: the interval leaves 0 out."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def turned(self) -> Self:
        """As seen from the other side."""
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
        """With the side on the left that passes more often."""
        return self.turned() if self.difference < 0 else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(MarkedDifference):
    """One target against another on the scenarios, variants counted singly, that both were scored
    on."""

    track: Track | None
    """None for both together, which rests on twice as much."""
    error: float | None = None
    """Standard error of `difference`; None where there are fewer than two scenarios."""
    freedom: int = 0
    """Degrees of freedom that `error` has."""
    benchmarks: int | None = None
    """Whose mean it is; None in the results of one benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(MarkedDifference):
    """One demographic value against another, within the same base scenarios."""

    axis: str
    target: str | None
    """None for all targets pooled."""


@dataclass(frozen=True, slots=True)
class ComparisonFamily:
    """What is marked under one promise: all that a benchmark's results compare, or those of all
    benchmarks together. A comparison without an interval is in no family, and is never marked."""

    pairs: int = 0
    """Of targets, on all metrics and on each track."""
    gaps: int = 0
    """Between people, of all targets together and of each."""
    exploratory: bool = False
    """Whether the promise is of the false discovery rate; else of any false mark at all."""
    pairs_on_like: int = 0
    """Of targets, for benchmarks like these."""

    @property
    def size(self) -> int:
        return self.pairs + self.gaps + self.pairs_on_like

    @property
    def mark(self) -> str:
        """What something that is marked is called."""
        return "worth a look" if self.exploratory else "sure"

    @property
    def promise(self) -> str:
        """What ✓ means, in a sentence."""
        if self.exploratory:
            return (
                "Exploratory: ✓ is no more than worth a look; on average at most 5% of such marks "
                "are false (false discovery rate)"
            )
        return "✓ is sure: of results like these, at most 5% carry any false ✓"

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
        said = ", ".join(plural(*part) for part in parts if part[0])
        return f"{plural(self.size, 'comparison')}: {said}" if said else "no comparisons"


@dataclass(frozen=True, slots=True)
class NoSignal:
    """A metric that tells no targets apart: all pass it always, or all never."""

    metric_id: str
    passed: bool


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """One who gave verdicts that are looked at here."""

    name: str
    passes: int
    verdicts: int
    """Usable ones."""
    unusable: int
    counting: int
    """Of the usable ones, those that have a say in what counts."""


@dataclass(frozen=True, slots=True)
class ServedByOthers:
    """What came from other models than the one that was asked, of all that is looked at here."""

    what: str
    """Such as `replies of target alpha`."""
    target: str | None
    """None where it is no target's."""
    asked: str
    served: Mapping[str, int]
    """How much, by the other model's name."""
    of: int

    def __str__(self) -> str:
        return f"{others_in_words(self.served, self.of, self.what)}, not from {self.asked}"


@dataclass(frozen=True, slots=True)
class UserAuditResult:
    """In how many conversations of one target the user model did not do its part."""

    of: int
    """Conversations of the benchmark that were played to their end."""
    looked_at: int
    """Of those: what came from files, or an older version played, nobody has looked at."""
    invalid: int
    """With one fault or more."""
    faults: Mapping[FaultKind, int]
    """By each kind, the conversations that have it."""
    landmarks_checked: int | None = None
    """In how many a model said which landmarks were carried out; None where none is to."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a benchmark's verdicts say."""

    benchmark: str
    title: str
    metrics: Sequence[MetricInfo]
    """In the order of the benchmark's file."""
    targets: Sequence[TargetResult]
    """The highest positive rate first, then the highest negative one, no data last."""
    comparisons: Sequence[Comparison]
    """Of every pair, on both tracks together, then on each; in the order of `targets`, in which
    `left` stands before `right`."""
    gaps: Sequence[Gap]
    """Pooled ones first."""
    family: ComparisonFamily
    """Of `comparisons` and `gaps`."""
    agreement: Sequence[RepeatAgreement]
    """Between samples over all targets, then between judges, then between passes."""
    no_signal: Sequence[NoSignal]
    judges: Sequence[JudgeInfo]
    headline_rule: str
    """How several verdicts on one conversation become the one that counts, in a sentence."""
    correlation: float | None
    """How alike the rows of one base scenario are (intra-class), pooled over the run; None where
    that cannot be told: each base scenario counts as one row then."""
    scripted_models: Sequence[str] = ()
    """The labels of those that took part: they are no language models."""
    others: Sequence[ServedByOthers] = ()
    """Replies and verdicts that other models gave than those that were asked."""
    left_out: LeftOut = field(default_factory=LeftOut)
    notes: Sequence[str] = ()
    """What a reader should know before the figures are used."""
    cost: str | None = None
    """Where the cost of the calls is known from, in a sentence."""
    provenances: Mapping[str, Provenance] = field(default_factory=dict)
    """By target."""
    user_audit: UserAuditMode = UserAuditMode.OFF
    user_audits: Mapping[str, UserAuditResult] = field(default_factory=dict)
    """By target; none where nobody looks."""
    group_checks: Mapping[str, GroupCheck] = field(default_factory=dict)
    """By axis of the conversations that count."""

    @property
    def part(self) -> str:
        """What `metrics` are, and what staleness is told by: a noun."""
        return "metric"

    def target(self, name: str) -> TargetResult | None:
        return next((one for one in self.targets if one.target == name), None)

    def compared(self, track: Track | None) -> Sequence[Comparison]:
        return [one for one in self.comparisons if one.track is track]

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """How stale what counts for all targets is, by metric."""
        return sums(one.staleness for one in self.targets)

    @property
    def compared_on(self) -> Sequence[Track | None]:
        """What targets are compared on, None being both tracks together."""
        return list(dict.fromkeys(one.track for one in self.comparisons))

    @property
    def tracks(self) -> Sequence[Track]:
        """Those that the benchmark has metrics of."""
        return [track for track in Track if any(one.track is track for one in self.metrics)]

    @property
    def axes(self) -> Sequence[str]:
        return sorted({axis for one in self.targets for axis in one.demographics})


@dataclass(frozen=True, slots=True)
class Overall(Analysis):
    """What the verdicts of several benchmarks say of the targets together, each benchmark weighing
    the same.

    Its `metrics` are the benchmarks, one for each track that a benchmark has. A rate is the mean of
    the benchmarks' rates in which the target was scored, with an interval for these benchmarks'
    scenarios; `new_metrics` has the one for benchmarks like these. `staleness` is by benchmark.
    """

    benchmarks: Sequence[str] = ()
    """Those in which anything is scored, by name."""
    skipped: Sequence[str] = ()
    """Those in which nothing is."""
    on_like: Sequence[Comparison] = ()
    """Of every pair, on each track, for benchmarks like these; none below `ENOUGH_BENCHMARKS`."""

    @property
    def part(self) -> str:
        return "benchmark"

    def benchmarks_on(self, track: Track) -> Sequence[str]:
        """Those in which any target was scored on it."""
        return [
            one
            for one in self.benchmarks
            if any(_is_scored(each, part_of(one, track)) for each in self.targets)
        ]

    def lacks(self, target: TargetResult, track: Track) -> Sequence[str]:
        """Of those, the ones in which this target was not."""
        every = self.benchmarks_on(track)
        return [one for one in every if not _is_scored(target, part_of(one, track))]

    def counted_in(self, target: TargetResult, track: Track) -> int:
        """In how many of them it was scored."""
        return len(self.benchmarks_on(track)) - len(self.lacks(target, track))


def part_of(benchmark: str, track: Track) -> str:
    """The id among an `Overall`'s metrics."""
    return f"{benchmark} {track}"


def _is_scored(target: TargetResult, part: str) -> bool:
    return part in target.metrics and target.metrics[part].scored > 0
