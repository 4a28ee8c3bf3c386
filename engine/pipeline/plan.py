"""Works out what a run would do and which calls it needs, without doing any of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from engine.benchmark import (
    ConversationKey,
    Metric,
    Role,
    Stage,
    State,
    Track,
    metric_id,
    metric_of,
    scenario_id,
)
from engine.config.schema import Config, ModelSpec, Target
from engine.jury import PlainVote
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.costs.estimate import Estimator
from engine.pipeline.costs.ranges import (
    NONE,
    NOTHING,
    Calls,
    CostEstimate,
    Range,
    StageCalls,
    fewest_turns,
)
from engine.pipeline.counting import (
    StoredConversations,
    WantedConversation,
    asked_of,
    wanted_conversations,
)
from engine.pipeline.generate import (
    ScenarioPlan,
    plan_metrics,
    plan_scenarios,
    rejected_metrics,
    stale_metrics,
    stale_scenarios,
    written_metrics,
)
from engine.pipeline.judge import (
    Asking,
    JudgingPlanner,
    PlannedJudging,
    askings_of,
    missing_votes,
)
from engine.pipeline.order import Order, PriceRange, Rewriting, WorkItem, WorkReason
from engine.pipeline.play import ConversationPlanner, PlannedConversation, pilot_of
from engine.pipeline.review.reviews import is_required
from engine.pipeline.scenario_edits import with_edits
from engine.progress import StateCorrection
from engine.stages.generate import AT_LEAST, AT_MOST, AT_ONCE
from engine.store.tables import MessageRow, StateRow


@dataclass(frozen=True, slots=True)
class UnwrittenWork:
    """What follows from scenarios that are not written yet."""

    bases: Mapping[str, int] = field(default_factory=dict)
    """How many bases each metric lacks."""
    variants: int = 0
    """Variants of existing or future bases."""
    keys: frozenset[ConversationKey] = frozenset()
    """The conversations of these variants."""


_NO_UNWRITTEN: Final = UnwrittenWork()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What an order would do for one benchmark."""

    benchmark: str
    work: Sequence[WorkItem]
    """Known rows that would be done."""
    stale: Sequence[WorkItem]
    """Outdated rows that are not done unless asked for."""
    calls: Sequence[StageCalls]
    """The calls of all ordered stages, including what follows from unwritten rows."""
    assumed: Sequence[str] = ()
    """The assumed numbers of unwritten rows, in words."""
    waiting: Sequence[str] = ()
    """Ids of metrics and scenarios that a person must approve first."""
    rejected: Sequence[str] = ()
    """Ids of the metrics if a person rejected all of them; then nothing is planned."""
    made: Mapping[Stage, set[str]] = field(default_factory=dict)
    """By stage: ids of rows of work of which there is a result."""
    wanted: Mapping[Stage, set[str]] = field(default_factory=dict)
    """By stage: ids of rows of work that the benchmark still asks for."""
    settled: frozenset[str] = frozenset()
    """Ids of conversations that are played and judged and need nothing, as far as was asked."""
    unwritten: UnwrittenWork = _NO_UNWRITTEN
    new: Counter[str] = field(default_factory=Counter)
    """By target: conversations of unwritten scenarios."""

    @property
    def total(self) -> CostEstimate:
        """What all of it is estimated to use; nothing unless the plan is priced."""
        return sum((calls.cost for calls in self.calls), NOTHING)

    def priced(self, estimator: Estimator) -> RunPlan:
        """The plan with an estimate of each stage."""
        calls = [replace(calls, cost=estimator.estimate(calls.parts)) for calls in self.calls]
        return replace(self, calls=calls)


