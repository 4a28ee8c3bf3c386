"""The context of one benchmark's import: what it depends on, and how its files are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.benchmark import Metric, Scenario, Track
from engine.checks import UserAuditMode
from engine.config.benchmark_file import Definition
from engine.config.workspace import Workspace
from engine.errors import InputError, StoreError
from engine.files import digest_on_disk, read_regular, replace_file
from engine.importing.fields import Names, UnfitError
from engine.importing.known_rows import KnownRows
from engine.importing.report import BenchmarkReport, FileReport
from engine.importing.source import JsonRow, Source, SourceFiles, read_object, read_rows
from engine.importing.takes import Tracks, VerdictRules
from engine.store.database import Store
from engine.store.mirror import Mirror, MirrorSources
from engine.store.mirror_rows import HISTORY
from engine.store.open_reader import open_reader

ReadRows = Callable[[Path, bytes], Iterator[JsonRow]]


@dataclass(frozen=True, slots=True)
class ImportContext:
    """A benchmark that is imported, and what the workspace has of it."""

    name: str
    """Its name in the workspace."""
    source: Source
    definition: Definition | None
    """None if nothing says which types its metrics have."""
    scenarios: Mapping[str, Scenario]
    """The workspace's scenarios, by id."""
    removed: frozenset[str]
    """Ids of scenarios that a person removed from the workspace."""
    versions: Mapping[str, Sequence[Scenario]]
    """Every stored version of the scenarios whose newest the store may have lost: their file, which
    nobody edited, has it. Empty unless this makes a store again."""
    repairs: bool
    """Whether this makes a store again, so that what was done and is gone is to be told."""
    known: KnownRows
    names: Names
    models: Mapping[str, str]
    """The model behind each target, by the imported configuration."""
    rules: VerdictRules
    report: BenchmarkReport
    user_audit: UserAuditMode
    """Whether conversations that no file says were audited are audited now."""
    turns: int
    """The most turns of a conversation in the workspace."""
    made_from: str
    """A digest of what the result depends on besides the files."""
    files: SourceFiles

    @property
    def tracks(self) -> Tracks:
        """The track of each metric."""
        return self.rules.tracks

    # Reading files: a fault goes to the file's report, and ends its rows

    def rows(self, path: Path, read: ReadRows = read_rows) -> tuple[FileReport, Iterator[JsonRow]]:
        """Return a report and the rows that `read` yields, by default those of an array. A missing
        file has no rows, and its report is not kept."""
        if not path.exists() and not path.is_symlink():
            return FileReport(path), iter(())
        file = self.report.file(path)
        return file, self._rows(path, file, read)

    def _rows(self, path: Path, file: FileReport, read: ReadRows) -> Iterator[JsonRow]:
        try:
            yield from read(path, self.files.read(path))
        except InputError as error:
            file.tell_all(error.problems)

    def value(self, path: Path, file: FileReport) -> object:
        """Return the content of a small file; None if it cannot be read, which is reported."""
        try:
            return read_object(path, self.files.read(path))
        except InputError as error:
            file.tell_all(error.problems)
            return None


@dataclass(frozen=True, slots=True)
class RowLocation:
    """The position of a row, for messages about it."""

    file: FileReport
    index: int
    line: int | None

    def drop(self, error: UnfitError) -> None:
        """Report that the row cannot be imported."""
        key = f"[{self.index}]" + (f".{error.key}" if error.key else "")
        self.file.drop(error.what, line=self.line, key=key, hint=error.hint)


_DRAFT: Final = """\
# What was imported does not say what its metrics are: fill in what is marked with ???, save this
# file as benchmark.yaml, and import again. Until then no verdict on it counts.
name: {title}
description: ???
metrics:
{metrics}"""
_UNKNOWN_TYPE: Final = "???   # positive: should be there; negative: should not"
_METRIC: Final = """\
  - id: {id}
    name: {name}
    type: {type}
    definition: ???
"""


def place_definition(source: Path, path: Path) -> list[Path]:
    """Copy their definition, which our reader has accepted already."""
    return _write_file(path, read_regular(source).decode("utf-8"))


def place_draft(
    path: Path, title: str, metrics: Mapping[str, str], tracks: Mapping[str, Track]
) -> list[Path]:
    """Write what is known of a benchmark without a definition, for a person to complete: its
    metrics' names and types, by id."""
    draft = path.with_name(path.name + ".draft")
    if draft.exists() or path.exists() or not metrics:
        return []
    listed = "".join(
        _METRIC.format(
            id=name,
            name=_quoted_text(title),
            type=tracks[name].value if name in tracks else _UNKNOWN_TYPE,
        )
        for name, title in sorted(metrics.items())
    )
    return _write_file(draft, _DRAFT.format(title=_quoted_text(title), metrics=listed))


def _write_file(path: Path, text: str) -> list[Path]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode(), is_only_writer=True)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror}") from error
    return [path]


def _quoted_text(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def place_scenarios(
    workspace: Workspace, store: Store, name: str, metrics: Sequence[Metric]
) -> list[Path]:
    """Write `scenarios.json` from the store, unless a person edited the one that is there."""
    path = workspace.definition_path(name).with_name("scenarios.json")
    relative = path.relative_to(workspace.root).as_posix()
    with_store = open_reader(store.path)
    try:
        known, on_disk = with_store.mirrored(relative), digest_on_disk(path)
        if on_disk is not None and (known is None or known.digest != on_disk):
            return []
        mirror = Mirror(workspace.root, with_store)
        sources = MirrorSources(metrics=metrics, targets=[])
        report = mirror.write_benchmark(name, sources)
        await store.set_mirrored(report.digests, through=report.through)
        mirror.settle(name)
    finally:
        with_store.close()
    places = (workspace.root / name for name in report.written)
    return [place for place in places if place.name != HISTORY]
