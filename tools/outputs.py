"""The shapes of what `--json` prints, from which `tools/schemas.py` makes `output.json`. The tests
hold what every command prints to them."""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

from engine.analysis.calibration import (
    CalibrationPart,
    Confusion,
    JudgesCompared,
    MetricCounts,
    RateOf,
)
from engine.analysis.comparability import Exposure
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import Metric, Scenario, Stage, Track
from engine.checks import CheckAnswer, CheckKind
from engine.doctor.findings import Diagnostic
from engine.link import AgentStatus, ModelLimit, Wait
from engine.pipeline.order import PriceRange, WorkItem
from engine.pipeline.power import Detectable
from engine.statistics.agreement import Agreement
from engine.statistics.calibration import Accuracy, MissingReason

# What a run would do


class CountRange(TypedDict):
    """Of whole numbers."""

    low: int
    high: int
    expected: int


class DollarRange(TypedDict):
    low: float
    high: float
    expected: float


class Price(TypedDict):
    calls: CountRange
    input_tokens: CountRange
    output_tokens: CountRange
    usd: DollarRange
    unpriced_calls: CountRange
    """Calls of models whose price is not known, which `usd` leaves out."""
    measured: bool
    """Whether it is estimated from calls of this workspace."""
    tried_again: int
    """Calls on top that are expected to be tried again."""


class PlannedStage(Price):
    stage: Stage
    target: str | None
    rows: CountRange


class PricedPlan(TypedDict):
    benchmark: str
    work: list[WorkItem]
    stale: list[WorkItem]
    stages: list[PlannedStage]
    assumed: list[str]
    waiting: list[str]
    """Ids that a person must approve first."""
    rejected: list[str]
    total: Price


class PowerPlan(PricedPlan):
    power: list[Detectable]


class FoundFault(TypedDict):
    """What a lint rule, or a model that was asked, finds."""

    benchmark: str
    file: str
    line: int | None
    id: str
    rule: str
    says: str
    mend: str
    reason: str | None
    """Why `lint_ignore` silences it."""


class Reading(TypedDict):
    """`review --with --json`."""

    findings: list[FoundFault]
    silenced: list[FoundFault]


class Plan(Reading):
    """`run --dry-run --json`."""

    benchmarks: list[PowerPlan]
    total: Price
    run_budget_usd: float | None
    workspace_budget_usd: float | None
    workspace_spent_usd: float | None


# Results


class RateCell(TypedDict):
    pass_rate: float
    n_passed: float
    n_total: int


class Interval(TypedDict):
    """Of 95 %."""

    low: float
    high: float
    n: int
    n_effective: float | None
    base_scenarios: int
    too_few_scenarios: bool


class CellWithInterval(RateCell):
    interval: Interval | None


class LikeThese(TypedDict):
    positive_pass_rate: NotRequired[Interval | None]
    negative_pass_rate: NotRequired[Interval | None]


class Intervals(LikeThese):
    level: float
    method: str
    intraclass_correlation: float | None
    by_metric: dict[str, Interval | None]
    by_demographic: dict[str, dict[str, Interval | None]]
    for_new_metrics: LikeThese
    ranks: dict[Track, list[int]]
    """The best and the worst rank that the pairs leave."""


class Scored(TypedDict):
    rule: str
    scored: int
    of: int
    unscored: dict[str, int]
    """Conversations by reason."""
    bounds: dict[str, list[float | None]]
    """The pass rates if all that are unscored failed, and if all passed."""


class StaleCounts(TypedDict):
    conversations: int
    verdicts: int
    stale: int
    """Conversations whose take, or a verdict on it, is stale."""
    stale_takes: int
    stale_verdicts: int
    takes_why: dict[str, int]
    """Stale takes by the input that changed."""
    verdicts_why: dict[str, int]


class StaleByMetric(StaleCounts):
    by_metric: dict[str, StaleCounts]


class Value(TypedDict):
    value: float
    low: float | None
    high: float | None


class Agreed(TypedDict):
    of: NotRequired[str]
    things: int
    percent: Value | None
    unanimous: Value | None
    gwet_ac1: Value | None
    krippendorff_alpha: Value | None
    fleiss_kappa: Value | None


class Agreements(TypedDict):
    samples: Agreed | None
    judges: list[Agreed]
    passes: list[Agreed]


class Compared(TypedDict):
    """A difference of two pass rates; `marked` is said of one that is significant."""

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    marked: bool
    base_scenarios: int


class ComparedTargets(Compared, TypedDict("With", {"with": str})):
    """Positive where the row's own target passes more often."""

    track: str
    n: int
    benchmarks: NotRequired[int]