def plan_run(
    bench: BenchmarkContext,
    order: Order,
    evaluator: ModelSpec | None = None,
    *,
    with_stale: bool = True,
) -> RunPlan:
    """Plan one benchmark from the store and the files; writes nothing. `evaluator` is a judge to
    use instead of the configured ones. Finding what is stale takes a fifth of the time."""
    if order.rewrite:
        return _rewriting_plan(bench, order.rewrite.get(bench.name))
    generates = order.includes_generation(bench.name)
    if generates:
        bench = with_edits(bench)
    writes_metrics = Stage.GEN_METRICS in order.stages and generates
    metrics = plan_metrics(bench, order) if writes_metrics else []
    # only what is stale depends on what a verdict with a result was made from
    brief = not (with_stale or order.stale)
    stored = StoredConversations.of(
        bench.reader,
        bench.name,
        brief=brief,
        is_settled=_settling(bench, order, evaluator) if brief else None,
    )
    # newly written metrics wait for approval, and nothing follows from them before
    follows = not is_required(bench.config, bench.name)
    if metrics and not follows:
        bench = bench.with_definition(replace(bench.definition, metrics=()))
    if not (metrics and follows and Stage.GEN_SCENARIOS in order.stages):
        following = _following(bench, order, evaluator, stored, with_stale=with_stale)
        work = _with_failures(stored, [*metrics, *following.work])
        made, wanted = _rows_of(bench, stored, {*following.waiting, *(row.unit for row in work)})
        return replace(
            following,
            work=work,
            calls=[*_metrics_calls(bench, metrics), *following.calls],
            assumed=_assumptions(bench, metrics, following),
            rejected=rejected_metrics(bench) if generates and not metrics else [],
            made=made,
            wanted=wanted,
            settled=stored.settled & wanted[Stage.EVALUATE],
        )
    return _plan_with_new_metrics(bench, order, evaluator, stored, metrics, with_stale=with_stale)


def _settling(
    bench: BenchmarkContext, order: Order, evaluator: ModelSpec | None
) -> Callable[[tuple[PlainVote, ...]], bool] | None:
    """Whether such verdicts leave nothing to do for a conversation; None where an order may ask for
    more than verdicts."""
    is_plain = not (order.again or order.force or order.pilot or order.replay or evaluator)
    if not is_plain or bench.config.checks.kinds:
        return None
    asked = {asking.voter for asking in askings_of(bench.config, None)}
    return lambda votes: not missing_votes(asked, votes)


def _plan_with_new_metrics(
    bench: BenchmarkContext,
    order: Order,
    evaluator: ModelSpec | None,
    stored: StoredConversations,
    metrics: Sequence[WorkItem],
    *,
    with_stale: bool,
) -> RunPlan:
    """The number of metrics a model will write is unknown and everything depends on it: plan with
    the most, and report the range from the share of it that belongs to the fewest."""
    written = written_metrics(bench) if metrics[0].why is WorkReason.MISSING else None
    unknown = [Metric(metric_id(n), "", Track.POSITIVE, "") for n in range(1, AT_MOST + 1)]
    share = AT_LEAST / AT_MOST if written is None else 1.0
    new = replace(bench.definition, metrics=tuple(written or unknown))
    most = _following(bench.with_definition(new), order, evaluator, stored, with_stale=False)
    talk = ConversationPlanner(bench, order, stored)
    judging = JudgingPlanner(bench, order, evaluator, stored)
    stale = _stale(bench, talk, judging) if with_stale and not order.stale else []
    calls = [*_metrics_calls(bench, metrics), *(stage.from_share(share) for stage in most.calls)]
    assumed = _assumptions(bench, metrics, most, share)
    work = _with_failures(stored, metrics)
    made, wanted = _rows_of(bench, stored, ())
    return RunPlan(bench.name, work, stale, calls, assumed, most.waiting, made=made, wanted=wanted)


def _rows_of(
    bench: BenchmarkContext, stored: StoredConversations, open_rows: Collection[str]
) -> tuple[Mapping[Stage, set[str]], Mapping[Stage, set[str]]]:
    """`made` and `wanted` of a plan. `open_rows` are to be done or wait for approval."""
    metrics = {*bench.metrics}
    written = {row.scenario.id for row in bench.reader.scenarios(bench.name)}
    asked = asked_of(bench.definition, bench.config, bench.reader)
    conversations = {*asked.ids}
    settled = stored.settled & conversations
    made = {
        Stage.GEN_METRICS: {bench.name} if metrics or rejected_metrics(bench) else set(),
        # a metric is not open either where a person has taken all of its scenarios out
        Stage.GEN_SCENARIOS: written | {metric_of(id_) for id_ in written} | metrics - {*open_rows},
        Stage.SIMULATE: (conversations & {*map(str, stored.counting)}) | settled,
        Stage.EVALUATE: conversations
        & {str(key) for key, (_, verdicts) in stored.counting.items() if verdicts}
        | settled,
    }
    wanted = {
        Stage.GEN_METRICS: {bench.name},
        Stage.GEN_SCENARIOS: metrics,
        Stage.SIMULATE: conversations,
        Stage.EVALUATE: conversations,
    }
    return made, wanted


