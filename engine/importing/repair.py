"""Repairs a damaged store: recovers what can be read, then imports what the mirrored files have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.benchmark import Stage, State
from engine.branches import folder_of
from engine.config.schema import Config
from engine.config.workspace import Workspace
from engine.errors import InputError
from engine.files import digest_on_disk
from engine.importing.importer import Importer
from engine.importing.report import BenchmarkReport, ImportReport
from engine.importing.source import ImportableFolder, look_through
from engine.store.acknowledged import missing_words, rows_missing
from engine.store.database import Store, open_store
from engine.store.filesystem import log_of
from engine.store.integrity import amount_faults, faults, unread_results
from engine.store.lock import being_written, hold_workspace
from engine.store.open_reader import open_reader, refuse_unfit, writer_of
from engine.store.salvage import SalvageReport, put_in_place, salvage, set_aside
from engine.store.search import INDEX_NAME


@dataclass(frozen=True, slots=True)
class Examination:
    """What is wrong with a workspace's store, and the files to repair it from."""

    path: Path
    exists: bool
    faults: tuple[str, ...]
    files: ImportableFolder | None
    """Mirrored files, or others that can be imported; None if there are none."""
    unread: bool = False
    """Whether the store is empty although there are files with results."""
    lacks: tuple[str, ...] = ()
    """What our own files have and the store has not, in words."""

    @property
    def is_sound(self) -> bool:
        return self.exists and not (self.faults or self.unread or self.lacks)


@dataclass(slots=True)
class Repair:
    """What a repair did."""

    aside: Path | None = None
    """The copy of the damaged store and its log."""
    saved: SalvageReport | None = None
    filled: ImportReport | None = None
    missing: list[str] = field(default_factory=list)
    """What was done once and is lost, in words."""


_WORK: Final = frozenset(
    {"calls", "conversations", "messages", "metrics", "reviews", "takes", "verdicts"}
)
"""The kinds of imported rows that a run or a person's review makes."""


def examine(workspace: Workspace, path: Path, config: Config | None = None) -> Examination:
    """Find what is wrong with a store, without changing anything. With `config`, an undamaged store
    is compared with the mirrored files. Raises `StoreError` for what is not our store."""
    refuse_unfit(path)
    log = log_of(path)
    damage: tuple[str, ...] = ()
    if path.exists():
        damage = tuple(_damage(path))
    elif log.exists() and (not log.is_file() or log.stat().st_size):
        damage = (f"the file is gone, and only {log.name} is left",)
    exists = path.exists() or bool(damage)
    try:
        files: ImportableFolder | None = look_through(workspace.root)
    except InputError:
        files = None
    unread = exists and not damage and bool(unread_results(workspace.benchmarks_dir, path))
    lacks: tuple[str, ...] = ()
    if config is not None and path.exists() and files is not None and not (damage or unread):
        lacks = tuple(_missing_benchmarks(workspace, config, path, files))
    return Examination(path, exists, damage, files, unread, lacks)


def _damage(path: Path) -> list[str]:
    if found := faults(path):
        return found
    if missing := rows_missing(path):
        return [missing_words(missing, path)]
    return amount_faults(path)


def _missing_benchmarks(
    workspace: Workspace, config: Config, path: Path, files: ImportableFolder
) -> Iterator[str]:
    """Say what the files have and the store has not."""
    with closing(open_reader(path)) as reader:
        importer = Importer(workspace, config, reader, None, anew=True)
        report = asyncio.run(importer.run(files))
    for benchmark in report.benchmarks:
        missing = {
            kind: count for kind, count in benchmark.added.items() if count and kind in _WORK
        }
        if missing and Path(benchmark.source).is_relative_to(workspace.benchmarks_dir):
            yield f"{benchmark.name}: {benchmark.added_text}"


async def repair(
    workspace: Workspace,
    config: Config,
    examination: Examination,
    *,
    now: datetime,
) -> Repair:
    """Repair the store. Copies a damaged one aside first. Raises `WorkspaceBusyError` and
    `StoreError`."""
    done = Repair()
    into = path = examination.path
    written_last = rows_missing(path)
    with hold_workspace(workspace.root) as hold:
        if examination.faults:
            # another workspace may name this store: its engine would lose the log
            if (holder := writer_of(path)) is not None:
                raise being_written(path, holder)
            done.aside = set_aside(path, now)
            into = path.with_name(path.name + ".saved")
            _clear(into)
            done.saved = salvage(done.aside, into)
        # what the files have and the store lost is imported as from any other folder, before the
        # store is in its place: a run would write the files without it
        with open_store(into, engine=hold.engine) as store:
            if examination.files is not None:
                importer = Importer(workspace, config, store.reader, store, anew=True)
                done.filled = await importer.run(examination.files)
                await _know_again(workspace, store, done.filled)
            done.missing += await _without_lost_results(store)
        if into != path:
            put_in_place(into, path)
            # the search index refers to row numbers, which other rows may have now
            _clear(path.with_name(INDEX_NAME))
    if written_last and done.saved is not None and not done.saved.saved:
        rows = "the row" if written_last == 1 else f"the {written_last} rows"
        done.missing.append(f"of {rows} written last, what the files do not hold")
    return done


def _clear(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def _know_again(workspace: Workspace, store: Store, filled: ImportReport) -> None:
    """Register files whose rows are all in the store, so that the mirror may overwrite them."""
    digests: dict[str, str] = {}
    for benchmark in filled.benchmarks:
        digests |= _known_models(workspace, store, benchmark)
    if digests:
        await store.set_mirrored(digests)


def _known_models(
    workspace: Workspace, store: Store, benchmark: BenchmarkReport
) -> Mapping[str, str]:
    models: dict[str, str] = {}
    ours = [file for file in benchmark.files if file.path.is_relative_to(workspace.benchmarks_dir)]
    whole = [report.path for report in ours if not report.dropped and not report.problems]
    if whole and len(whole) == len(ours):
        # it is made from the others, and no row of it is read
        whole.append(workspace.root / folder_of(benchmark.name) / "results.json")
    for path in whole:
        relative = path.relative_to(workspace.root).as_posix()
        digest = digest_on_disk(path) if path.is_file() else None
        if digest is not None and store.reader.mirrored(relative) is None:
            models[relative] = digest
    return models


async def _without_lost_results(store: Store) -> list[str]:
    """Name what was done once and is not in the store. It waits for the next run again, so that it
    does not count as done meanwhile."""
    lines: list[str] = []
    for name in store.reader.benchmarks():
        judged = store.reader.counting_verdicts(name)
        there = {
            Stage.SIMULATE: {str(take.key) for take, _ in judged},
            Stage.EVALUATE: {str(take.key) for take, verdicts in judged if verdicts},
        }
        for stage, units in there.items():
            states = store.reader.units(name, stage).values()
            done = [row for row in states if row.state is State.DONE]
            lost = sorted((row for row in done if row.unit not in units), key=lambda row: row.unit)
            if lost:
                lines.append(f"{name} {stage}: {len(lost)} of {len(done)}, such as {lost[0].unit}")
                await store.write(
                    *(replace(row, seq=0, at=None, state=State.QUEUED) for row in lost)
                )
    return lines
