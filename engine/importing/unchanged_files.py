"""Recognises files that were imported before and have not changed, so that they are not parsed
again.

In the transaction of a benchmark's rows, a note is stored of what they were made from: the bytes of
each file, the definition, the models, the jury, the program. A later import of the same imports
nothing if the store still has these rows. What was played and judged since does not matter, as rows
are only added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Metric
from engine.errors import InputError, Problem
from engine.identity import program_digest
from engine.importing.report import BenchmarkReport, FileReport, UnknownTarget
from engine.importing.source import Source, SourceFiles, json_files
from engine.jury import Jury
from engine.store.imports import ImportNote
from engine.store.mirror_rows import HISTORY
from engine.store.reader import Reader

_OF_A_BENCHMARK: Final = (HISTORY, "scenarios.json", "cost.json")
_OF_A_TARGET: Final = ("scores.json", HISTORY, "conversations.json", "cost.json")


def made_from(
    source: Source,
    metrics: tuple[Metric, ...] | None,
    models: Mapping[str, str],
    jury: Jury | None,
    written: str | None,
) -> str:
    """Return a digest of what the rows depend on, besides the files' bytes and the store's rows.

    `written` is the digest of scenarios that a person wrote into the workspace.
    """
    there = [(source.folder / name).exists() for name in ("scenarios.json", "results.json")]
    of = (program_digest(), source.name, metrics, sorted(models.items()), jury, written, there)
    return blake2b(repr(of).encode(errors="replace"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class FilesImport:
    """What the import of one source's files found, besides rows."""

    conversations: int
    targets: Mapping[str, UnknownTarget]
    """Every target in the files, by our name."""
    metrics_named: Mapping[str, str]
    """The names of metrics in published files, by metric id."""

    def note(
        self, benchmark: str, files: SourceFiles, made_from: str, report: BenchmarkReport
    ) -> ImportNote:
        """Return the note to be written after the rows."""
        source = files.source
        found = {
            "conversations": self.conversations,
            "files": [_file_text(source, file) for file in report.files],
            "mapped": report.mapped,
            "notes": dict(report.notes),
            "samples": report.samples,
            "targets": [asdict(target) for target in self.targets.values()],
            "metrics": dict(self.metrics_named),
        }
        digest = f"{made_from} {files.digest}"
        return ImportNote(
            benchmark=benchmark, source=_source_kind(source), digest=digest, found=found
        )


def _source_kind(source: Source) -> str:
    return f"{'published' if source.published else 'files'}/{source.name}"


def _file_text(source: Source, file: FileReport) -> dict[str, Any]:
    problems = [
        {
            **asdict(problem),
            "path": None if problem.path is None else source.name_of(problem.path),
        }
        for problem in file.problems
    ]
    return {
        "name": source.name_of(file.path),
        "rows": file.rows,
        "dropped": file.dropped,
        "problems": problems,
    }


def unchanged(
    reader: Reader, benchmark: str, files: SourceFiles, made_from: str, report: BenchmarkReport
) -> FilesImport | None:
    """Complete the report of unchanged files; None if anything may have changed, and then the
    report is left alone. Reads the bytes of all files, but parses none."""
    source = files.source
    noted = reader.imported(benchmark, _source_kind(source))
    if noted is None or not noted.digest.startswith(made_from):
        return None
    try:
        for path in _files(source):
            files.read(path)
    except (InputError, OSError):
        return None  # reported when the files are imported
    if noted.digest != f"{made_from} {files.digest}":
        return None
    note = noted.found
    report.unchanged = note["conversations"]
    report.files += [_file_report(source, entry) for entry in note["files"]]
    report.mapped |= note["mapped"]
    report.notes.update(note["notes"])
    report.samples = note["samples"]
    targets = {entry["id"]: UnknownTarget(**entry) for entry in note["targets"]}
    report.targets = set(targets)
    return FilesImport(note["conversations"], targets, note["metrics"])


def _file_report(source: Source, noted: Mapping[str, Any]) -> FileReport:
    rows, dropped = noted["rows"], noted["dropped"]
    problems = [
        Problem(
            **{**problem, "path": None if problem["path"] is None else source.path(problem["path"])}
        )
        for problem in noted["problems"]
    ]
    path = source.path(noted["name"])
    return FileReport(path, rows, known=rows - dropped, dropped=dropped, problems=problems)


def _files(source: Source) -> Iterator[Path]:
    """Yield the files that an import reads."""
    if source.published:
        for model in source.folder.iterdir():
            if model.is_dir() and not model.name.startswith("."):
                yield from json_files(model)
        return
    for name in _OF_A_BENCHMARK:
        yield from _if_there(source.folder / name)
    runs = source.folder / "runs"
    for folder in runs.iterdir() if runs.is_dir() else ():
        if folder.is_dir():
            for name in _OF_A_TARGET:
                yield from _if_there(folder / name)
    if source.cache is not None:
        yield from source.cache.rglob("*.json")


def _if_there(path: Path) -> Iterator[Path]:
    if path.exists() or path.is_symlink():
        yield path
