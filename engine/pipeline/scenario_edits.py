"""Reads a person's edits of `scenarios.json`, which decides which scenarios are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engine.benchmark import Scenario
from engine.branches import folder_of
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.errors import InputError, Problem
from engine.files import digest_on_disk
from engine.pipeline.context import BenchmarkContext
from engine.store.reader import EditedScenariosReader, Reader
from engine.store.scenarios_json import differ, read_scenarios
from engine.store.tables import ScenarioRow

FILE: Final = "scenarios.json"


def scenarios_path(bench: BenchmarkContext) -> Path:
    return bench.definition.path.parent / FILE


def check_scenarios(bench: BenchmarkContext) -> tuple[list[Scenario], list[str]]:
    """Read the scenarios of the file and warnings about them; both empty without a file.

    Raises `InputError` with every fault of the file.
    """
    return _read(bench.definition, bench.config)


def _read(definition: Definition, config: Config) -> tuple[list[Scenario], list[str]]:
    path = definition.path.parent / FILE
    if not path.exists():
        return [], []
    if not definition.metrics:
        raise InputError(
            Problem(
                "there are scenarios, but the benchmark has no metrics that they could belong to",
                path=path,
                hint="write the metrics into benchmark.yaml, or move scenarios.json away",
            )
        )
    metrics = [metric.id for metric in definition.metrics]
    return read_scenarios(path, turns=config.generation.turns, metrics=metrics)


@dataclass(frozen=True, slots=True)
class ScenarioEdits:
    """What a person changed in the file since we last wrote or read it."""

    benchmark: str
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
    written are neither new, changed nor removed: they will be written to it. Raises
    `InputError`."""
    return _edits(bench.definition, bench.config, bench.reader)


def _edits(definition: Definition, config: Config, reader: Reader) -> ScenarioEdits | None:
    relative = (folder_of(definition.name) / FILE).as_posix()
    known = reader.mirrored(relative)
    digest = digest_on_disk(definition.path.parent / FILE)
    # by content, not by time: saving without a change is no edit
    if digest is None or (known is not None and known.digest == digest):
        return None
    scenarios, _ = _read(definition, config)
    stored = {row.scenario.id: row for row in reader.scenarios(definition.name)}
    present = {scenario.id for scenario in scenarios}
    # a file that this program has not written reflects nothing of the store
    written = 0 if known is None else known.seq
    then = _as_written(reader, definition.name, written)
    return ScenarioEdits(
        definition.name,
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


def _as_written(reader: Reader, benchmark: str, written: int) -> dict[str, ScenarioRow]:
    """The rows that the file held when it was last written or read, by scenario id."""
    history = reader.scenario_history(benchmark)
    then = {history[seq].scenario.id: history[seq] for seq in sorted(history) if seq <= written}
    return {name: row for name, row in then.items() if not row.removed}


def with_edits(bench: BenchmarkContext) -> BenchmarkContext:
    """The benchmark with a person's edits, for planning; stores nothing. Raises `InputError`."""
    edits = edits_of(bench)
    return bench if edits is None else replace(bench, reader=_edited(bench.reader, edits))


def reader_of_files(definition: Definition, config: Config, reader: Reader) -> Reader:
    """A reader that shows the scenarios as the file has them now. Raises `InputError`."""
    edits = _edits(definition, config, reader)
    return reader if edits is None else _edited(reader, edits)


def _edited(reader: Reader, edits: ScenarioEdits) -> Reader:
    # negative numbers: unlike any stored row's, and distinct, so that rows can be told apart
    changed = {
        scenario.id: ScenarioRow(
            seq=-number, benchmark=edits.benchmark, scenario=scenario, source="file"
        )
        for number, scenario in enumerate(edits.changed, start=1)
    }
    removed = frozenset(scenario.id for scenario in edits.removed)
    return EditedScenariosReader(reader, edits.benchmark, changed, removed)


def _is_edited(written: Scenario, stored: ScenarioRow | None) -> bool:
    return stored is None or differ(written, stored.scenario)
