"""What a run would do and what it would ask of the models, without doing any of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from engine.benchmark import ConversationKey, Role, Stage, scenario_id, variant_id
from engine.config.settings import ModelSpec, Target
from engine.pipeline.amounts import NONE, Calls, Range, fewest_turns
from engine.pipeline.conversations import ConversationPlanner, Playing, wanted_conversations
from engine.pipeline.generation import (
    ScenarioPlan,
    plan_metrics,
    plan_scenarios,
    stale_metrics,
    stale_scenarios,
    written_metrics,
)
from engine.pipeline.judging import Asking, JudgingPlanner
from engine.pipeline.order import Order, Why, Work
from engine.pipeline.scenarios_file import with_edits
from engine.pipeline.standing import Standing
from engine.pipeline.workbench import Bench
from engine.stages.gen_metrics import AT_LEAST, AT_MOST
from engine.stages.gen_scenarios import combinations


@dataclass(frozen=True, slots=True)
class StageCalls:
    """What a stage asks of the models; for what is played and judged, of one target's rows."""

    benchmark: str
    stage: Stage
    target: str | None
    rows: Range
    """Those that are not written yet included."""
    parts: Sequence[Calls]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """For one benchmark."""

    benchmark: str
    work: Sequence[Work]
    """Rows that would be done and are known by now."""
    stale: Sequence[Work]
    """Rows that no longer are what would be asked today, and are not done unless asked for."""
    calls: Sequence[StageCalls]
    """Of every stage that is asked for, with what follows from rows that are not written yet."""
    assumed: Sequence[str]
    """What is counted though it is not written yet, and as how much, in words."""


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """What follows from scenarios that are not written yet."""

    metrics: Range = NONE
    """Whose number is not known before they are written."""
    bases: Mapping[str, int] = field(default_factory=dict)
    """How many each metric lacks that is known."""
    variants: int = 0
    """Rewritten from bases that are there or will be, of metrics that are known."""
    each_metric: int = 0
    """Base scenarios of each metric that is not known."""
    each_base: int = 1
    """Variants of each base scenario."""
    keys: frozenset[ConversationKey] = frozenset()
    """Conversations from scenarios of metrics that are known."""

    @property
    def unknown_bases(self) -> Range:
        return self.metrics * self.each_metric


def plan_run(bench: Bench, order: Order, evaluator: ModelSpec | None = None) -> RunPlan:
    """Reads the store and the files, and writes nothing. `evaluator` is another judge than those of
    the configuration."""
    stages = order.stages
    generates = order.generates(bench.name)
    if generates:
        bench = with_edits(bench)
    writes_metrics = Stage.GEN_METRICS in stages and generates
    metrics = plan_metrics(bench, order) if writes_metrics else []
    writes = Stage.GEN_SCENARIOS in stages and generates
    scenarios = plan_scenarios(bench, order) if writes and not metrics else None
    unwritten = _unwritten(bench, order, metrics, scenarios) if writes else _Unwritten()
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    standing = Standing.of(bench.reader, bench.name)
    talk = ConversationPlanner(bench, order, standing)
    judging = JudgingPlanner(bench, order, evaluator, standing)
    # what hangs on metrics that are written anew is played from other scenarios than those of now
    stands = not (metrics and writes)
    playings = talk.plan(wanted) if Stage.SIMULATE in stages and stands else []
    replayed = {playing.wanted.key for playing in playings}
    judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages and stands else []
    planned = [
        *metrics,
        *(scenarios.work if scenarios else ()),
        *(playing.work for playing in playings),
        *(one.work for one in judgings),
    ]
    work = _with_failures(bench, planned)
    new = {
        target.id: _new_conversations(bench, order, unwritten, target, replayed)
        for target in bench.config.targets
    }
    calls = [*_generation(bench, metrics, unwritten)]
    for target in bench.config.targets:
        mine = [playing for playing in playings if playing.wanted.key.target_id == target.id]
        fresh = new[target.id] if Stage.SIMULATE in stages else NONE
        calls += _playing(bench, target, mine, fresh)
        if Stage.EVALUATE in stages:
            due = [one.askings for one in judgings if one.key.target_id == target.id]
            due += [judging.askings for _ in mine]
            calls += _judging(bench, target, due, judging.askings, fresh)
    stale = [] if order.stale else _stale(bench, talk, judging)
    return RunPlan(bench.name, work, stale, calls, _assumed(bench, unwritten, new.values()))


# What is not written yet


def _unwritten(
    bench: Bench, order: Order, metrics: Sequence[Work], scenarios: ScenarioPlan | None
) -> _Unwritten:
    generation = bench.config.generation
    combos = combinations(bench.config.demographics)
    if metrics:
        known = written_metrics(bench) if metrics[0].why is Why.MISSING else None
        count = Range.between(AT_LEAST, AT_MOST) if known is None else Range.exactly(len(known))
        return _Unwritten(
            metrics=count, each_metric=generation.scenarios_per_metric, each_base=len(combos)
        )
    if scenarios is None:
        return _Unwritten()
    ids = [
        variant_id(scenario_id(metric, number), combo)
        for metric, numbers in scenarios.bases.items()
        for number in numbers
        for combo in range(1, len(combos) + 1)
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
        each_base=len(combos),
        keys=frozenset(key for key in keys if order.asks(bench.name, key)),
    )


