"""Recognises files that were imported before and have not changed, so that they are not parsed
again.

In the transaction of a benchmark's rows, a note is stored of what they were made from: the bytes of
each file, the definition, the models, the jury, the program. A later import of the same imports
nothing if the store still has these rows. What was played and judged since does not matter, as rows
are only added. There is no note of files with a fault: it is told each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from engine.benchmark import Metric
from engine.errors import InputError
from engine.identity import program_digest
from engine.importing.report import UnknownTarget
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
    targets: dict[str, UnknownTarget]
    """Every target in the files, by our name."""
    metrics_named: dict[str, str]
    """The names of metrics in published files, by metric id."""
    samples: int
    """The most samples of a scenario that a target has."""

    def note(self, benchmark: str, files: SourceFiles, made_from: str) -> ImportNote:
        """Return the note to be written after the rows."""
        kind, digest = _source_kind(files.source), f"{made_from} {files.digest}"
        found = msgspec.to_builtins(self)
        return ImportNote(benchmark=benchmark, source=kind, digest=digest, found=found)


def _source_kind(source: Source) -> str:
    return f"{'published' if source.published else 'files'}/{source.name}"


def unchanged(
    reader: Reader, benchmark: str, files: SourceFiles, made_from: str
) -> FilesImport | None:
    """Return what was found in these files when they were imported; None if anything may have
    changed. Reads the bytes of all files, but parses none."""
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
    return msgspec.convert(noted.found, FilesImport)


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