def _rewriting_plan(bench: BenchmarkContext, asked: Rewriting | None) -> RunPlan:
    if asked is None:
        return RunPlan(bench.name, (), (), ())
    single = Range.exactly(1)
    parts = [Calls(Role.GENERATOR, bench.config.generator, single)]
    work = WorkItem(asked.stage, asked.id, WorkReason.ASKED)
    calls = StageCalls(asked.stage, None, single, parts, scenarios=single)
    return RunPlan(bench.name, [work], (), [calls])


def _following(
    bench: BenchmarkContext,
    order: Order,
    evaluator: ModelSpec | None,
    stored: StoredConversations,
    *,
    with_stale: bool,
) -> RunPlan:
    """The plan for all stages after the metrics."""
    stages = order.stages
    writes = Stage.GEN_SCENARIOS in stages and order.includes_generation(bench.name)
    scenarios = plan_scenarios(bench, order) if writes else None
    unwritten = UnwrittenWork() if scenarios is None else _unwritten(bench, order, scenarios)
    asked = bench.definition, bench.config, bench.reader
    wanted = list(wanted_conversations(*asked, but=stored.settled))
    if order.pilot:
        wanted, unwritten = _pilot(order, wanted, unwritten)
    talk = ConversationPlanner(bench, order, stored)
    judging = JudgingPlanner(bench, order, evaluator, stored)
    playings = talk.plan(wanted) if Stage.SIMULATE in stages else []
    replayed = {playing.wanted.key for playing in playings}
    judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages else []
    waiting = set(scenarios.waiting if scenarios else ())
    waiting |= talk.awaiting_approval(wanted) if Stage.SIMULATE in stages else set()
    if is_required(bench.config, bench.name):
        # what is written now waits for approval
        unwritten = replace(unwritten, keys=frozenset())
    # in an order of its own, which a set has not
    new = Counter(sorted(key.target_id for key in unwritten.keys - replayed))
    calls = [*_scenarios_calls(bench, unwritten, stored)]
    for target in bench.config.targets:
        fresh = Range.exactly(new[target.id] if Stage.SIMULATE in stages else 0)
        mine = [playing for playing in playings if playing.wanted.key.target_id == target.id]
        calls += _calls_of_playing(bench, target, mine, fresh, stored)
        if Stage.EVALUATE in stages:
            judged = [one for one in judgings if one.key.target_id == target.id]
            calls += _calls_of_judging(bench, target, judging, judged, mine, fresh)
    work = list(_work_of(scenarios, playings, judgings))
    stale = _stale(bench, talk, judging) if with_stale and not order.stale else []
    return RunPlan(
        bench.name,
        work,
        _not_in(work, stale),
        calls,
        waiting=sorted(waiting),
        unwritten=unwritten,
        new=new,
    )


def _work_of(
    scenarios: ScenarioPlan | None,
    playings: Iterable[PlannedConversation],
    judgings: Iterable[PlannedJudging],
) -> Iterator[WorkItem]:
    yield from scenarios.work if scenarios else ()
    yield from (playing.work for playing in playings)
    yield from (judging.work for judging in judgings)


def _calls_of_judging(
    bench: BenchmarkContext,
    target: Target,
    planner: JudgingPlanner,
    judgings: Sequence[PlannedJudging],
    playings: Sequence[PlannedConversation],
    fresh: Range,
) -> Iterable[StageCalls]:
    """What judging one target's conversations takes: those that are stored, that are played now,
    and of scenarios that are not written yet (`fresh`)."""
    due = [(one.askings, one.work.why is WorkReason.FAILED) for one in judgings]
    due += [(planner.askings, False) for _ in playings]
    checks = sum(len(one.checks) for one in judgings)
    checks += sum(len(planner.checks.of_take(one.wanted)) for one in playings)
    expected = Range.exactly(checks) + fresh * planner.checks.usual
    return judging_calls(bench.config, target, planner.askings, fresh, expected, due)


def _not_in(work: Iterable[WorkItem], stale: Iterable[WorkItem]) -> list[WorkItem]:
    """The stale rows that the planned work leaves stale. A verdict goes with its conversation."""
    done = {(item.stage, item.unit) for item in work}
    done |= {(Stage.EVALUATE, unit) for stage, unit in done if stage is Stage.SIMULATE}
    return [item for item in stale if (item.stage, item.unit) not in done]


# Rows that are not written yet


def _unwritten(bench: BenchmarkContext, order: Order, scenarios: ScenarioPlan) -> UnwrittenWork:
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
    return UnwrittenWork(
        bases={metric: len(numbers) for metric, numbers in scenarios.bases.items()},
        variants=len(ids),
        keys=frozenset(key for key in keys if order.includes(bench.name, key)),
    )