def _new_conversations(
    bench: Bench,
    order: Order,
    unwritten: _Unwritten,
    target: Target,
    replayed: set[ConversationKey],
) -> Range:
    """How many a target will have from scenarios that are not written yet."""
    known = sum(key.target_id == target.id for key in unwritten.keys - replayed)
    if order.targets is not None and target.id not in order.targets:
        return Range.exactly(known)
    samples = bench.config.generation.num_samples
    return Range.exactly(known) + unwritten.unknown_bases * (unwritten.each_base * samples)


def _assumed(bench: Bench, unwritten: _Unwritten, new: Iterable[Range]) -> list[str]:
    conversations = sum(new, NONE)
    if unwritten.metrics.high:
        what = f"{number_words(unwritten.metrics)} metrics are not written yet; assumed: "
        bases = f"{number_words(unwritten.unknown_bases)} scenarios"
    elif conversations.high:
        what = "scenarios are not written yet; assumed: "
        bases = f"{sum(unwritten.bases.values())} scenarios"
    else:
        return []
    made = unwritten.unknown_bases * unwritten.each_base + Range.exactly(unwritten.variants)
    variants = f", {number_words(made)} variants" if bench.config.demographics else ""
    return [f"{what}{bases}{variants}, {number_words(conversations)} conversations"]


def number_words(amount: Range) -> str:
    """`12`, or `3 to 6`."""
    low, high = round(amount.low), round(amount.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# What each stage asks


def _generation(
    bench: Bench, metrics: Sequence[Work], unwritten: _Unwritten
) -> Iterator[StageCalls]:
    generator, name = bench.config.generator, bench.name
    if metrics:
        is_paid = metrics[0].why is Why.MISSING and written_metrics(bench) is not None
        one = Range.exactly(0 if is_paid else 1)
        asked = Calls(Role.GENERATOR, generator, one, items=AT_MOST)
        yield StageCalls(name, Stage.GEN_METRICS, None, Range.exactly(1), (asked,))
    bases = unwritten.metrics + Range.exactly(len(unwritten.bases))
    variants = Range.exactly(unwritten.variants) + unwritten.unknown_bases * unwritten.each_base
    if not (bases.high or variants.high):
        return
    most = max(unwritten.bases.values(), default=unwritten.each_metric)
    parts = [Calls(Role.GENERATOR, generator, bases, items=max(1, most))]
    if bench.config.demographics:
        parts.append(Calls(Role.GENERATOR, generator, variants))
    yield StageCalls(name, Stage.GEN_SCENARIOS, None, bases + variants, parts)


def _playing(
    bench: Bench, target: Target, playings: Sequence[Playing], new: Range
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
        odd = said % 2
        user += Range(max(0, least - odd), max(0, left - odd), max(0, left - odd))
    rows = fresh + Range.exactly(len(begun))
    if not rows.high:
        return
    parts = (
        Calls(Role.USER, bench.config.user_model, user, fresh, target),
        Calls(Role.TARGET, target, target_answers, fresh, target),
    )
    yield StageCalls(bench.name, Stage.SIMULATE, target.id, rows, parts)


def _judging(
    bench: Bench,
    target: Target,
    due: Sequence[Sequence[Asking]],
    usual: Sequence[Asking],
    new: Range,
) -> Iterator[StageCalls]:
    """`due` are the verdicts that are asked for of rows that are known, `usual` of a new one."""
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
    rows = Range.exactly(len(due)) + new
    yield StageCalls(bench.name, Stage.EVALUATE, target.id, rows, parts)


def conversation_calls(
    bench_name: str,
    user: ModelSpec,
    target: Target,
    askings: Sequence[Asking],
    *,
    turns: int,
    count: Range,
) -> Iterator[StageCalls]:
    """Of conversations that are played from their beginning and judged."""
    said = count * Range(fewest_turns(turns), turns, turns)
    parts = (
        Calls(Role.USER, user, said, count, target),
        Calls(Role.TARGET, target, said, count, target),
    )
    yield StageCalls(bench_name, Stage.SIMULATE, target.id, count, parts)
    judges = {asking.judge.label: asking.judge for asking in askings}
    passes = Counter(asking.judge.label for asking in askings)
    verdicts = [
        Calls(Role.EVALUATOR, spec, count * passes[label], target=target)
        for label, spec in judges.items()
    ]
    yield StageCalls(bench_name, Stage.EVALUATE, target.id, count, verdicts)


def _stale(bench: Bench, talk: ConversationPlanner, judging: JudgingPlanner) -> list[Work]:
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    changed = stale_metrics(bench)
    metrics = [Work(Stage.GEN_METRICS, bench.name, Why.STALE, detail=changed)] if changed else []
    return [*metrics, *stale_scenarios(bench), *talk.stale(wanted), *judging.stale(wanted)]


def _with_failures(bench: Bench, planned: Sequence[Work]) -> list[Work]:
    """What failed before says so, though nothing of it was kept that its planner could see."""
    reasons = {
        (unit.stage, unit.unit): unit.reason
        for unit in bench.reader.failed_units()
        if unit.benchmark == bench.name
    }

    def told(work: Work) -> Work:
        reason = reasons.get((work.stage, work.unit))
        if reason is None or work.why not in _NOT_THERE:
            return work
        return replace(work, why=Why.FAILED, detail=reason)

    return [told(work) for work in planned]


_NOT_THERE: Final = frozenset({Why.MISSING, Why.INTERRUPTED, Why.FAILED})
