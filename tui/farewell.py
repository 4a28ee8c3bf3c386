"""What stays on the terminal when the app has gone: how far everything is, in a line for each, and
what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from engine.benchmark import Stage
from engine.cli.failures import failure_lines
from engine.display import one_line
from engine.pipeline.remedies import FailureGroup, standing_failures
from engine.watch import BenchmarkInfo, Watch
from tui.wording import money

MOST: Final = 6
"""Benchmarks that are told of; a person has seen the others in the app."""


def farewell(watch: Watch) -> Iterator[str]:
    """Of those of which anything was to do, and of what failed a line for each kind."""
    begun = [info for info in watch.benchmarks if _total(watch, info)]
    for info in begun[:MOST]:
        yield _line(watch, info)
    if len(begun) > MOST:
        yield f"and {len(begun) - MOST} more: `crosswind status` tells of all"
    yield from failure_lines(failures(watch))


def failures(watch: Watch) -> Sequence[FailureGroup]:
    """What stands failed of everything that is watched. Raises `StoreError`."""
    return standing_failures(watch.reader, [info.name for info in watch.benchmarks])


def _total(watch: Watch, info: BenchmarkInfo) -> int:
    return sum(watch.progress.stage_tally(info.name, stage).total for stage in Stage)


def _line(watch: Watch, info: BenchmarkInfo) -> str:
    """`steadiness: 40 of 64 conversations, 38 judged, 2 failed, $1.20 spent`."""
    progress = watch.progress
    played = progress.stage_tally(info.name, Stage.SIMULATE)
    judged = progress.stage_tally(info.name, Stage.EVALUATE)
    parts = [f"{played.done} of {played.total} conversations", f"{judged.done} judged"]
    failed = sum(progress.stage_tally(info.name, stage).failed for stage in Stage)
    if failed:
        parts.append(f"{failed} failed")
    costs = [one.usage.cost_usd for one in progress.targets_of(info.name).values()]
    spent = sum(cost for cost in costs if cost is not None)
    if spent:
        parts.append(f"{money(spent, scripted=False)} spent")
    return f"{one_line(info.name)}: {', '.join(parts)}"