def _pilot(
    order: Order, wanted: Sequence[WantedConversation], unwritten: UnwrittenWork
) -> tuple[list[WantedConversation], UnwrittenWork]:
    """Reduce existing and unwritten conversations to those of a pilot."""
    there = [(conversation.metric.id, conversation.key) for conversation in wanted]
    coming = [(metric_of(key.scenario_id), key) for key in unwritten.keys]
    chosen = pilot_of([*there, *coming], order.pilot)
    left = [conversation for conversation in wanted if conversation.key in chosen]
    return left, replace(unwritten, keys=unwritten.keys & chosen)


def _assumptions(
    bench: BenchmarkContext, metrics: Sequence[WorkItem], most: RunPlan, share: float = 1.0
) -> list[str]:
    unwritten = most.unwritten

    def words(amount: float) -> str:
        return number_words(Range(amount * share, amount, amount))

    if metrics and unwritten.variants:
        anew = "not written yet" if metrics[0].why is WorkReason.MISSING else "written anew"
        what = f"{words(len(unwritten.bases))} metrics are {anew}; assumed: "
    elif most.new:
        what = "scenarios are not written yet; assumed: "
    else:
        return []
    bases = sum(unwritten.bases.values())
    parts = [f"{words(bases)} scenarios"] if bases else []
    if bench.config.demographics:
        parts.append(f"{words(unwritten.variants)} variants")
    conversations = len(unwritten.keys) if metrics else most.new.total()
    return [f"{what}{', '.join(parts)}, {words(conversations)} conversations"]