class ComparedGroups(Compared):
    axis: str
    value: str
    against: str
    rows: int


class Family(TypedDict):
    """All comparisons that share one error rate."""

    comparisons: int
    between_targets: int
    between_people: int
    error_rate: float
    controlled: str
    method: str
    promise: str


class GuessedGroups(TypedDict):
    """Whether a target could have known the group: a model's guesses from the user's messages."""

    of: int
    checked: int
    right: int
    low: float | None
    high: float | None
    by_chance: float | None
    models: list[str]


class Comparisons(TypedDict):
    family: Family
    targets: list[ComparedTargets]
    demographics: list[ComparedGroups]
    demographics_of_all_targets: list[ComparedGroups]
    guessed_from_user_messages: dict[str, GuessedGroups]
    metrics_without_signal: list[str]


class ServedByOthers(TypedDict):
    replies: dict[str, int]
    of: int


class UserAudit(TypedDict):
    mode: str
    of: int
    looked_at: int
    invalid: int
    faults: dict[str, int]
    landmarks_checked: int | None


class LeftOut(TypedDict):
    conversations: int
    targets: list[str]


class MadeWith(TypedDict):
    """Versions, prompts by their digests, and the models that served, with their settings."""

    version: str
    configuration: str
    prompts: dict[str, list[str]]
    targets: dict[str, list[str]]
    user_models: dict[str, list[str]]
    judges: dict[str, list[str]]
    checkers: dict[str, list[str]]
    first_at: str | None
    last_at: str | None
    stances: list[str]
    settings: dict[str, list[dict[str, Any]]]
    left_out: LeftOut


class TargetRow(TypedDict):
    """What all results say of a target, on one benchmark or on several."""

    target_model: str
    positive_pass_rate: float | None
    negative_pass_rate: float | None
    n_positive: int
    n_negative: int
    n_total: int
    scored: Scored
    exposure: Exposure
    notes: list[str]
    served_by_others: NotRequired[ServedByOthers]
    user_audit: NotRequired[UserAudit]
    _crosswind: NotRequired[MadeWith]


class ResultRow(TargetRow):
    by_metric: dict[str, RateCell]
    by_scenario: dict[str, RateCell]
    by_base_scenario: dict[str, RateCell]
    by_demographic: dict[str, dict[str, RateCell]]
    by_sample: dict[str, RateCell]
    intervals: Intervals
    by_metric_and_demographic: dict[str, dict[str, dict[str, CellWithInterval]]]
    stale: StaleByMetric
    agreement: Agreements
    comparisons: Comparisons


class OverallIntervals(LikeThese):
    level: float
    method: str
    for_benchmarks_like_these: OnLike
    ranks: dict[Track, list[int]]


OnLike = TypedDict(
    "OnLike",
    {
        "method": str,
        "from": int,
        "positive_pass_rate": NotRequired[Interval | None],
        "negative_pass_rate": NotRequired[Interval | None],
    },
)


class OverallFamily(Family):
    between_targets_for_benchmarks_like_these: int


class OverallComparisons(TypedDict):
    family: OverallFamily
    targets: list[ComparedTargets]
    targets_for_benchmarks_like_these: list[ComparedTargets]


class StaleByBenchmark(StaleCounts):
    by_benchmark: dict[str, StaleCounts]


class OverallRow(TargetRow):
    by_benchmark: dict[str, dict[Track, CellWithInterval]]
    intervals: OverallIntervals
    stale: StaleByBenchmark
    comparisons: OverallComparisons


class Overall(TypedDict):
    """`results --overall --json`."""

    benchmarks: list[str]
    nothing_scored: list[str]
    generalised_to: str
    targets: list[OverallRow]


# The state of a run


class FailedModel(TypedDict):
    count: int
    reason: str


class FailedWork(TypedDict):
    benchmark: str
    stage: Stage
    id: str


class Failures(TypedDict):
    """Rows of work that failed for one reason; the first hundred are named."""

    kind: str
    count: int
    what: str
    reason: str
    models: dict[str, FailedModel]
    rows: list[FailedWork]
    remedy: str
    may_pass_unchanged: bool


class Run(TypedDict):
    """`run --json`, also of `simulate` and `evaluate`."""

    failed: int
    failures: list[Failures]
    stopped: bool
    results: dict[str, list[ResultRow]]


class Counts(TypedDict):
    queued: int
    running: int
    done: int
    failed: int


