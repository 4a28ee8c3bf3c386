"""Has a model read each metric and each base scenario once, for the lint rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.benchmark import Metric, Role, Scenario, Stage
from engine.config.schema import ModelSpec
from engine.errors import ModelError, StopRequested
from engine.lint import LintFinding
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.control import run_together
from engine.pipeline.costs.ranges import Calls, Range
from engine.pipeline.generate import bases_of
from engine.pipeline.run import Pipeline
from engine.pipeline.scenario_edits import with_edits
from engine.stages.lint import read_metric, read_scenario


@dataclass(slots=True)
class LintReading:
    """The result of a reading."""

    findings: list[tuple[str, LintFinding]] = field(default_factory=list)
    """Each finding with its benchmark."""
    failed: list[str] = field(default_factory=list)
    """Each unreadable metric or scenario with the reason."""
    stopped: bool = False
    """Whether it ended early to stay within the budget."""


def lint_calls(benches: Sequence[BenchmarkContext], spec: ModelSpec) -> Calls:
    """The calls that reading these benchmarks takes."""
    count = sum(len(context.definition.metrics) + len(_bases(context)) for context in benches)
    return Calls(Role.CHECKER, spec, Range.exactly(count))


async def read_by_model(
    pipeline: Pipeline, benches: Sequence[BenchmarkContext], spec: ModelSpec
) -> LintReading:
    """Read everything, going on where one call fails. The cost is booked to the stages that write
    metrics and scenarios. Closes the pipeline."""
    reading = LintReading()
    try:
        await run_together(
            work
            for bench in benches
            for work in _reading_jobs(reading, pipeline.context_of(bench.definition), spec)
        )
    finally:
        await pipeline.close()
    return reading


def _reading_jobs(
    reading: LintReading, bench: RunContext, spec: ModelSpec
) -> list[Coroutine[Any, Any, None]]:
    def of_metric(metric: Metric) -> Callable[[], Awaitable[list[LintFinding]]]:
        model = bench.model_for(spec, Role.CHECKER, Stage.GEN_METRICS, metric.id)
        return lambda: read_metric(model, metric)

    def of_scenario(base: Scenario) -> Callable[[], Awaitable[list[LintFinding]]]:
        model = bench.model_for(spec, Role.CHECKER, Stage.GEN_SCENARIOS, base.id)
        definition = bench.metrics[base.metric_id].definition
        return lambda: read_scenario(model, base, definition, bench.config.generation.turns)

    metrics = bench.definition.metrics
    return [
        *(_read_one(reading, bench, metric.id, of_metric(metric)) for metric in metrics),
        *(
            _read_one(reading, bench, scenario.id, of_scenario(scenario))
            for scenario in _bases(bench)
        ),
    ]


async def _read_one(
    reading: LintReading,
    bench: RunContext,
    of: str,
    read: Callable[[], Awaitable[list[LintFinding]]],
) -> None:
    async with bench.control.slots[Stage.GEN_SCENARIOS].hold():
        try:
            reading.findings += [(bench.name, finding) for finding in await read()]
        except StopRequested:
            reading.stopped = True
        except ModelError as error:
            reading.failed.append(f"{bench.name} {of}: {error}")


def _bases(bench: BenchmarkContext) -> list[Scenario]:
    edited = with_edits(bench)
    return [base for metric in bench.definition.metrics for base in bases_of(edited, metric)]
