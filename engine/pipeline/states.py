"""The state of each row of work, by what exists and what a whole run would do: the one place that
decides it, for the engine that stores states and for all who read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.benchmark import Stage, State
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.plan import RunPlan
from engine.progress import StateCorrection
from engine.store.tables import StateRow

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
