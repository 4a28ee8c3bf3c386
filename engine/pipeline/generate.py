"""Runs the first two stages: metrics into `benchmark.yaml`, scenarios into the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from engine.benchmark import (
    Metric,
    Role,
    Scenario,
    Stage,
    When,
    base_id,
    metric_of,
    scenario_id,
    variant_id,
)
from engine.config.write_back import write_metrics
from engine.errors import StopRequested
from engine.facts import NoteKind
from engine.lint import near_duplicates
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.control import run_together
from engine.pipeline.models import model_digest
from engine.pipeline.order import (
    Order,
    WorkItem,
    WorkReason,
    any_changed,
    changed_inputs,
    what_changed,
)
from engine.pipeline.review.reviews import held_metrics, metric_review_digest, standing_acts
from engine.stages.generate import (
    AT_ONCE,
    combinations,
    gen_base_scenarios,
    gen_metrics,
    gen_variant,
    metrics_depends,
    scenarios_depends,
    variant_depends,
)
from engine.store.tables import Depends, MetricRow, ReviewAction, ReviewKind, ScenarioRow

# Metrics


def metric_inputs(bench: BenchmarkContext) -> dict[str, str]:
    return metrics_depends(
        model_digest(bench.config.generator),
        bench.definition.title,
        bench.definition.description,
        bench.definition.user_context,
    )


def plan_metrics(bench: BenchmarkContext, order: Order) -> list[WorkItem]:
    """At most one row of work: one answer writes all metrics of a benchmark."""
    why, detail = _why_metrics(bench, order)
    return [] if why is None else [WorkItem(Stage.GEN_METRICS, bench.name, why, detail=detail)]


def rejected_metrics(bench: BenchmarkContext) -> list[str]:
    """The ids of all metrics, if a person rejected every one: then none is written unasked."""
    if bench.definition.metrics or _not_rejected(bench):
        return []
    return [row.metric.id for row in bench.reader.metric_rows(bench.name)]


def stale_metrics(bench: BenchmarkContext) -> str | None:
    """What has changed since a model wrote the current metrics, in words; None where nothing has,
    or a person wrote or edited them."""
    written = [(metric, then) for metric, then, source in _not_rejected(bench) if source == "model"]
    if not written or tuple(metric for metric, _ in written) != tuple(bench.definition.metrics):
        return None
    return any_changed((then for _, then in written), metric_inputs(bench))


def _why_metrics(bench: BenchmarkContext, order: Order) -> tuple[WorkReason | None, str | None]:
    if order.force:
        return WorkReason.FORCED, None
    if not bench.definition.metrics:
        return None if rejected_metrics(bench) else WorkReason.MISSING, None
    changed = stale_metrics(bench)
    if changed and order.stale:
        return WorkReason.STALE, changed
    return None, None


async def do_metrics(bench: RunContext, work: WorkItem) -> bool:
    """Write metrics into `benchmark.yaml`; return whether that succeeded."""
    definition = bench.definition
    depends = metric_inputs(bench)

    async def write() -> None:
        metrics = written_metrics(bench) if work.why is WorkReason.MISSING else None
        if metrics is None:
            metrics = await _generate_metrics(bench, work, depends)
        # after the store: a kill between the two leaves metrics that are paid for, and
        # `written_metrics` finds them
        await asyncio.to_thread(write_metrics, definition.path, metrics)

    return await bench.attempt(Stage.GEN_METRICS, bench.name, write)


def written_metrics(bench: BenchmarkContext) -> list[Metric] | None:
    """Metrics that a model wrote from the current inputs, such as those that did not reach the file
    before a run was killed; None where there are none."""
    depends = metric_inputs(bench)
    stored = _not_rejected(bench)
    fresh = [metric for metric, then, source in stored if source == "model" and then == depends]
    return fresh or None


def _not_rejected(bench: BenchmarkContext) -> list[tuple[Metric, Depends | None, str]]:
    """The stored metrics, without those that a person rejected as they are now."""
    acts = standing_acts(bench.reader.reviews(bench.name))
    last = {(item.kind, item.id): (act, item.digest) for act in acts for item in act.items}

    def is_rejected(row: MetricRow) -> bool:
        act, digest = last.get((ReviewKind.METRIC, row.metric.id), (None, ""))
        if act is None or act.action is not ReviewAction.REJECT or row.seq > act.seq:
            return False
        return digest == metric_review_digest(row.metric)

    return [
        (row.metric, row.depends, row.source)
        for row in bench.reader.metric_rows(bench.name)
        if not is_rejected(row)
    ]


def _that_can_hold(bench: RunContext, metrics: list[Metric]) -> list[Metric]:
    """Relax metrics that must hold under pressure where the next run would refuse them, because no
    conversation has any pressure."""
    under = [metric.id for metric in metrics if metric.when is When.UNDER_PRESSURE]
    if bench.config.has_pressure or not under:
        return metrics
    what = f"{', '.join(under)}: no conversation here has pressure to hold under"
    bench.note(NoteKind.WARNING, f"{what}, so each holds anywhere, and not under pressure alone")
    return [
        replace(metric, when=When.ANYWHERE) if metric.id in under else metric for metric in metrics
    ]


async def _generate_metrics(
    bench: RunContext, work: WorkItem, depends: dict[str, str]
) -> list[Metric]:
    definition = bench.definition
    generator, stage = bench.config.generator, Stage.GEN_METRICS
    model = bench.model_for(generator, Role.GENERATOR, stage, bench.name, batched=True)
    with model.settling():
        metrics = await gen_metrics(
            model,
            benchmark=bench.name,
            title=definition.title,
            description=definition.description,
            user_context=definition.user_context,
        )
    metrics = _that_can_hold(bench, metrics)
    replaced = [
        MetricRow(benchmark=bench.name, metric=metric, source="file", depends=None)
        for metric in definition.metrics
    ]
    if replaced:
        # a person may have written them, or paid for them: none is replaced silently
        names = ", ".join(f"{metric.id} {metric.name!r}" for metric in definition.metrics)
        bench.note(NoteKind.WARNING, f"replaced the metrics {names}; the store keeps them")
    await bench.store.write(
        *replaced,
        *(
            MetricRow(benchmark=bench.name, metric=metric, source="model", depends=depends)
            for metric in metrics
        ),
    )
    return metrics


# Scenarios


@dataclass(frozen=True, slots=True)
class ScenarioPlan:
    """What is to be written: base scenarios of each metric, then the variants of each base."""

    bases: dict[str, list[int]]
    """By metric id: numbers of the base scenarios to write, in answers of up to `AT_ONCE`."""
    variants: list[str]
    """Ids of variants whose base already exists."""
    work: list[WorkItem]
    waiting: list[str] = field(default_factory=list)
    """Ids of metrics that a person must approve before their scenarios are written."""
    is_pilot: bool = False

    def variants_of(self, base: str, bench: BenchmarkContext) -> list[str]:
        """The ids of the variants to write for a new base."""
        return _variants(bench, base, is_pilot=self.is_pilot)


def _variants(bench: BenchmarkContext, base: str, *, is_pilot: bool) -> list[str]:
    """Variant ids for every combination of demographic values. A pilot has one for each base, and
    the combinations take turns from base to base."""
    every = range(1, len(combinations(bench.config.demographics)) + 1)
    if is_pilot:
        metrics = [metric.id for metric in bench.definition.metrics]
        turn = metrics.index(metric_of(base)) + int(base.rpartition("_s")[2]) - 1
        # taking turns, so that a pilot of a few bases covers each kind of person
        every = every[turn % len(every) :][:1]
    return [variant_id(base, number) for number in every]


def plan_scenarios(bench: BenchmarkContext, order: Order) -> ScenarioPlan:
    """Plan scenarios that are missing or, with `order.stale`, outdated. What a person removed from
    the file is not written again."""
    stored = {row.scenario.id: row for row in bench.reader.scenarios(bench.name)}
    removed = bench.reader.removed_scenarios(bench.name)
    work: list[WorkItem] = []
    bases: dict[str, list[int]] = {}
    variants: list[str] = []
    waiting: dict[str, None] = {}
    unapproved = held_metrics(bench.definition, bench.config, bench.reader)
    for metric in bench.definition.metrics:
        numbers, reason = _base_numbers(bench, order, metric, stored, removed)
        if numbers and metric.id in unapproved:
            waiting[metric.id] = None
        elif numbers:
            bases[metric.id] = numbers
            work.append(reason)
    anew = {scenario_id(metric, number) for metric, numbers in bases.items() for number in numbers}
    for row in stored.values():
        if row.played or row.scenario.metric_id not in bench.metrics:
            continue
        if row.scenario.id not in anew:
            of_base = _variant_work(bench, order, row, stored, removed)
            if of_base and row.scenario.metric_id in unapproved:
                waiting[row.scenario.metric_id] = None
                continue
            variants += [item.unit for item in of_base]
            work += of_base
    return ScenarioPlan(bases, variants, work, [*waiting], is_pilot=bool(order.pilot))


def _base_numbers(
    bench: BenchmarkContext,
    order: Order,
    metric: Metric,
    stored: dict[str, ScenarioRow],
    removed: frozenset[str],
) -> tuple[list[int], WorkItem]:
    wanted = bench.config.generation.scenarios_per_metric
    wanted = min(wanted, order.pilot or wanted)
    mine = {sid: row for sid, row in stored.items() if row.scenario.metric_id == metric.id}
    work = WorkItem(Stage.GEN_SCENARIOS, metric.id, WorkReason.MISSING)
    stale: dict[int, Depends | None] = {}
    if order.force:
        return list(range(1, wanted + 1)), WorkItem(
            Stage.GEN_SCENARIOS, metric.id, WorkReason.FORCED
        )
    if order.stale:
        now = base_inputs(bench, metric)
        # those that a person edited have no inputs, and are never rewritten unasked
        written = {sid: row.depends for sid, row in mine.items() if not row.played}
        ids = {number: scenario_id(metric.id, number) for number in range(1, wanted + 1)}
        stale = {n: written[sid] for n, sid in ids.items() if changed_inputs(written.get(sid), now)}
        if stale:
            changed = any_changed(stale.values(), now)
            work = WorkItem(Stage.GEN_SCENARIOS, metric.id, WorkReason.STALE, detail=changed)
    # a removed scenario keeps its number: rows of a new one would be taken for its rows
    removed_bases = {base_id(sid) for sid in removed if sid.startswith(f"{metric.id}_")}
    known = {row.scenario.base_id for row in mine.values()} | removed_bases
    lacking = wanted - len(known)
    free = (n for n in range(1, wanted + len(known) + 1) if scenario_id(metric.id, n) not in known)
    return [*stale, *(number for number, _ in zip(free, range(lacking), strict=False))], work


def base_inputs(bench: BenchmarkContext, metric: Metric) -> dict[str, str]:
    return scenarios_depends(
        model_digest(bench.config.generator),
        metric,
        description=bench.definition.description,
        user_context=bench.definition.user_context,
        turns=bench.config.generation.turns,
    )


def _variant_work(
    bench: BenchmarkContext,
    order: Order,
    base: ScenarioRow,
    stored: dict[str, ScenarioRow],
    removed: frozenset[str],
) -> list[WorkItem]:
    work: list[WorkItem] = []
    every = _variants(bench, base.scenario.id, is_pilot=False)
    wanted = set(every)
    if order.pilot:
        # a base with a variant is played in that one
        wanted &= stored.keys()
        if not wanted and int(base.scenario.id.rpartition("_s")[2]) <= order.pilot:
            wanted = set(_variants(bench, base.scenario.id, is_pilot=True))
    for sid, demographic in zip(every, combinations(bench.config.demographics), strict=True):
        if sid not in wanted:
            continue
        row = stored.get(sid)
        if row is None:
            if sid not in removed:
                work.append(WorkItem(Stage.GEN_SCENARIOS, sid, WorkReason.MISSING))
        elif order.stale:
            now = variant_inputs(bench, base.scenario, demographic)
            changed = what_changed(row.depends, now)
            if changed:
                work.append(WorkItem(Stage.GEN_SCENARIOS, sid, WorkReason.STALE, detail=changed))
    return work


def stale_scenarios(bench: BenchmarkContext) -> list[WorkItem]:
    """Model-written rows whose inputs have changed since."""
    asked = Order((bench.name,), stale=True)
    return [work for work in plan_scenarios(bench, asked).work if work.why is WorkReason.STALE]


async def do_scenarios(bench: RunContext, plan: ScenarioPlan) -> int:
    """Write what the plan lists, as many rows at once as the configuration allows; return how many
    failed."""
    units = [*plan.bases, *plan.variants]
    bench.queue(Stage.GEN_SCENARIOS, [(unit, None) for unit in units])
    gate = bench.control.slots[Stage.GEN_SCENARIOS]
    stored = {row.scenario.id: row.scenario for row in bench.reader.scenarios(bench.name)}
    standing: defaultdict[str, list[str]] = defaultdict(list)
    for sid in plan.variants:
        standing[base_id(sid)].append(sid)

    async def metric(metric_id: str, numbers: Sequence[int]) -> int:
        written: list[Scenario] = []
        write = partial(_write_bases, bench, bench.metrics[metric_id], numbers, written)
        failed = 0
        # held for the bases only: their variants need slots themselves, and would wait for it
        async with gate.hold():
            if not await bench.control.may_begin():
                return 0
            try:
                failed += not await bench.attempt(Stage.GEN_SCENARIOS, metric_id, write)
            except StopRequested:
                return 0  # the other rows in work are finished, because they are paid for
        ids = [(base, sid) for base in written for sid in plan.variants_of(base.id, bench)]
        bench.queue(Stage.GEN_SCENARIOS, [(sid, None) for _, sid in ids])
        return failed + sum(await run_together(variant(base, sid) for base, sid in ids))

    async def variant(base: Scenario, sid: str) -> int:
        async with gate.hold():
            if not await bench.control.may_begin():
                return 0
            write = partial(_write_variant, bench, base, sid)
            try:
                return 0 if await bench.attempt(Stage.GEN_SCENARIOS, sid, write) else 1
            except StopRequested:
                return 0

    return sum(
        await run_together(
            [
                *(metric(metric_id, numbers) for metric_id, numbers in plan.bases.items()),
                *(variant(stored[base], sid) for base, ids in standing.items() for sid in ids),
            ]
        )
    )


async def _write_bases(
    bench: RunContext, metric: Metric, numbers: Sequence[int], written: list[Scenario]
) -> None:
    """Write bases in batches, telling each call what exists, and ask again for those of which an
    answer held none that is usable. `written` receives them as they are stored: those before a
    failure are kept."""
    generator, stage = bench.config.generator, Stage.GEN_SCENARIOS
    model = bench.model_for(generator, Role.GENERATOR, stage, metric.id, batched=True)
    depends = base_inputs(bench, metric)
    anew = {scenario_id(metric.id, number) for number in numbers}
    existing = [scenario for scenario in bases_of(bench, metric) if scenario.base_id not in anew]
    while left := numbers[len(written) :]:
        if written:
            await bench.control.checkpoint()
        with model.settling():
            scenarios = await gen_base_scenarios(
                model,
                metric,
                benchmark=bench.name,
                description=bench.definition.description,
                user_context=bench.definition.user_context,
                # shown to the model, or it would write the same few again and again
                existing=[*existing, *written],
                numbers=left[:AT_ONCE],
                turns=bench.config.generation.turns,
            )
        rows = [_row(bench, scenario, depends) for scenario in scenarios]
        await bench.store.write(*rows, *model.settled())
        written += scenarios
    for one, other, alike in near_duplicates([*existing, *written]):
        if other.id in anew:
            words = f"{one.id} and {other.id} are much alike: {alike:.0%} of their words"
            bench.note(NoteKind.WARNING, words, Stage.GEN_SCENARIOS)


def bases_of(bench: BenchmarkContext, metric: Metric) -> list[Scenario]:
    """The metric's scenarios, one for each base; a variant stands in for a base that is missing, as
    with those written by hand."""
    bases: dict[str, Scenario] = {}
    for row in bench.reader.scenarios(bench.name):
        if row.scenario.metric_id == metric.id and (
            not row.played or row.scenario.base_id not in bases
        ):
            bases[row.scenario.base_id] = row.scenario
    return list(bases.values())


def variant_inputs(
    bench: BenchmarkContext, base: Scenario, demographic: Mapping[str, str]
) -> dict[str, str]:
    definition = bench.metrics[base.metric_id].definition
    return variant_depends(model_digest(bench.config.generator), base, demographic, definition)


async def _write_variant(bench: RunContext, base: Scenario, variant: str) -> None:
    combos = enumerate(combinations(bench.config.demographics), start=1)
    number, demographic = next(
        (number, combo) for number, combo in combos if variant_id(base.id, number) == variant
    )
    generator, stage = bench.config.generator, Stage.GEN_SCENARIOS
    model = bench.model_for(generator, Role.GENERATOR, stage, variant, batched=True)
    with model.settling():
        scenario = await gen_variant(
            model,
            base,
            number,
            demographic,
            benchmark=bench.name,
            definition=bench.metrics[base.metric_id].definition,
        )
    depends = variant_inputs(bench, base, demographic)
    await bench.store.write(_row(bench, scenario, depends), *model.settled())


def _row(bench: RunContext, scenario: Scenario, depends: dict[str, str]) -> ScenarioRow:
    return ScenarioRow(benchmark=bench.name, scenario=scenario, source="model", depends=depends)
