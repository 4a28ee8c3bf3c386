"""What a run would do and what it would ask of the models, without doing any of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.benchmark import Stage
from engine.config.settings import ModelSpec
from engine.pipeline.conversations import ConversationPlanner, wanted_conversations
from engine.pipeline.generation import (
    ScenarioPlan,
    plan_metrics,
    plan_scenarios,
    stale_metrics,
    stale_scenarios,
)
from engine.pipeline.judging import Asking, JudgingPlanner
from engine.pipeline.order import Order, Why, Work
from engine.pipeline.standing import Standing
from engine.pipeline.workbench import Bench
from engine.stages.gen_scenarios import combinations


@dataclass(frozen=True, slots=True)
class StageCalls:
    """How many calls a stage makes at the least, and whose models answer them."""

    benchmark: str
    stage: Stage
    target: str | None
    rows: int
    calls: int
    """Without any that have to be asked again."""
    at_most: bool
    """Whether fewer are made where a user ends a conversation early."""
    by_judge: Mapping[str, int] = field(default_factory=dict)
    """Where they are verdicts: how many of them each judge gives, by its label."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """For one benchmark."""

    benchmark: str
    work: Sequence[Work]
    """Rows that would be done and are known by now."""
    stale: Sequence[Work]
    """Rows that no longer are what would be asked today, and are not done unless asked for."""
    calls: Sequence[StageCalls]
    unknown: str | None
    """What cannot be counted yet, in words."""


def plan_run(bench: Bench, order: Order, evaluator: ModelSpec | None = None) -> RunPlan:
    """Reads the store and the files, and writes nothing. `evaluator` is another judge than those of
    the configuration."""
    stages = order.stages
    metrics = (
        plan_metrics(bench, order)
        if Stage.GEN_METRICS in stages and order.generates(bench.name)
        else []
    )
    scenarios = (
        plan_scenarios(bench, order)
        if Stage.GEN_SCENARIOS in stages and order.generates(bench.name)
        else None
    )
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    standing = Standing.of(bench.reader, bench.name)
    talk = ConversationPlanner(bench, order, standing)
    judging = JudgingPlanner(bench, order, evaluator, standing)
    playings = talk.plan(wanted) if Stage.SIMULATE in stages else []
    replayed = {playing.wanted.key for playing in playings}
    judgings = judging.plan(wanted, replayed) if Stage.EVALUATE in stages else []
    work = [
        *metrics,
        *(scenarios.work if scenarios else ()),
        *(playing.work for playing in playings),
        *(one.work for one in judgings),
    ]
    to_judge = [(one.key.target_id, one.askings) for one in judgings]
    if Stage.EVALUATE in stages:
        to_judge += [(key.target_id, judging.askings) for key in replayed]
    to_play = Counter(key.target_id for key in replayed)
    calls = [StageCalls(bench.name, Stage.GEN_METRICS, None, 1, 1, at_most=False)] * len(metrics)
    if scenarios is not None and scenarios.work:
        rows = len(scenarios.work)
        calls.append(StageCalls(bench.name, Stage.GEN_SCENARIOS, None, rows, rows, at_most=False))
    turns = bench.config.generation.turns
    for target in bench.config.targets:
        played = to_play[target.id]
        if played:
            calls.append(
                StageCalls(
                    bench.name, Stage.SIMULATE, target.id, played, 2 * turns * played, at_most=True
                )
            )
        judged = [askings for target_id, askings in to_judge if target_id == target.id]
        if judged:
            calls.append(_verdicts(bench.name, target.id, judged))
    stale = [] if order.stale else _stale(bench, talk, judging)
    return RunPlan(bench.name, work, stale, calls, _unknown(bench, metrics, scenarios))


def _verdicts(benchmark: str, target: str, judged: Sequence[Sequence[Asking]]) -> StageCalls:
    by_judge = Counter(asking.judge.label for askings in judged for asking in askings)
    return StageCalls(
        benchmark,
        Stage.EVALUATE,
        target,
        len(judged),
        by_judge.total(),
        at_most=False,
        by_judge=dict(by_judge),
    )


def _stale(bench: Bench, talk: ConversationPlanner, judging: JudgingPlanner) -> list[Work]:
    wanted = list(wanted_conversations(bench.definition, bench.config, bench.reader))
    changed = stale_metrics(bench)
    metrics = [Work(Stage.GEN_METRICS, bench.name, Why.STALE, detail=changed)] if changed else []
    return [*metrics, *stale_scenarios(bench), *talk.stale(wanted), *judging.stale(wanted)]


def _unknown(bench: Bench, metrics: Sequence[Work], scenarios: ScenarioPlan | None) -> str | None:
    if metrics:
        return "how much follows is known once the metrics are written"
    count = 0 if scenarios is None else sum(map(len, scenarios.bases.values()))
    if not count:
        return None
    generation = bench.config.generation
    variants = count * len(combinations(bench.config.demographics))
    targets = len(bench.config.targets)
    conversations = variants * targets * generation.num_samples
    calls = (variants if bench.config.demographics else 0) + conversations * (
        2 * generation.turns + 1
    )
    return (
        f"then, from {count} new base scenarios: {variants} variants and {conversations} "
        f"conversations, at most {calls} calls"
    )
