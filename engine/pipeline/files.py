"""Mirrors the store to a benchmark's documented files, off the event loop, and stores edits of
`scenarios.json` by people before anything is made from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container, Iterator
from typing import Final

from engine.benchmark import Scenario
from engine.display import plural
from engine.facts import NoteKind
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.counting import wanted_now
from engine.pipeline.results import benchmark_results
from engine.pipeline.scenario_edits import edits_of
from engine.store.mirror import (
    EditPolicy,
    LazyResults,
    Mirror,
    MirrorReport,
    MirrorSources,
    TargetName,
)
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import ScenarioRow

_LOOK_S: Final = 0.5


async def write_files(
    bench: RunContext,
    edits: EditPolicy = EditPolicy.LEAVE,
    only: Container[str] | None = None,
) -> MirrorReport:
    """Mirror the store to the documented files. `only` restricts this to some of them, named
    relative to the benchmark's folder."""
    # off the loop: writing the files of a large benchmark takes seconds
    report = await asyncio.to_thread(_mirror, bench, edits, only)
    await _remember(bench, report)
    return report


async def _remember(bench: RunContext, report: MirrorReport) -> None:
    """Store the digests of the written files. A note beside each file also says that it is ours, so
    if the disk is full and nothing can be stored, this does not wait."""
    store = bench.store
    if report.accepted:
        await store.set_kept(report.accepted)
    remembering = asyncio.ensure_future(store.set_mirrored(report.digests, through=report.through))
    # otherwise asyncio complains of an unretrieved exception where the disk stays full
    remembering.add_done_callback(_retrieve_exception)
    while store.trouble is None:
        done, _ = await asyncio.wait([remembering], timeout=_LOOK_S)
        if done:
            remembering.result()
            await asyncio.to_thread(_settle_files, bench)
            return


def _retrieve_exception(remembering: asyncio.Future[None]) -> None:
    """Retrieve the exception; the next awaited write reports the problem."""
    if not remembering.cancelled():
        remembering.exception()


def differences(bench: BenchmarkContext) -> Iterator[str]:
    """Yield diff lines for each file that a person changed: what writing it would replace."""
    with contextlib.closing(open_reader(bench.reader.path)) as reader:
        mirror = Mirror(bench.workspace.root, reader)
        yield from mirror.differences(bench.name, _sources(bench, reader))


def _mirror(bench: RunContext, edits: EditPolicy, only: Container[str] | None) -> MirrorReport:
    """Runs on a thread of its own, so it opens its own reader."""
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        mirror = Mirror(bench.workspace.root, reader)
        return mirror.write_benchmark(bench.name, _sources(bench, reader), edits=edits, only=only)


def _settle_files(bench: RunContext) -> None:
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        Mirror(bench.workspace.root, reader).settle(bench.name)


def _sources(bench: BenchmarkContext, reader: Reader) -> MirrorSources:
    """What a benchmark's files are made from, beside the store."""
    definition, config = bench.definition, bench.config

    def results() -> object | None:
        wanted = list(wanted_now(definition, config, reader))
        return benchmark_results(definition, config, reader, wanted) if wanted else None

    return MirrorSources(
        metrics=definition.metrics,
        targets=[TargetName(target.id, target.model) for target in config.targets],
        results=LazyResults(repr((definition, config)), results),
        jury=config.jury,
    )


async def take_in_edits(bench: RunContext) -> None:
    """Store a person's edits: new and changed scenarios as from a file, missing ones as removed."""
    edits = edits_of(bench)
    if edits is None:
        return
    rows = [
        *(_row(bench, scenario, removed=False) for scenario in edits.changed),
        *(_row(bench, scenario, removed=True) for scenario in edits.removed),
    ]
    if rows:
        await bench.store.write(*rows)
    if rows and edits.written:  # a file that was never written or read before was not edited
        bench.note(
            NoteKind.WARNING,
            f"{edits.path} was edited: {plural(len(edits.changed), 'scenario')} new or changed, "
            f"{len(edits.removed)} removed",
        )
    # rows after `written` are still on their way into the file
    await bench.store.set_mirrored({edits.path: edits.digest}, through=edits.written)


def _row(bench: RunContext, scenario: Scenario, *, removed: bool) -> ScenarioRow:
    return ScenarioRow(
        benchmark=bench.name, scenario=scenario, source="file", removed=removed, depends=None
    )
