"""Recognises files that were imported before and have not changed, so that they are not read again.

In the transaction of a benchmark's rows, a note is stored of what they were made from: the bytes of
each file, the definition, the models, the jury, the program. A later import of the same imports
nothing if the store still has these rows. What was played and judged since does not matter, as rows
are only added.

The note also has a digest of the files' status: which file each is, its size, and when it changed.
While that is the same, not even the bytes are read. The system sets the time at which a file's
status changed, and no program can set it back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Final

from engine.benchmark import ConversationKey, Metric, Stage, State, Usage
from engine.errors import InputError, Problem
from engine.identity import program_digest
from engine.importing.report import BenchmarkReport, FileReport, UnknownTarget
from engine.importing.source import Source, is_inside, json_files, pieces_of
from engine.importing.verdicts import check_identity, identity
from engine.jury import Jury
from engine.store.imports import ImportNote
from engine.store.mirror_rows import HISTORY
from engine.store.reader import Reader
from engine.store.tables import MetricRow, ReviewRow

_OF_A_BENCHMARK: Final = (HISTORY, "scenarios.json", "cost.json")
_OF_A_TARGET: Final = ("scores.json", HISTORY, "conversations.json", "cost.json")


SETTLED_NS: Final = 2_000_000_000
"""A file that changed less than this before it was opened may change again without another time:
file systems store times with a precision of up to two seconds."""


@dataclass(slots=True)
class FilesRead:
    """The files of a source that were read to their ends."""

    source: Source
    size: int = 0
    """Bytes of all files."""
    _digests: dict[str, bytes] = field(default_factory=dict)
    _status: dict[str, bytes] = field(default_factory=dict)
    _began: int = field(default_factory=time.time_ns)
    _changed: int = 0
    """When the file changed that changed last."""

    def keep(self, path: Path, status: os.stat_result, digest: bytes = b"") -> None:
        """Keep a file's status, from before it was read, and the digest of its bytes, under a name
        that does not depend on where the source is."""
        name = name_of(self.source, path)
        self._digests[name] = digest
        size, changed = status.st_size, status.st_ctime_ns
        self._status[name] = b"%d %d %d %d" % (status.st_ino, size, status.st_mtime_ns, changed)
        self.size += size
        self._changed = max(self._changed, changed)

    @property
    def digest(self) -> str:
        """A digest of all bytes, independent of the order of reading."""
        return _digest_of(self._digests)

    @property
    def status(self) -> str | None:
        """A digest that changes when a file does; None if a change might not show in it."""
        return _digest_of(self._status) if self._changed < self._began - SETTLED_NS else None


def _digest_of(files: Mapping[str, bytes]) -> str:
    whole = blake2b(digest_size=16)
    for name, content in sorted(files.items()):
        whole.update(f"{len(name)} {name} ".encode(errors="surrogateescape"))
        whole.update(content)
    return whole.hexdigest()


digest_begun: Final = sha256
"""The hash of a file's bytes. Most processors have instructions for it, so that it takes half the
time of BLAKE2."""


def name_of(source: Source, path: Path) -> str:
    """Return a file's name, which does not depend on where its source is."""
    text = str(path)
    for place, folder in _places(source):
        if text.startswith(folder):
            return place + text[len(folder) :]
    return text


def _path_of(source: Source, name: str) -> Path:
    for place, folder in _places(source):
        if name.startswith(place):
            return Path(folder + name[len(place) :])
    return Path(name)


def _places(source: Source) -> Iterator[tuple[str, str]]:
    yield "files", str(source.folder)
    if source.cache is not None:
        yield "cache", str(source.cache)


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


# Storing the note


def note_of(
    benchmark: str,
    files: FilesRead,
    made_from: str,
    report: BenchmarkReport,
    conversations: int,
    targets: Mapping[str, UnknownTarget],
    metrics: Mapping[str, str],
) -> ImportNote:
    """Return the note to be written after the rows."""
    source = files.source
    note = {
        "status": files.status,
        "conversations": conversations,
        "files": [_file_text(source, file) for file in report.files],
        "mapped": report.mapped,
        "notes": dict(report.notes),
        "targets": [asdict(target) for target in targets.values()],
        "metrics": dict(metrics),
    }
    digest = f"{made_from} {files.digest}"
    return ImportNote(benchmark=benchmark, source=_source_kind(source), digest=digest, found=note)


