"""Mirrors one benchmark from the store to the documented files, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.play import wanted_conversations
from engine.pipeline.results import benchmark_results
from engine.store.mirror import (
    EditPolicy,
    LazyResults,
    Mirror,
    MirrorReport,
    MirrorSources,
    TargetName,
)
from engine.store.reader import Reader
from engine.store.reading import open_reader

_LOOK_S: Final = 0.5


async def write_files(bench: RunContext, edits: EditPolicy = EditPolicy.LEAVE) -> MirrorReport:
    """Mirror the store to the documented files, off the loop."""
    report = await asyncio.to_thread(_mirror, bench, edits)
    await _remember(bench, report)
    return report


async def _remember(bench: RunContext, report: MirrorReport) -> None:
    """What was written is known to be ours by a note beside it, too: a full disk, which lets
    nothing be remembered, is not waited for."""
    store = bench.store
    if report.accepted:
        await store.set_kept(report.accepted)
    remembering = asyncio.ensure_future(store.set_mirrored(report.digests, through=report.through))
    remembering.add_done_callback(_heard)
    while store.trouble is None:
        done, _ = await asyncio.wait([remembering], timeout=_LOOK_S)
        if done:
            remembering.result()
            await asyncio.to_thread(_settle, bench)
            return


def _heard(remembering: asyncio.Future[None]) -> None:
    """What came of it is told by the next row that is written."""
    if not remembering.cancelled():
        remembering.exception()


def differences(bench: BenchmarkContext) -> Iterator[str]:
    """Lines that tell, for each file that a person changed, what would be written over it."""
    with contextlib.closing(open_reader(bench.reader.path)) as reader:
        mirror = Mirror(bench.workspace.root, reader)
        yield from mirror.differences(bench.name, _sources(bench, reader))


def _mirror(bench: RunContext, edits: EditPolicy) -> MirrorReport:
    """On a thread of its own, so with a reader of its own."""
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        mirror = Mirror(bench.workspace.root, reader)
        return mirror.write_benchmark(bench.name, _sources(bench, reader), edits=edits)


def _settle(bench: RunContext) -> None:
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        Mirror(bench.workspace.root, reader).settle(bench.name)


def _sources(bench: BenchmarkContext, reader: Reader) -> MirrorSources:
    """What the files of a benchmark are made from, beside the store."""
    definition, config = bench.definition, bench.config

    def results() -> object | None:
        wanted = list(wanted_conversations(definition, config, reader))
        return benchmark_results(definition, config, reader, wanted) if wanted else None

    return MirrorSources(
        metrics=definition.metrics,
        targets=[TargetName(target.id, target.model) for target in config.targets],
        results=LazyResults(repr((definition, config)), results),
        jury=config.jury,
    )