class TargetState(TypedDict):
    simulate: Counts
    evaluate: Counts
    calls: int
    cost_usd: float | None
    last_problem: str | None
    replies: int
    served_by_others: dict[str, int]


class BenchmarkState(TypedDict):
    stages: dict[Stage, Counts]
    targets: dict[str, TargetState]
    to_begin: dict[str, int]
    """By target, conversations that no run has come to yet."""
    to_judge_more: int
    to_review: int
    all_rejected: bool
    review_required: bool


class Engine(TypedDict):
    """The engine at work, as its lock and it itself say."""

    pid: int
    host: str
    since: str | None
    state: str | None
    speaking: int | None
    waiting_messages: int | None
    problem: str | None
    waits: list[Wait]
    limits: list[ModelLimit]
    parked: dict[str, str]
    concurrency: dict[str, int]
    between: dict[str, int]
    notices: list[str]
    agents: list[AgentStatus]
    quote: PriceRange | None
    agreed_usd: float | None
    spent_usd: float | None
    rest_usd: float | None
    question: str | None


class Status(TypedDict):
    """`status --json`; a sum is null where no price is known of any call in it."""

    workspace: str
    engine: Engine | None
    summary: str
    last: str | None
    last_run: str
    unwritten_rows: int
    run_budget_usd: float | None
    workspace_budget_usd: float | None
    spent_usd: float | None
    spent_usd_by_role: dict[str, float | None]
    unpriced_calls: int
    unsettled_usd: float
    """What calls that were cut off may cost at most."""
    refused: list[str]
    """What a run of everything would refuse before its first call."""
    batches: list[str]
    failed: int
    failures: list[Failures]
    unread_results: str | None
    benchmarks: dict[str, BenchmarkState]


class PilotedTarget(TypedDict):
    passed: int
    scored: int


class Doubt(TypedDict):
    kind: str
    says: str
    mend: str


class PilotedMetric(TypedDict):
    id: str
    conversations: int
    targets: dict[str, PilotedTarget]
    unscored: dict[str, int]
    landmarks_planned: int
    landmarks_reached: int
    ended_early: int
    user_faults: dict[str, int]
    doubts: list[Doubt]


class PilotedBenchmark(TypedDict):
    conversations: int
    usd_per_conversation: float | None
    metrics: list[PilotedMetric]
    left: Price
    power: list[Detectable]


class Pilot(TypedDict):
    """`run --pilot --json`."""

    benchmarks: dict[str, PilotedBenchmark]
    left: Price


# What is stored


class UserFault(TypedDict):
    kind: str
    turn: int | None
    detail: str


class Message(TypedDict):
    turn: int
    role: Literal["user", "assistant"]
    content: str
    thought: str | None
    landmark: str | None
    finish: str | None
    reasoning: str | None
    served_by: str | None
    """The model that answered, where it is not the one that was asked."""


class Quoted(TypedDict):
    text: str
    turn: int | None
    """The reply that holds it; null where none does."""


class Label(TypedDict, total=False):
    """What a person's verdict says beside its result."""

    stratum: str
    inclusion: float
    confidence: int
    seconds: float
    adjudicates: bool


Verdict = TypedDict(
    "Verdict",
    {
        "judge": str,
        "source": str,
        "pass": int,
        "present": bool | None,
        "passed": bool | None,
        "unscored": str | None,
        "justification": str,
        "quotes": list[Quoted],
        "marks": list[bool] | None,
        "served_by": str | None,
        "label": NotRequired[Label],
        "counts": bool,
        "why_not": str | None,
    },
)


class Check(TypedDict):
    kind: CheckKind
    model: str
    answers: list[CheckAnswer]
    unusable: NotRequired[str]
    served_by: NotRequired[str]


class Take(TypedDict):
    take: int
    target: str
    sample: int
    model: str
    user_model: str
    form: str
    scripted: bool
    stop_reason: str | None
    """Null while it is played."""
    user_faults: list[UserFault] | None
    counts: bool
    why_not: str | None
    passed: bool | None
    unscored: str | None
    settings: NotRequired[dict[str, dict[str, Any]]]
    """What the target and the user model were asked with."""
    scenario: Scenario | None
    landmarks_never_reached: list[int]
    transcript: list[Message]
    verdicts: list[Verdict]
    checks: NotRequired[list[Check]]


class UnusableAnswer(TypedDict):
    role: str
    model: str
    fault: str
    answer: str


class FailedStage(TypedDict):
    stage: Stage
    reason: str | None
    unusable_answers: list[UnusableAnswer]


