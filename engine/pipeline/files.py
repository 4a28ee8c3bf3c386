"""Mirrors one benchmark from the store to the documented files, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib

from engine.pipeline.conversations import (
    wanted_conversations,
)
from engine.pipeline.results import benchmark_results
from engine.pipeline.workbench import Bench
from engine.store.database import open_reader
from engine.store.mirror import Mirror, MirrorReport, TargetName


async def write_files(bench: Bench) -> MirrorReport:
    """Mirror the store to the documented files, off the loop."""
    report = await asyncio.to_thread(_mirror, bench)
    await bench.store.set_mirrored(report.digests, through=report.through)
    return report


def _mirror(bench: Bench) -> MirrorReport:
    """On a thread of its own, so with a reader of its own."""
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        wanted = list(wanted_conversations(bench.definition, bench.config, reader))
        rows = benchmark_results(bench.definition, bench.config, reader, wanted)
        return Mirror(bench.workspace.root, reader).write_benchmark(
            bench.name,
            metrics=bench.definition.metrics,
            targets=[TargetName(target.id, target.model) for target in bench.config.targets],
            results=rows if wanted else None,
        )
