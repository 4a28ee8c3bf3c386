"""Mirrors the store to a benchmark's documented files, off the event loop, and reads people's edits
of `scenarios.json`, which decides which scenarios are wanted, before anything is made from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engine.benchmark import Scenario
from engine.display import plural
from engine.errors import InputError, Problem
from engine.facts import NoteKind
from engine.files import digest_on_disk
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
from engine.store.open_reader import open_reader
from engine.store.reader import EditedScenariosReader, Reader
from engine.store.scenarios_json import differ, lost_scenarios, lost_words, read_scenarios
from engine.store.schema import part_is_damaged
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
        wanted = list(wanted_conversations(definition, config, reader))
        return benchmark_results(definition, config, reader, wanted) if wanted else None

    return MirrorSources(
        metrics=definition.metrics,
        targets=[TargetName(target.id, target.model) for target in config.targets],
        results=LazyResults(repr((definition, config)), results),
        jury=config.jury,
    )


def scenarios_path(bench: BenchmarkContext) -> Path:
    return bench.definition.path.parent / "scenarios.json"


def check_scenarios(bench: BenchmarkContext) -> tuple[list[Scenario], list[str]]:
    """Read the scenarios of the file and warnings about them; both empty without a file.

    Raises `InputError` with every fault of the file.
    """
    path = scenarios_path(bench)
    if not path.exists():
        return [], []
    if not bench.definition.metrics:
        raise InputError(
            Problem(
                "there are scenarios, but the benchmark has no metrics that they could belong to",
                path=path,
                hint="write the metrics into benchmark.yaml, or move scenarios.json away",
            )
        )
    return read_scenarios(path, turns=bench.config.generation.turns, metrics=bench.metrics.keys())


@dataclass(frozen=True, slots=True)
class ScenarioEdits:
    """What a person changed in the file since we last wrote or read it."""

    path: str
    """Relative to the workspace."""
    digest: str
    changed: Sequence[Scenario]
    """New and changed scenarios."""
    removed: Sequence[Scenario]
    written: int
    """The `seq` up to which the file reflected the store."""


def edits_of(bench: BenchmarkContext) -> ScenarioEdits | None:
    """Find a person's edits; None where the file is unchanged. Rows stored after the file was
    written are neither new, changed nor removed: they will be written to it. Raises `InputError`,
    and `DamagedError` where the store has lost what the file holds."""
    path = scenarios_path(bench)
    relative = path.relative_to(bench.workspace.root).as_posix()
    known = bench.reader.mirrored(relative)
    digest = digest_on_disk(path)
    if lost := lost_scenarios(bench.workspace.root, bench.reader, bench.name):
        raise part_is_damaged(bench.reader.path, lost_words(lost))
    # by content, not by time: saving without a change is no edit
    if digest is None or (known is not None and known.digest == digest):
        return None
    scenarios, _ = check_scenarios(bench)
    stored = {row.scenario.id: row for row in bench.reader.scenarios(bench.name)}
    present = {scenario.id for scenario in scenarios}
    # a file that this program has not written reflects nothing of the store
    written = 0 if known is None else known.seq
    then = _as_written(bench, written)
    return ScenarioEdits(
        relative,
        digest,
        [
            scenario
            for scenario in scenarios
            if _is_edited(scenario, stored.get(scenario.id))
            and _is_edited(scenario, then.get(scenario.id))
        ],
        [
            row.scenario
            for row in stored.values()
            if row.played and row.scenario.id not in present and row.seq <= written
        ],
        written,
    )


def _as_written(bench: BenchmarkContext, written: int) -> dict[str, ScenarioRow]:
    """The rows that the file held when it was last written or read, by scenario id."""
    history = bench.reader.scenario_history(bench.name)
    then = {history[seq].scenario.id: history[seq] for seq in sorted(history) if seq <= written}
    return {name: row for name, row in then.items() if not row.removed}


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


def with_edits(bench: BenchmarkContext) -> BenchmarkContext:
    """The benchmark with a person's edits, for planning; stores nothing. Raises `InputError`."""
    edits = edits_of(bench)
    if edits is None:
        return bench
    # negative numbers: unlike any stored row's, and distinct, so that rows can be told apart
    changed = {
        scenario.id: ScenarioRow(
            seq=-number, benchmark=bench.name, scenario=scenario, source="file"
        )
        for number, scenario in enumerate(edits.changed, start=1)
    }
    removed = frozenset(scenario.id for scenario in edits.removed)
    return replace(bench, reader=EditedScenariosReader(bench.reader, bench.name, changed, removed))


def _is_edited(written: Scenario, stored: ScenarioRow | None) -> bool:
    return stored is None or differ(written, stored.scenario)


def _row(bench: RunContext, scenario: Scenario, *, removed: bool) -> ScenarioRow:
    return ScenarioRow(
        benchmark=bench.name, scenario=scenario, source="file", removed=removed, depends=None
    )