class Shown(TypedDict):
    """`show --json`: of a metric, a scenario, a conversation's takes, or a row that failed."""

    benchmark: str
    id: str
    kind: Literal["metric", "scenario", "conversation", "row"]
    failed: NotRequired[list[FailedStage]]
    metric: NotRequired[Metric]
    scenario: NotRequired[Scenario]
    takes: NotRequired[list[Take]]


class ConversationKey(TypedDict):
    scenario_id: str
    target_id: str
    sample: int


class Found(TypedDict):
    """A message that `search` finds; `spans` are where in the snippet."""

    conv_id: str
    seq: int
    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: str
    snippet: str
    spans: list[list[int]]
    cut_before: bool
    cut_after: bool
    counts: bool
    why_not: str | None


# What people say of it


class ReviewFinding(TypedDict):
    rule: str
    says: str


class Neighbour(TypedDict):
    id: str
    words_in_common: float


class ReviewRow(TypedDict):
    id: str
    kind: str
    state: str
    digest: str
    by: str | None
    action: str | None
    reason: str | None
    findings: list[ReviewFinding]
    alike: list[Neighbour]


class Review(TypedDict):
    """`review --json`; with `said`, what an action came to."""

    benchmark: str
    waiting: int
    rows: list[ReviewRow]
    said: NotRequired[str | list[str]]


class Labelling(TypedDict):
    """`label --json`: nothing in it identifies the conversations."""

    benchmark: str
    person: str
    sample: int
    seed: str
    size: int
    labelled: list[int]
    open: list[int]
    replaced: list[int]


class DisputedMessage(TypedDict):
    turn: int
    speaker: str
    text: str


class GivenLabel(TypedDict):
    person: str
    answer: str
    present: bool | None
    replies: list[int]
    note: str
    confidence: int | None


class Dispute(TypedDict):
    """`label --decide --json`."""

    id: str
    definition: str
    messages: list[DisputedMessage]
    labels: list[GivenLabel]


class LeftOutLabels(TypedDict):
    cannot_tell: int
    disputed: int
    replaced: int


class Calibrated(TypedDict):
    """`calibrate --json`: of a judge."""

    judge: str
    labels: int
    unjudged: int
    clusters: int
    accuracy: Accuracy | None
    agreement: Agreement | None
    """Null, as `accuracy`, for so few labels that only counts are said."""
    rates: list[RateOf]
    metrics: list[MetricCounts]
    by_metric: list[CalibrationPart]
    by_target: list[CalibrationPart]
    confusions: list[Confusion]
    width: float
    labels_needed: int | None
    labels_needed_reason: MissingReason | None
    people: dict[str, int]
    left_out: LeftOutLabels
    earlier_definition: int
    rule: str


class JudgesSplit(TypedDict):
    """`calibrate --compare --json`."""

    left: str
    right: str
    splits: list[JudgesCompared]


# A workspace


class Doctor(TypedDict):
    exit_code: int
    findings: list[Diagnostic]


class ImportedFile(TypedDict):
    file: str
    rows: int
    taken: int
    known: int
    dropped: int
    problems: list[str]


class ImportedBenchmark(TypedDict):
    benchmark: str
    source: str
    added: dict[str, int]
    mapped: dict[str, str]
    notes: dict[str, int]
    read_as: list[str]
    refused: list[str]
    targets: list[str]
    samples: int
    unchanged: int | None
    files: list[ImportedFile]


class Imported(TypedDict):
    kind: str
    dry_run: bool
    benchmarks: list[ImportedBenchmark]
    placed: list[str]
    targets_to_add: list[str]
    problems: list[str]


class Saved(TypedDict):
    rows: int
    left_out: int
    unreadable_rows: list[list[int]]
    cut_off: bool
    missing_from_log: list[list[int]]


class Repaired(TypedDict):
    store: str
    faults: list[str]
    damaged_store: str | None
    saved: Saved | None
    filled: Imported | None
    missing: list[str]


OUTPUTS: Final[dict[str, Any]] = {
    "calibration": list[Calibrated],
    "disputes": list[Dispute],
    "doctor": Doctor,
    "import": Imported,
    "judges": JudgesSplit,
    "labelling": Labelling,
    "overall": Overall,
    "pilot": Pilot,
    "plan": Plan,
    "reading": Reading,
    "repair": Repaired,
    "results": dict[str, list[ResultRow]],
    "review": list[Review],
    "run": Run,
    "search": list[Found],
    "show": Shown,
    "status": Status,
    "validation": list[ValidationReport],
    "validation plan": PricedPlan,
}
"""What `data` is, by `shape`."""
