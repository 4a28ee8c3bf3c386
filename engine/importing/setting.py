"""What the import of one benchmark stands on, and how its files are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from engine.benchmark import Scenario
from engine.config.definition import Definition
from engine.errors import InputError
from engine.importing.fields import UnfitError
from engine.importing.json_rows import JsonRow, OnRead, read_object, read_rows
from engine.importing.known import Known
from engine.importing.names import Names
from engine.importing.report import BenchmarkReport, FileReport
from engine.importing.sources import Source, refuse_unfit
from engine.importing.unchanged import FilesRead, digest_begun
from engine.importing.verdicts import Court, Tracks

ReadRows = Callable[[Path, OnRead | None], Iterator[JsonRow]]


@dataclass(frozen=True, slots=True)
class Setting:
    """One benchmark, theirs and ours."""

    name: str
    """As it is called here."""
    source: Source
    root: Path
    """The folder that is imported; nothing outside it is read."""
    definition: Definition | None
    """None where nobody says which types its metrics have."""
    scenarios: Mapping[str, Scenario]
    """Those that the workspace has, by id."""
    removed: frozenset[str]
    """Ids of those that a person took out of it."""
    known: Known
    names: Names
    models: Mapping[str, str]
    """By their target: which model stands behind it, as their configuration says."""
    court: Court
    report: BenchmarkReport
    made_from: str
    """What decides what becomes of the files, beside them."""
    files: FilesRead
    """What was read of the source's."""
    on_read: Callable[[int], None]
    """Hears how many bytes were read."""
    inside: set[Path] = field(default_factory=set)
    """Folders of which it is known that no link leads out of `root` there."""

    @property
    def tracks(self) -> Tracks:
        """The type of each metric."""
        return self.court.tracks

    # Files: what is wrong with one comes into its report, and there is no more of it

    def rows(self, path: Path, read: ReadRows = read_rows) -> tuple[FileReport, Iterator[JsonRow]]:
        """What `read` reads, of an array if nothing is said; none, and no report, where there is no
        such file."""
        if not path.exists() and not path.is_symlink():
            return FileReport(path), iter(())
        file = self.report.file(path)
        return file, self._rows(path, file, read)

    def _rows(self, path: Path, file: FileReport, read: ReadRows) -> Iterator[JsonRow]:
        digest = digest_begun()
        try:
            refuse_unfit(path, self.root, self.inside)
            yield from read(path, self._hearing(digest))
            self.files.keep(path, digest.digest())
        except InputError as error:
            file.tell_all(error.problems)

    def value(self, path: Path, file: FileReport) -> object:
        """What a small file holds; None where it cannot be read."""
        digest = digest_begun()
        try:
            refuse_unfit(path, self.root, self.inside)
            value = read_object(path, self._hearing(digest))
        except InputError as error:
            file.tell_all(error.problems)
            return None
        self.files.keep(path, digest.digest())
        return value

    def _hearing(self, digest: blake2b) -> OnRead:
        def hear(raw: bytes) -> None:
            digest.update(raw)
            self.on_read(len(raw))

        return hear


@dataclass(frozen=True, slots=True)
class Place:
    """A row in a file, for what is to be said of it."""

    file: FileReport
    index: int
    line: int | None

    def drop(self, error: UnfitError) -> None:
        """The row cannot be taken."""
        key = f"[{self.index}]" + (f".{error.key}" if error.key else "")
        self.file.drop(error.what, line=self.line, key=key, hint=error.hint)
