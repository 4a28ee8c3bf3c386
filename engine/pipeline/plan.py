"""What a run would do and what it would ask of the models, without doing any of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from engine.benchmark import (
    ConversationKey,
    Metric,
    Role,
    Stage,
    Track,
    metric_id,
    metric_of,
    scenario_id,
)
from engine.config.schema import Config, ModelSpec, Target
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.estimate import NOTHING, CostEstimate, Estimator
from engine.pipeline.files import with_edits
from engine.pipeline.generate import (
    ScenarioPlan,
    plan_metrics,
    plan_scenarios,
    rejected_metrics,
    stale_metrics,
    stale_scenarios,
    written_metrics,
)
from engine.pipeline.judge import Asking, JudgingPlanner
from engine.pipeline.order import Order, PriceRange, Rewriting, WorkItem, WorkReason
from engine.pipeline.play import (
    ConversationPlanner,
    PlannedConversation,
    WantedConversation,
    pilot_of,
    wanted_conversations,
)
from engine.pipeline.ranges import NONE, Calls, Range, fewest_turns
from engine.pipeline.reviews import is_required
from engine.pipeline.standing import StoredConversations
from engine.stages.gen_metrics import AT_LEAST, AT_MOST
from engine.stages.gen_scenarios import AT_ONCE


@dataclass(frozen=True, slots=True)
class StageCalls:
    """What a stage asks of the models; for what is played and judged, of one target's rows."""

    stage: Stage
    target: str | None
    rows: Range
    """Those that are not written yet included."""
    parts: Sequence[Calls]
    scenarios: Range = NONE
    """To be written, where that is the stage."""
    variants: Range = NONE
    """Of those, or of others that are there; each is written from one. None of its own where there
    are no demographics."""

    @property
    def checks(self) -> Range:
        """How many of its answers are checks."""
        return sum((one.answers for one in self.parts if one.role is Role.CHECKER), NONE)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What an order would do of one benchmark."""

    benchmark: str
    work: Sequence[WorkItem]
    """Rows that would be done and are known by now."""
    stale: Sequence[WorkItem]
    """Rows that no longer are what would be asked today, and are not done unless asked for."""
    calls: Sequence[StageCalls]
    """Of every stage that is asked for, with what follows from rows that are not written yet."""
    assumed: Sequence[str]
    """What is counted though it is not written yet, and as how much, in words."""
    waiting: Sequence[str] = ()
    """Ids of metrics and scenarios that a person is to approve before anything follows."""
    rejected: Sequence[str] = ()
    """Ids of metrics, where a person rejected all: none is written, and nothing follows."""


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """What follows from scenarios that are not written yet."""

    bases: Mapping[str, int] = field(default_factory=dict)
    """How many each metric lacks."""
    variants: int = 0
    """Rewritten from bases that are there or will be."""
    keys: frozenset[ConversationKey] = frozenset()
    """Conversations from them."""


@dataclass(frozen=True, slots=True)
class _Following:
    """What is done once the metrics stand."""

    work: Sequence[WorkItem]
    stale: Sequence[WorkItem]
    calls: Sequence[StageCalls]
    unwritten: _Unwritten
    new: int
    """Conversations that only scenarios bring that are not written yet."""
    waiting: Sequence[str]


def plan_run(bench: BenchmarkContext, order: Order, evaluator: ModelSpec | None = None) -> RunPlan:
    """Reads the store and the files, and writes nothing. `evaluator` is another judge than those of
    the configuration."""
    if order.rewrite:
        return _rewriting_plan(bench, order.rewrite.get(bench.name))
    generates = order.generates(bench.name)
    if generates:
        bench = with_edits(bench)
    writes_metrics = Stage.GEN_METRICS in order.stages and generates
    metrics = plan_metrics(bench, order) if writes_metrics else []
    standing = StoredConversations.of(bench.reader, bench.name)
    # what a model writes now waits for a person, and nothing follows from it before
    follows = not is_required(bench.config, bench.name)
    if metrics and not follows:
        bench = bench.with_definition(replace(bench.definition, metrics=()))
    if not (metrics and follows and Stage.GEN_SCENARIOS in order.stages):
        found = _following(bench, order, evaluator, standing)
        work = _with_failures(bench, [*metrics, *found.work])
        calls = [*_metrics_calls(bench, metrics), *found.calls]
        assumed = _assumed(bench, metrics, found, found)
        rejected = rejected_metrics(bench) if generates and not metrics else []
        return RunPlan(bench.name, work, found.stale, calls, assumed, found.waiting, rejected)
    # how many metrics a model will write is not known, and all else hangs on it: the plan is made
    # twice, with the fewest and the most, and says the range between
    few, many = (
        _following(one, order, evaluator, standing) for one in _with_new_metrics(bench, metrics[0])
    )
    stale = [] if order.stale else _stale(bench, *_planners(bench, order, evaluator, standing))
    calls = [*_metrics_calls(bench, metrics), *_between(few.calls, many.calls)]
    assumed = _assumed(bench, metrics, few, many)
    work = _with_failures(bench, metrics)
    return RunPlan(bench.name, work, stale, calls, assumed, few.waiting)


def _rewriting_plan(bench: BenchmarkContext, asked: Rewriting | None) -> RunPlan:
    if asked is None:
        return RunPlan(bench.name, (), (), (), ())
    one = Range.exactly(1)
    parts = [Calls(Role.GENERATOR, bench.config.generator, one)]
    work = WorkItem(asked.stage, asked.id, WorkReason.ASKED)
    calls = StageCalls(asked.stage, None, one, parts, scenarios=one)
    return RunPlan(bench.name, [work], (), [calls], ())


def _planners(
    bench: BenchmarkContext,
    order: Order,
    evaluator: ModelSpec | None,
    standing: StoredConversations,
) -> tuple[ConversationPlanner, JudgingPlanner]:
    planner = ConversationPlanner(bench, order, standing)
    return planner, JudgingPlanner(bench, order, evaluator, standing)


def _following(
    bench: BenchmarkContext,
    order: Order,
    evaluator: ModelSpec | None,
    standing: StoredConversations,
) -> _Following:
    stages = order.stages
    writes = Stage.GEN_SCENARIOS in stages and order.generates(bench.name)
    scenarios = plan_scenarios(bench, order) if writes else None
    unwritten = _Unwritten() if scenarios is None else _unwritten(bench, order, scenarios)
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    if order.pilot:
        wanted, unwritten = _pilot(order, wanted, unwritten)
    talk, judging = _planners(bench, order, evaluator, standing)
    playings = talk.plan(wanted) if Stage.SIMULATE in stages else []
    replayed = {playing.wanted.key for playing in playings}
    judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages else []
    waiting = set() if scenarios is None else set(scenarios.waiting)
    waiting |= talk.held(wanted) if Stage.SIMULATE in stages else set()
    if is_required(bench.config, bench.name):
        # what is written now waits for a person
        unwritten = replace(unwritten, keys=frozenset())
    new = Counter(key.target_id for key in unwritten.keys - replayed)
    calls = [*_scenarios_calls(bench, unwritten)]
    for target in bench.config.targets:
        mine = [playing for playing in playings if playing.wanted.key.target_id == target.id]
        fresh = Range.exactly(new[target.id] if Stage.SIMULATE in stages else 0)
        calls += _playing(bench, target, mine, fresh)
        if Stage.EVALUATE in stages:
            due = [one.askings for one in judgings if one.key.target_id == target.id]
            due += [judging.askings for _ in mine]
            checks = sum(len(one.checks) for one in judgings if one.key.target_id == target.id)
            checks += sum(len(judging.checks.of_take(one.wanted)) for one in mine)
            of_new = fresh * judging.checks.usual
            expected = Range.exactly(checks) + of_new
            calls += _judging(bench, target, due, judging.askings, fresh, expected)
    work = [
        *(scenarios.work if scenarios else ()),
        *(playing.work for playing in playings),
        *(one.work for one in judgings),
    ]
    stale = [] if order.stale else _stale(bench, talk, judging)
    return _Following(work, stale, calls, unwritten, new.total(), sorted(waiting))


# What is not written yet


def _with_new_metrics(bench: BenchmarkContext, work: WorkItem) -> Iterator[BenchmarkContext]:
    """As it will be with the fewest metrics and with the most. Scenarios of now may stay."""
    written = written_metrics(bench) if work.why is WorkReason.MISSING else None
    for count in (AT_LEAST, AT_MOST):
        unknown = [
            Metric(metric_id(number), "", Track.POSITIVE, "") for number in range(1, count + 1)
        ]
        metrics = tuple(unknown if written is None else written)
        yield bench.with_definition(replace(bench.definition, metrics=metrics))


def _between(few: Sequence[StageCalls], many: Sequence[StageCalls]) -> Iterator[StageCalls]:
    """Calls of the same stages, from the fewest to the most."""
    before = {(one.stage, one.target): one for one in few}
    for most in many:
        least = before.get((most.stage, most.target))
        rows = NONE if least is None else least.rows
        parts = {} if least is None else dict(zip(_kinds(least), least.parts, strict=True))
        yield replace(
            most,
            rows=rows.up_to(most.rows),
            scenarios=(NONE if least is None else least.scenarios).up_to(most.scenarios),
            variants=(NONE if least is None else least.variants).up_to(most.variants),
            parts=[
                part if kind not in parts else parts[kind].up_to(part)
                for kind, part in zip(_kinds(most), most.parts, strict=True)
            ],
        )


def _kinds(calls: StageCalls) -> list[tuple[str, int]]:
    """A generator's calls for bases and for variants are told apart by their place."""
    places = calls.stage is Stage.GEN_SCENARIOS
    return [(part.spec.label + part.role, n * places) for n, part in enumerate(calls.parts)]


