"""`scenarios.json` is the truth about which scenarios are wanted: what a person edited there is
read back into the store before anything is made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.benchmark import Scenario
from engine.errors import InputError, Problem
from engine.facts import NoteKind
from engine.files import digest_on_disk
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.store.reader import EditedScenariosReader
from engine.store.scenarios_json import read_scenarios
from engine.store.tables import ScenarioRow


def scenarios_path(bench: BenchmarkContext) -> Path:
    return bench.definition.path.parent / "scenarios.json"


def check_scenarios(bench: BenchmarkContext) -> tuple[list[Scenario], list[str]]:
    """What stands in the file, and warnings; nothing of either where there is none.

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
    """What a person changed in the file since it was last written or read."""

    path: str
    """Relative to the workspace."""
    digest: str
    changed: Sequence[Scenario]
    """New ones, and those that are not what they were."""
    removed: Sequence[Scenario]
    written: int
    """The `seq` up to which the file held what the store does."""


def edits_of(bench: BenchmarkContext) -> ScenarioEdits | None:
    """None where nobody touched the file. Rows that the run wrote after the file count as neither
    new nor gone: they are on their way into it. Raises `InputError`."""
    path = scenarios_path(bench)
    relative = path.relative_to(bench.workspace.root).as_posix()
    known = bench.reader.mirrored(relative)
    digest = digest_on_disk(path)
    if digest is None or (known is not None and known.digest == digest):
        return None
    scenarios, _ = check_scenarios(bench)
    stored = {row.scenario.id: row for row in bench.reader.scenarios(bench.name)}
    present = {one.id for one in scenarios}
    written = 0 if known is None else known.seq
    return ScenarioEdits(
        relative,
        digest,
        [one for one in scenarios if _differs(one, stored.get(one.id))],
        [
            row.scenario
            for row in stored.values()
            if row.played and row.scenario.id not in present and row.seq <= written
        ],
        written,
    )


async def take_in_edits(bench: RunContext) -> None:
    """Store what a person changed in the file: a row that is new or different becomes a row from a
    file, one that is gone is marked removed."""
    edits = edits_of(bench)
    if edits is None:
        return
    rows = [
        *(_row(bench, one, removed=False) for one in edits.changed),
        *(_row(bench, one, removed=True) for one in edits.removed),
    ]
    if rows:
        await bench.store.write(*rows)
        bench.note(
            NoteKind.WARNING,
            f"{edits.path} was edited: {len(edits.changed)} scenarios taken from it, "
            f"{len(edits.removed)} no longer there",
        )
    # what a model wrote beyond `written` is still on its way into the file
    await bench.store.set_mirrored({edits.path: edits.digest}, through=edits.written)


def with_edits(bench: BenchmarkContext) -> BenchmarkContext:
    """As it will be when they are taken in, for a plan; writes nothing. Raises `InputError`."""
    edits = edits_of(bench)
    if edits is None:
        return bench
    # numbers that no stored row has, each its own: they tell rows apart
    changed = {
        one.id: ScenarioRow(seq=-number, benchmark=bench.name, scenario=one, source="file")
        for number, one in enumerate(edits.changed, start=1)
    }
    removed = frozenset(one.id for one in edits.removed)
    return replace(bench, reader=EditedScenariosReader(bench.reader, bench.name, changed, removed))


def _differs(given: Scenario, stored: ScenarioRow | None) -> bool:
    if stored is None:
        return True
    mine = stored.scenario
    return (
        given.metric_id,
        given.persona,
        given.user_goal,
        given.latent_adversarial_goal,
        given.landmarks,
        dict(given.demographic),
        given.target_system_prompt,
    ) != (
        mine.metric_id,
        mine.persona,
        mine.user_goal,
        mine.latent_adversarial_goal,
        mine.landmarks,
        dict(mine.demographic),
        mine.target_system_prompt,
    )


def _row(bench: RunContext, scenario: Scenario, *, removed: bool) -> ScenarioRow:
    return ScenarioRow(
        benchmark=bench.name, scenario=scenario, source="file", removed=removed, depends=None
    )