def _source_kind(source: Source) -> str:
    return f"{'published' if source.published else 'files'}/{source.name}"


def _file_text(source: Source, file: FileReport) -> dict[str, Any]:
    problems = [
        {**asdict(problem), "path": None if problem.path is None else name_of(source, problem.path)}
        for problem in file.problems
    ]
    return {
        "name": name_of(source, file.path),
        "rows": file.rows,
        "dropped": file.dropped,
        "problems": problems,
    }


# Using the note


@dataclass(frozen=True, slots=True)
class UnchangedFiles:
    """The result of an earlier import of the same files."""

    targets: Mapping[str, UnknownTarget]
    metrics_named: Mapping[str, str]
    size: int
    """The size of the files in bytes."""


def unchanged(
    reader: Reader,
    benchmark: str,
    source: Source,
    root: Path,
    made_from: str,
    report: BenchmarkReport,
) -> UnchangedFiles | None:
    """Complete the report of unchanged files; None if anything may have changed, and then the
    report is left alone. Raises `OSError` if a folder cannot be read."""
    noted = reader.imported(benchmark, _source_kind(source))
    if noted is None or not noted.digest.startswith(made_from):
        return None
    note = noted.found
    files = _with_status(source, root)
    if files is None or files.status is None or files.status != note["status"]:
        files = _read(source, root)
        if files is None or noted.digest != f"{made_from} {files.digest}":
            return None
    report.unchanged = note["conversations"]
    report.files += [_file_report(source, entry) for entry in note["files"]]
    report.mapped |= note["mapped"]
    report.notes.update(note["notes"])
    targets = [UnknownTarget(**entry) for entry in note["targets"]]
    report.targets = {target.id for target in targets}
    return UnchangedFiles({target.id: target for target in targets}, note["metrics"], files.size)


def _file_report(source: Source, noted: Mapping[str, Any]) -> FileReport:
    rows, dropped = noted["rows"], noted["dropped"]
    problems = [
        Problem(
            **{
                **problem,
                "path": None if problem["path"] is None else _path_of(source, problem["path"]),
            }
        )
        for problem in noted["problems"]
    ]
    path = _path_of(source, noted["name"])
    return FileReport(path, rows, known=rows - dropped, dropped=dropped, problems=problems)


def _with_status(source: Source, root: Path) -> FilesRead | None:
    """Ask for the status of all files; None if one is in a folder that leads out of `root`."""
    files, inside = FilesRead(source), set[Path]()
    for path in _files(source):
        if path.parent not in inside:
            if not is_inside(path.parent, root):
                return None
            inside.add(path.parent)
        files.keep(path, path.lstat())  # a link's own, which is never that of a file that was read
    return files


def _read(source: Source, root: Path) -> FilesRead | None:
    """Read all files for their digests; None if one cannot be read, which an import would
    report."""
    files, inside = FilesRead(source), set[str]()
    for path in _files(source):
        digest, opened = digest_begun(), list[os.stat_result]()
        try:
            for piece in pieces_of(path, root, inside, opened.append):
                digest.update(piece)
        except (InputError, OSError):
            return None
        files.keep(path, opened[-1], digest.digest())
    return files


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


_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})
"""A row of work that is queued or running has lost its engine."""


@dataclass(frozen=True, slots=True)
class KnownTake:
    """A stored take."""

    seq: int
    number: int
    finished: bool
    digests: Sequence[bytes]
    """Digests of its messages, in order."""

    def is_of(self, digests: Sequence[bytes], *, finished: bool) -> bool:
        """Whether it is the take in a file: the same messages, or, if either is unfinished, a
        prefix of them."""
        if self.finished and finished:
            return list(self.digests) == list(digests)
        shorter, longer = (digests, self.digests) if self.finished else (self.digests, digests)
        if not (self.finished or finished) and len(shorter) > len(longer):
            shorter, longer = longer, shorter
        return list(longer[: len(shorter)]) == list(shorter)