def _unwritten(bench: BenchmarkContext, order: Order, scenarios: ScenarioPlan) -> _Unwritten:
    generation = bench.config.generation
    ids = [
        variant
        for metric, numbers in scenarios.bases.items()
        for number in numbers
        for variant in scenarios.variants_of(scenario_id(metric, number), bench)
    ]
    ids += scenarios.variants
    keys = (
        ConversationKey(sid, target.id, sample)
        for sid in ids
        for target in bench.config.targets
        for sample in range(generation.num_samples)
    )
    return _Unwritten(
        bases={metric: len(numbers) for metric, numbers in scenarios.bases.items()},
        variants=len(ids),
        keys=frozenset(key for key in keys if order.asks(bench.name, key)),
    )


def _pilot(
    order: Order, wanted: Sequence[WantedConversation], unwritten: _Unwritten
) -> tuple[list[WantedConversation], _Unwritten]:
    """Of what is there and of what is not written yet, the conversations of a pilot."""
    there = [(one.metric.id, one.key) for one in wanted]
    coming = [(metric_of(key.scenario_id), key) for key in unwritten.keys]
    chosen = pilot_of([*there, *coming], order.pilot)
    left = [one for one in wanted if one.key in chosen]
    return left, replace(unwritten, keys=unwritten.keys & chosen)


