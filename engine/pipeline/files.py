"""Mirrors the store to a benchmark's documented files, off the event loop, and stores edits of
`scenarios.json` by people before anything is made from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from engine.analysis.figures import Outcome
from engine.benchmark import Scenario
from engine.branches import folder_of
from engine.config.benchmark_file import load_definition
from engine.config.schema import Config, config_of
from engine.config.workspace import BENCHMARK_FILE, Workspace
from engine.display import plural
from engine.errors import DamagedError, InputError
from engine.facts import NoteKind
from engine.files import digest_on_disk
from engine.identity import digest
from engine.jury import Counts
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.counting import StoredConversations, counts_of, counts_without_files
from engine.pipeline.results import CountedResults, counted_of, take_counts, verdicts_left_out
from engine.pipeline.scenario_edits import edits_of, scenarios_path
from engine.stages.aggregate import as_rows
from engine.store.database import Store
from engine.store.mirror import (
    EditPolicy,
    Mirror,
    MirrorReport,
    MirrorSources,
    TargetName,
)
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.tables import BenchmarkCounts, ScenarioRow

_LOOK_S: Final = 0.5


async def write_files(
    bench: RunContext,
    edits: EditPolicy = EditPolicy.LEAVE,
    only: Container[str] | None = None,
) -> MirrorReport:
    """Mirror the store to the documented files. `only` restricts this to some of them, named
    relative to the benchmark's folder."""
    # off the loop: writing the files of a large benchmark takes seconds
    report, decided = await asyncio.to_thread(_mirror, bench, edits, only)
    await _remember(bench, report, decided)
    return report


async def store_counts(workspace: Workspace, config: Config, store: Store) -> None:
    """Store what counts in every benchmark where that may have changed. Raises `StoreError`."""
    for decided in await asyncio.to_thread(_decide_all, workspace, config, store.path):
        await store.set_counts(decided)


async def _remember(
    bench: RunContext, report: MirrorReport, decided: Sequence[BenchmarkCounts]
) -> None:
    """Store the digests of the written files, and what counts. A note beside each file also says
    that it is ours, so if the disk is full and nothing can be stored, this does not wait."""
    store = bench.store
    if report.accepted:
        await store.set_kept(report.accepted)
    remembering = asyncio.gather(
        store.set_mirrored(report.digests, through=report.through),
        *(store.set_counts(counts) for counts in decided),
    )
    # otherwise asyncio complains of an unretrieved exception where the disk stays full
    remembering.add_done_callback(_retrieve_exception)
    while store.trouble is None:
        done, _ = await asyncio.wait([remembering], timeout=_LOOK_S)
        if done:
            remembering.result()
            await asyncio.to_thread(_settle_files, bench)
            return


def _retrieve_exception(remembering: asyncio.Future[Any]) -> None:
    """Retrieve the exception; the next awaited write reports the problem."""
    if not remembering.cancelled():
        remembering.exception()


def differences(bench: BenchmarkContext) -> Iterator[str]:
    """Yield diff lines for each file that a person changed: what writing it would replace."""
    with contextlib.closing(open_reader(bench.reader.path)) as reader:
        mirror = Mirror(bench.workspace.root, reader)
        yield from mirror.differences(bench.name, _sources(bench, _OnceCounted(bench, reader)))


def _mirror(
    bench: RunContext, edits: EditPolicy, only: Container[str] | None
) -> tuple[MirrorReport, list[BenchmarkCounts]]:
    """Runs on a thread of its own, so it opens its own reader."""
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        mirror, counted = Mirror(bench.workspace.root, reader), _OnceCounted(bench, reader)
        sources = _sources(bench, counted)
        report = mirror.write_benchmark(bench.name, sources, edits=edits, only=only)
        decided = [_decide(bench, reader, counted), *_without_files(bench.workspace, reader)]
        return report, [counts for counts in decided if counts is not None]


@dataclass
class _OnceCounted:
    """The results of a benchmark, computed when they are first asked for."""

    bench: BenchmarkContext
    reader: Reader

    @cached_property
    def results(self) -> CountedResults:
        return counted_of(self.bench.definition, self.bench.config, self.reader)


def _decide_all(workspace: Workspace, config: Config, store: Path) -> list[BenchmarkCounts]:
    decided: list[BenchmarkCounts] = []
    with contextlib.closing(open_reader(store)) as reader:
        for name in reader.benchmarks():
            # what is invalid keeps what was decided before; the next run says what is wrong with it
            with contextlib.suppress(InputError):
                definition = load_definition(workspace.definition_path(name))
                bench = BenchmarkContext(workspace, config_of(config, name), reader, definition)
                counts = _decide(bench, reader, _OnceCounted(bench, reader))
                decided += [] if counts is None else [counts]
        return [*decided, *_without_files(workspace, reader)]


def _decide(
    bench: BenchmarkContext, reader: Reader, counted: _OnceCounted
) -> BenchmarkCounts | None:
    """What counts in a benchmark; None if nothing has changed since that was stored, or if rows for
    it are damaged."""
    mirror, through = Mirror(bench.workspace.root, reader), reader.last_seq()
    scenarios = digest_on_disk(scenarios_path(bench)) or ""
    made_from = digest([mirror.made_from(bench.name, _sources(bench, counted)), scenarios])
    if made_from == reader.counts_digest(bench.name):
        return None
    try:
        results = counted.results
    except DamagedError:
        return None
    return _all_counts(results.counts, results.stored, results.outcomes, through, made_from)


def _without_files(workspace: Workspace, reader: Reader) -> Iterator[BenchmarkCounts]:
    """What counts, none of it, in benchmarks whose files are gone."""
    for name in reader.benchmarks():
        path = workspace.root / folder_of(name) / BENCHMARK_FILE
        made_from, through = digest([reader.rows_digest(name)]), reader.last_seq()
        if not path.exists() and made_from != reader.counts_digest(name):
            stored, counts = StoredConversations.of(reader, name), counts_without_files(name)
            yield _all_counts(counts, stored, (), through, made_from)


def _all_counts(
    counts: Counts,
    stored: StoredConversations,
    outcomes: Sequence[Outcome],
    through: int,
    made_from: str,
) -> BenchmarkCounts:
    takes = list(take_counts(counts, stored, outcomes))
    counting = {row.take for row in takes if row.why_not is None}
    verdicts = list(verdicts_left_out(counts, stored, counting))
    return BenchmarkCounts(counts.asked.benchmark, through, made_from, takes, verdicts)


def _settle_files(bench: RunContext) -> None:
    with contextlib.closing(open_reader(bench.store.path)) as reader:
        Mirror(bench.workspace.root, reader).settle(bench.name)


def _sources(bench: BenchmarkContext, counted: _OnceCounted) -> MirrorSources:
    """What a benchmark's files are made from, beside the store."""
    definition, config = bench.definition, bench.config

    def results() -> object | None:
        """The rows of `results.json`."""
        return as_rows(counted.results.analysis) if counted.results.outcomes else None

    return MirrorSources(
        metrics=definition.metrics,
        targets=[TargetName(target.id, target.model) for target in config.targets],
        results=results,
        results_made_from=repr((definition, config)),
        counts=counts_of(definition, config, counted.reader),
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
