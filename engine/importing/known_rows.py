"""What the store has of a benchmark before an import, and whether its files have changed since.

In the transaction of a benchmark's rows, a note is stored of what they were made from: the bytes of
each file, the definition, the models, the jury, the program. A later import of the same imports
nothing if the store still has these rows. What was played and judged since does not matter, as rows
are only added. There is no note of files with a fault: it is told each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from engine.benchmark import ConversationKey, Metric, Stage, State
from engine.errors import InputError
from engine.identity import program_digest
from engine.importing.report import UnknownTarget
from engine.importing.source import Source, SourceFiles, json_files
from engine.importing.takes import check_identity, identity
from engine.jury import Jury
from engine.store.imports import ImportNote
from engine.store.mirror_rows import HISTORY
from engine.store.reader import Reader
from engine.store.tables import MetricRow, ReviewRow, StateRow, StoredTake

_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})

KnownTake = tuple[StoredTake, Sequence[bytes]]
"""A stored take, and the digests of its messages in order."""


def is_same(known: KnownTake, digests: Sequence[bytes], *, finished: bool) -> bool:
    """Whether it is the take in a file: the same messages, or, if either is unfinished, a prefix of
    them."""
    take, stored = known
    if take.finished and finished:
        return list(stored) == list(digests)
    shorter, longer = (digests, stored) if take.finished else (stored, digests)
    if not (take.finished or finished) and len(shorter) > len(longer):
        shorter, longer = longer, shorter
    return list(longer[: len(shorter)]) == list(shorter)


@dataclass(slots=True)
class KnownRows:
    """What the store has of one benchmark before the import."""

    reader: Reader
    benchmark: str
    _keys: frozenset[ConversationKey] | None = None
    _units: dict[Stage, dict[str, StateRow]] = field(default_factory=dict)
    _called: dict[Stage, frozenset[str]] = field(default_factory=dict)

    def takes(self, key: ConversationKey) -> list[KnownTake]:
        """Return its takes, oldest first, with digests of messages instead of texts."""
        if self._keys is None:
            self._keys = frozenset(take.key for take in self.reader.takes(self.benchmark))
        if key not in self._keys:
            return []
        takes = self.reader.takes(self.benchmark, key)
        digests = self.reader.message_digests(take.seq for take in takes)
        return [(take, digests[take.seq]) for take in takes]

    def verdicts(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `identity` of each verdict on a take."""
        return {identity(verdict) for verdict in self.reader.verdicts(take.seq)}

    def checks(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `check_identity` of each check of a take."""
        return {check_identity(check) for check in self.reader.checks_of([take.seq])[take.seq]}

    def state(self, stage: Stage, unit: str) -> State | None:
        """Return the newest state of a row of work, if that is settled: one that is queued or
        running has lost its engine."""
        if stage not in self._units:
            self._units[stage] = self.reader.units(self.benchmark, stage)
        row = self._units[stage].get(unit)
        return row.state if row is not None and row.state in _SETTLED else None

    def has_call(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a call for this row of work."""
        if stage not in self._called:
            self._called[stage] = frozenset(self.reader.usage_by_unit(self.benchmark, stage))
        return unit in self._called[stage]

    def new_metrics(self, written: Sequence[MetricRow]) -> list[MetricRow]:
        """Those of whose metric the store has no row: an older one, added now, would count."""
        there = {row.metric.id for row in self.reader.metric_rows(self.benchmark)}
        return [row for row in written if row.metric.id not in there]

    def new_reviews(self, written: Sequence[ReviewRow]) -> list[ReviewRow]:
        """Those that the store has not, without any that was made before one of the same metric or
        scenario that it has: added now, it would count."""
        rows = self.reader.reviews(self.benchmark)
        there = {(row.at, row.action, row.person) for row in rows}
        newest = {(item.kind, item.id): row.at or 0 for row in rows for item in row.items}
        return [
            row
            for row in written
            if (row.at, row.action, row.person) not in there
            and all((row.at or 0) >= newest.get((item.kind, item.id), 0) for item in row.items)
        ]


# Files that were imported before and have not changed


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