def _assumed(
    bench: BenchmarkContext, metrics: Sequence[WorkItem], few: _Following, many: _Following
) -> list[str]:
    if metrics and many.unwritten.variants:
        count = number_words(_from_to(len(few.unwritten.bases), len(many.unwritten.bases)))
        anew = "not written yet" if metrics[0].why is WorkReason.MISSING else "written anew"
        what = f"{count} metrics are {anew}; assumed: "
    elif many.new:
        what = "scenarios are not written yet; assumed: "
    else:
        return []
    bases = _from_to(sum(few.unwritten.bases.values()), sum(many.unwritten.bases.values()))
    parts = [f"{number_words(bases)} scenarios"] if bases.high else []
    if bench.config.demographics:
        variants = _from_to(few.unwritten.variants, many.unwritten.variants)
        parts.append(f"{number_words(variants)} variants")
    if metrics:
        conversations = _from_to(len(few.unwritten.keys), len(many.unwritten.keys))
    else:
        conversations = Range.exactly(many.new)
    return [f"{what}{', '.join(parts)}, {number_words(conversations)} conversations"]


def _from_to(low: int, high: int) -> Range:
    return Range.exactly(low).up_to(Range.exactly(high))


def number_words(amount: Range) -> str:
    """`12`, or `3 to 6`."""
    low, high = round(amount.low), round(amount.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# What each stage asks


def _metrics_calls(bench: BenchmarkContext, metrics: Sequence[WorkItem]) -> Iterator[StageCalls]:
    if metrics:
        # a run that was cut off before they reached the file: they are in the store, and not asked
        # for again
        is_paid = metrics[0].why is WorkReason.MISSING and written_metrics(bench) is not None
        one = Range.exactly(0 if is_paid else 1)
        asked = Calls(Role.GENERATOR, bench.config.generator, one, items=AT_MOST)
        yield StageCalls(Stage.GEN_METRICS, None, Range.exactly(1), (asked,))


def _scenarios_calls(bench: BenchmarkContext, unwritten: _Unwritten) -> Iterator[StageCalls]:
    generator = bench.config.generator
    bases, variants = Range.exactly(len(unwritten.bases)), Range.exactly(unwritten.variants)
    calls = sum(ceil(number / AT_ONCE) for number in unwritten.bases.values())
    if not variants.high:
        return
    most = min(AT_ONCE, max(unwritten.bases.values(), default=1))
    parts = [Calls(Role.GENERATOR, generator, Range.exactly(calls), items=most)]
    if bench.config.demographics:
        parts.append(Calls(Role.GENERATOR, generator, variants))
    yield StageCalls(
        Stage.GEN_SCENARIOS,
        None,
        bases + variants,
        parts,
        scenarios=Range.exactly(sum(unwritten.bases.values())),
        variants=variants if bench.config.demographics else NONE,
    )


def _playing(
    bench: BenchmarkContext, target: Target, playings: Sequence[PlannedConversation], new: Range
) -> Iterator[StageCalls]:
    turns = bench.config.generation.turns
    begun = [one.open_take.seq for one in playings if one.open_take is not None]
    fresh = new + Range.exactly(len(playings) - len(begun))
    user = target_answers = fresh * Range(fewest_turns(turns), turns, turns)
    for messages in bench.reader.messages_of(begun).values():
        said = len(messages)
        is_over = said % 2 == 0 and any(message.done for message in messages)
        left = 0 if is_over else max(0, turns - said // 2)
        least = min(left, 1)
        target_answers += Range(least, left, left)
        # the user's message of this turn is there and the target's is not
        odd = said % 2
        user += Range(max(0, least - odd), max(0, left - odd), max(0, left - odd))
    rows = fresh + Range.exactly(len(begun))
    if not rows.high:
        return
    parts = (
        Calls(Role.USER, bench.config.user_model, user, fresh, target),
        Calls(Role.TARGET, target, target_answers, fresh, target),
    )
    yield StageCalls(Stage.SIMULATE, target.id, rows, parts)


def _judging(
    bench: BenchmarkContext,
    target: Target,
    due: Sequence[Sequence[Asking]],
    usual: Sequence[Asking],
    new: Range,
    checks: Range,
) -> Iterator[StageCalls]:
    """`due` are the verdicts that are asked for of rows that are known, `usual` of a new one;
    `checks` of all of them."""
    if not (due or new.high):
        return
    by_judge: dict[str, tuple[ModelSpec, Range]] = {}
    counted = [(asking, Range.exactly(1)) for askings in due for asking in askings]
    if new.high:
        counted += [(asking, new) for asking in usual]
    for asking, count in counted:
        spec, before = by_judge.get(asking.judge.label, (asking.judge, NONE))
        by_judge[asking.judge.label] = spec, before + count
    parts = [
        Calls(Role.EVALUATOR, spec, answers, target=target) for spec, answers in by_judge.values()
    ]
    if checks.high:
        parts.append(Calls(Role.CHECKER, bench.config.checker, checks, target=target))
    rows = Range.exactly(len(due)) + new
    yield StageCalls(Stage.EVALUATE, target.id, rows, parts)


def conversation_calls(
    user: ModelSpec,
    target: Target,
    askings: Sequence[Asking],
    *,
    checker: ModelSpec,
    checks: int,
    turns: int,
    count: Range,
) -> Iterator[StageCalls]:
    """Of conversations that are played from their beginning, judged, and checked so often each."""
    said = count * Range(fewest_turns(turns), turns, turns)
    parts = (
        Calls(Role.USER, user, said, count, target),
        Calls(Role.TARGET, target, said, count, target),
    )
    yield StageCalls(Stage.SIMULATE, target.id, count, parts)
    judges = {asking.judge.label: asking.judge for asking in askings}
    passes = Counter(asking.judge.label for asking in askings)
    verdicts = [
        Calls(Role.EVALUATOR, spec, count * passes[label], target=target)
        for label, spec in judges.items()
    ]
    if checks:
        verdicts.append(Calls(Role.CHECKER, checker, count * checks, target=target))
    yield StageCalls(Stage.EVALUATE, target.id, count, verdicts)


def _stale(
    bench: BenchmarkContext, talk: ConversationPlanner, judging: JudgingPlanner
) -> list[WorkItem]:
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    changed = stale_metrics(bench)
    metrics = (
        [WorkItem(Stage.GEN_METRICS, bench.name, WorkReason.STALE, detail=changed)]
        if changed
        else []
    )
    return [*metrics, *stale_scenarios(bench), *talk.stale(wanted), *judging.stale(wanted)]


def _with_failures(bench: BenchmarkContext, planned: Sequence[WorkItem]) -> list[WorkItem]:
    """What failed before says so, though nothing of it was kept that its planner could see."""
    reasons = {
        (unit.stage, unit.unit): unit.reason
        for unit in bench.reader.failed_units()
        if unit.benchmark == bench.name
    }

    def told(work: WorkItem) -> WorkItem:
        reason = reasons.get((work.stage, work.unit))
        if reason is None or work.why not in _NOT_THERE:
            return work
        return replace(work, why=WorkReason.FAILED, detail=reason)

    return [told(work) for work in planned]


_NOT_THERE: Final = frozenset({WorkReason.MISSING, WorkReason.INTERRUPTED, WorkReason.FAILED})


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What one benchmark's part of a run would do, and what that uses."""

    plan: RunPlan
    estimates: Sequence[CostEstimate]
    """Of `plan.calls`, in order."""

    @property
    def total(self) -> CostEstimate:
        return sum(self.estimates, NOTHING)


def price_plan(plan: RunPlan, estimator: Estimator) -> PricedPlan:
    """Each stage of a plan with what it is estimated to use."""
    return PricedPlan(plan, [estimator.estimate(calls.parts) for calls in plan.calls])


def quoted(order: Order, estimate: CostEstimate, config: Config, *, unasked: bool) -> Order:
    """The order, with what it is quoted at; as it is where nothing is paid for.

    It is kept to that unless the run has a budget of its own, or a person wants no question: with
    `unasked`.
    """
    if not estimate.usd.high:
        return order
    usd = estimate.usd
    binding = not unasked and config.run.budget is None
    return replace(order, quote=PriceRange(usd.low, usd.high, usd.expected, binding=binding))