def number_words(amount: Range) -> str:
    """`12`, or `3 to 6`."""
    low, high = round(amount.low), round(amount.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# Calls of each stage


def _metrics_calls(bench: BenchmarkContext, metrics: Sequence[WorkItem]) -> Iterator[StageCalls]:
    if metrics:
        # after a kill before they reached the file, they are stored and need no call
        is_paid = metrics[0].why is WorkReason.MISSING and written_metrics(bench) is not None
        single = Range.exactly(0 if is_paid else 1)
        asked = Calls(Role.GENERATOR, bench.config.generator, single, items=AT_MOST)
        yield StageCalls(Stage.GEN_METRICS, None, Range.exactly(1), (asked,))


def _scenarios_calls(
    bench: BenchmarkContext, unwritten: UnwrittenWork, stored: StoredConversations
) -> Iterator[StageCalls]:
    generator = bench.config.generator
    bases, variants = Range.exactly(len(unwritten.bases)), Range.exactly(unwritten.variants)
    calls = sum(ceil(number / AT_ONCE) for number in unwritten.bases.values())
    if not variants.high:
        return
    most = min(AT_ONCE, max(unwritten.bases.values(), default=1))
    failed = sum((Stage.GEN_SCENARIOS, metric) in stored.failed for metric in unwritten.bases)
    parts = [Calls(Role.GENERATOR, generator, Range.exactly(calls), items=most, failed=failed)]
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


def _calls_of_playing(
    bench: BenchmarkContext,
    target: Target,
    playings: Sequence[PlannedConversation],
    new: Range,
    stored: StoredConversations,
) -> Iterable[StageCalls]:
    takes = [playing.open_take.seq for playing in playings if playing.open_take is not None]
    begun = [*bench.reader.messages_of(takes).values()]
    fresh = new + Range.exactly(len(playings) - len(begun))
    units = (str(playing.wanted.key) for playing in playings)
    failed = sum((Stage.SIMULATE, unit) in stored.failed for unit in units)
    return playing_calls(bench.config, target, fresh, begun, failed)


def playing_calls(
    config: Config,
    target: Target,
    fresh: Range,
    begun: Sequence[Sequence[MessageRow]] = (),
    failed: int = 0,
) -> Iterator[StageCalls]:
    """The calls of so many conversations from their beginning, and of those that have begun, by
    their messages; `failed` of them failed before."""
    turns = config.generation.turns
    user = target_answers = fresh * Range(fewest_turns(turns), turns, turns)
    for messages in begun:
        spoken = len(messages)
        is_over = spoken % 2 == 0 and any(message.done for message in messages)
        left = 0 if is_over else max(0, turns - spoken // 2)
        least = min(left, 1)
        target_answers += Range(least, left, left)
        # in an unfinished turn, the user's message exists and the target's does not
        odd = spoken % 2
        user += Range(max(0, least - odd), max(0, left - odd), max(0, left - odd))
    rows = fresh + Range.exactly(len(begun))
    if not rows.high:
        return
    parts = (
        Calls(Role.USER, config.user_model, user, fresh, target, failed=failed),
        Calls(Role.TARGET, target, target_answers, fresh, target),
    )
    yield StageCalls(Stage.SIMULATE, target.id, rows, parts)


def judging_calls(
    config: Config,
    target: Target,
    usual: Sequence[Asking],
    new: Range,
    checks: Range,
    due: Sequence[tuple[Sequence[Asking], bool]] = (),
) -> Iterator[StageCalls]:
    """The calls of judging so many new takes, each with the `usual` askings, and existing ones:
    `due` are the askings of these, and whether they were asked in vain before. All together have
    so many `checks`."""
    if not (due or new.high):
        return
    by_judge: dict[str, Calls] = {}
    counted = [(asking, Range.exactly(1), failed) for askings, failed in due for asking in askings]
    if new.high:
        counted += [(asking, new, False) for asking in usual]
    for asking, count, failed in counted:
        of_none = Calls(Role.EVALUATOR, asking.judge, NONE, target=target)
        of = by_judge.get(asking.judge.label, of_none)
        by_judge[asking.judge.label] = replace(
            of, answers=of.answers + count, failed=of.failed + failed
        )
    parts = [*by_judge.values()]
    if checks.high:
        parts.append(Calls(Role.CHECKER, config.checker, checks, target=target))
    rows = Range.exactly(len(due)) + new
    yield StageCalls(Stage.EVALUATE, target.id, rows, parts)


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


def _with_failures(stored: StoredConversations, planned: Sequence[WorkItem]) -> list[WorkItem]:
    """Give the reason of an earlier failure to planned rows of which nothing was stored."""

    def told(work: WorkItem) -> WorkItem:
        reason = stored.failed.get((work.stage, work.unit))
        if not reason or work.why not in _NOT_THERE:
            return work
        return replace(work, why=WorkReason.FAILED, detail=reason)

    return [told(work) for work in planned]


_NOT_THERE: Final = frozenset({WorkReason.MISSING, WorkReason.INTERRUPTED, WorkReason.FAILED})


def with_quote(order: Order, estimate: CostEstimate, config: Config, *, unasked: bool) -> Order:
    """The order with its quote; unchanged where nothing is paid for.

    The quote is binding, except if the run has a budget or, with `unasked`, the person wants no
    questions.
    """
    if not estimate.usd.high:
        return order
    usd = estimate.usd
    binding = not unasked and config.run.budget is None
    return replace(order, quote=PriceRange(usd.low, usd.high, usd.expected, binding=binding))


_STAGES = (Stage.GEN_METRICS, Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE)


def corrections(bench: BenchmarkContext, plan: RunPlan) -> list[StateCorrection]:
    """Return the stored rows of work that are in another state than they are said to be. `plan` is
    of an order for everything.

    What exists is done, however it came. What a run would do is queued, or failed where its last
    try failed. What the benchmark wants no longer, or cannot judge yet, is dropped. Only while no
    order is at work, as one that is announces and settles its own rows.
    """
    reader = bench.reader
    stored = {stage: reader.units(bench.name, stage, but=plan.settled) for stage in _STAGES}
    return [
        StateCorrection(bench.name, stage, row.unit, row.target, row.state, state)
        for stage in _STAGES
        for row, state in _states(plan, stored, stage)
        if state is not row.state
    ]


def _states(
    plan: RunPlan, stored: Mapping[Stage, Mapping[str, StateRow]], stage: Stage
) -> Iterator[tuple[StateRow, State]]:
    planned = {work.unit for work in plan.work if work.stage is stage and not work.optional}
    for row in stored[stage].values():
        is_failed = row.state is State.FAILED
        if row.unit in planned:
            yield row, State.FAILED if is_failed else State.QUEUED
        elif row.unit in plan.made[stage]:
            yield row, State.DONE
        elif row.unit not in plan.wanted[stage]:
            yield row, State.DROPPED
        elif stage is Stage.EVALUATE:
            # nothing is to judge before it is played
            played = stored[Stage.SIMULATE].get(row.unit)
            is_failed = played is not None and played.state is State.FAILED
            yield row, State.DROPPED if is_failed else State.QUEUED
        else:
            # it waits for a person's approval
            yield row, State.FAILED if is_failed else State.QUEUED
