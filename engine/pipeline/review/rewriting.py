"""Lets a model rewrite one metric or scenario, following a person's note."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from engine.benchmark import Metric, Role, State
from engine.config.benchmark_file import load_definition
from engine.errors import InputError
from engine.facts import NoteKind
from engine.people import ReviewState
from engine.pipeline.context import RunContext
from engine.pipeline.generate import base_inputs, metric_inputs, variant_inputs
from engine.pipeline.order import Rewriting
from engine.pipeline.review.acts import (
    ContentChange,
    ReviewChange,
    bring_to_file,
    changed_metric,
    changed_scenario,
    put_in_place,
)
from engine.pipeline.review.reviews import ReviewEntry, Reviews
from engine.stages.generate import ScenarioNote, gen_base_scenarios, gen_metric_again, gen_variant
from engine.store.tables import Depends, ReviewAction, ReviewRow, ScenarioRow


async def write_again(bench: RunContext, asked: Rewriting) -> bool:
    """Rewrite it and return whether that succeeded; watchers are told the result. The earlier
    version stays in the store."""

    async def write() -> None:
        try:
            reviews = await asyncio.to_thread(_reviews, bench)
            entry = reviews.rewritable(asked.id)
            if isinstance(entry.content, ScenarioRow):
                await _scenario_again(bench, asked, entry, entry.content)
            else:
                await _metric_again(bench, asked, entry, entry.content.metric)
        except InputError as error:
            # somebody else was faster; other work need not end because of it
            bench.note(NoteKind.WARNING, f"{asked.id} stays as it was: {error}", asked.stage)

    if await bench.attempt(asked.stage, asked.unit, write):
        return True
    # only the rewrite failed: what exists is as good as before
    bench.store.tell(bench.state_row(asked.stage, asked.unit, State.DONE))
    return False


def _reviews(bench: RunContext) -> Reviews:
    return Reviews.of(load_definition(bench.definition.path), bench.reader)


async def _metric_again(
    bench: RunContext, asked: Rewriting, entry: ReviewEntry, metric: Metric
) -> None:
    definition = bench.definition
    model = bench.model_for(bench.config.generator, Role.GENERATOR, asked.stage, asked.unit)
    written = await gen_metric_again(
        model,
        metric,
        asked.note,
        benchmark=bench.name,
        title=definition.title,
        description=definition.description,
        user_context=definition.user_context,
    )

    def change(reviews: Reviews) -> ContentChange:
        return changed_metric(reviews, written, source="model", depends=metric_inputs(bench))

    await _take(bench, asked, entry, change)


async def _scenario_again(
    bench: RunContext, asked: Rewriting, entry: ReviewEntry, row: ScenarioRow
) -> None:
    from_now = bench.with_definition(load_definition(bench.definition.path))
    metric = from_now.metrics[row.scenario.metric_id]
    model = bench.model_for(bench.config.generator, Role.GENERATOR, asked.stage, asked.unit)
    note = ScenarioNote(row.scenario, asked.note)
    depends: Depends
    if entry.is_base:
        rows = (await asyncio.to_thread(_reviews, bench)).rows.values()
        [written] = await gen_base_scenarios(
            model,
            metric,
            benchmark=bench.name,
            description=bench.definition.description,
            user_context=bench.definition.user_context,
            existing=[
                row.scenario
                for row in rows
                if row.scenario.metric_id == metric.id and row.scenario.base_id == row.scenario.id
            ],
            numbers=[1],
            turns=bench.config.generation.turns,
            again=note,
        )
        depends = base_inputs(from_now, metric)
    else:
        base = (await asyncio.to_thread(_reviews, bench)).rows[row.scenario.base_id].scenario
        written = await gen_variant(
            model,
            base,
            1,
            row.scenario.demographic,
            benchmark=bench.name,
            definition=metric.definition,
            again=note,
        )
        depends = variant_inputs(from_now, base, row.scenario.demographic)
    scenario = replace(written, id=row.scenario.id)

    def change(reviews: Reviews) -> ContentChange:
        return changed_scenario(reviews, row, scenario, source="model", depends=depends)

    await _take(bench, asked, entry, change)


async def _take(
    bench: RunContext,
    asked: Rewriting,
    entry: ReviewEntry,
    change: Callable[[Reviews], ContentChange],
) -> None:
    """Replace the current version, unless somebody has changed it meanwhile."""
    async with bench.claims.files(bench.name):
        await bring_to_file(bench, bench.store)
        reviews = await asyncio.to_thread(_reviews, bench)
        now = reviews.entry(asked.id)
        if now is None or now.digest != entry.digest or now.state is ReviewState.REJECTED:
            words = f"{asked.id} was changed meanwhile: what the generator wrote is not taken"
            bench.note(NoteKind.WARNING, words, asked.stage)
            return
        changed = change(reviews)
        if not changed.items:
            words = f"the generator gave {asked.id} word for word again: nothing was changed"
            bench.note(NoteKind.WARNING, words, asked.stage)
            return
        act = ReviewRow(
            benchmark=bench.name,
            action=ReviewAction.GENERATE,
            person=asked.person,
            account=asked.account,
            reason=asked.note,
            items=tuple(changed.items),
        )
        await put_in_place(bench, ReviewChange("", [*changed.rows, act], changed.metrics))