@dataclass(slots=True)
class KnownRows:
    """What the store has of one benchmark before the import."""

    reader: Reader | None
    """None if there is no store yet."""
    benchmark: str
    _keys: frozenset[ConversationKey] | None = None
    _units: dict[Stage, dict[str, State]] = field(default_factory=dict)
    _called: dict[Stage, frozenset[str]] = field(default_factory=dict)

    def has(self, key: ConversationKey) -> bool:
        """Whether there is a take of it, finished or not. Reads all keys once."""
        if self._keys is None:
            takes = [] if self.reader is None else self.reader.takes(self.benchmark)
            self._keys = frozenset(take.key for take in takes)
        return key in self._keys

    def takes(self, key: ConversationKey) -> list[KnownTake]:
        """Return its takes, oldest first, with digests of messages instead of texts."""
        if self.reader is None or not self.has(key):
            return []
        takes = self.reader.takes(self.benchmark, key)
        digests = self.reader.message_digests(take.seq for take in takes)
        return [
            KnownTake(take.seq, take.number, take.finished, digests[take.seq]) for take in takes
        ]

    def verdicts(self, take: KnownTake) -> set[tuple[object, ...]]:
        """Return the `identity` of each verdict on a take."""
        if self.reader is None:
            return set()
        return {identity(verdict) for verdict in self.reader.verdicts(take.seq)}

    def checks(self, take: KnownTake) -> set[tuple[object, ...]]:
        """Return the `check_identity` of each check of a take."""
        if self.reader is None:
            return set()
        return {check_identity(check) for check in self.reader.checks_of([take.seq])[take.seq]}

    def announced(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a settled state of this row of work."""
        return self._state(stage, unit) in _SETTLED

    def is_done(self, stage: Stage, unit: str) -> bool:
        return self._state(stage, unit) is State.DONE

    def _state(self, stage: Stage, unit: str) -> State | None:
        if stage not in self._units:
            units = {} if self.reader is None else self.reader.units(self.benchmark, stage)
            self._units[stage] = {name: state_row.state for name, state_row in units.items()}
        return self._units[stage].get(unit)

    def has_call(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a call for this row of work."""
        if stage not in self._called:
            used = {} if self.reader is None else self.reader.usage_by_unit(self.benchmark, stage)
            self._called[stage] = frozenset(used)
        return unit in self._called[stage]

    def has_metrics(self) -> bool:
        """Whether the store has metrics that a model wrote, or that such ones replaced."""
        return self.reader is not None and bool(self.reader.metrics(self.benchmark))

    def has_reviews(self) -> bool:
        """Whether the store has any review."""
        return self.reader is not None and bool(self.reader.reviews(self.benchmark))

    def lost_metrics(self, written: Sequence[MetricRow]) -> list[MetricRow]:
        """Those of whose metric the store has no row: an older one, added now, would count."""
        rows = [] if self.reader is None else self.reader.metric_rows(self.benchmark)
        there = {row.metric.id for row in rows}
        return [row for row in written if row.metric.id not in there]

    def lost_reviews(self, written: Sequence[ReviewRow]) -> list[ReviewRow]:
        """Those that the store has not, without any that was made before one of the same metric or
        scenario that it has: added now, it would count."""
        rows = [] if self.reader is None else self.reader.reviews(self.benchmark)
        there = {(row.at, row.action, row.person) for row in rows}
        newest = {(item.kind, item.id): row.at or 0 for row in rows for item in row.items}
        return [
            row
            for row in written
            if (row.at, row.action, row.person) not in there
            and all((row.at or 0) >= newest.get((item.kind, item.id), 0) for item in row.items)
        ]

    def usage(self, stage: Stage, target: str | None) -> Usage:
        """Return the usage of a stage's calls for a target, or for all if None."""
        return Usage() if self.reader is None else self.reader.usage(self.benchmark, stage, target)
