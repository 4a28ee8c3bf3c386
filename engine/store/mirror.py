"""Writes what the store holds to the documented files, and never over a person's edits unasked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.benchmark import Metric, name_fault
from engine.branches import benchmark_fault, folder_of
from engine.errors import DamagedError, InputError, StoreError
from engine.files import NewFile, digest_on_disk, read_regular
from engine.identity import program_digest
from engine.jury import Counts
from engine.store.filesystem import lacks_room, room_advice
from engine.store.imports import NOTE
from engine.store.json_file import json_array, json_lines, json_object, json_value
from engine.store.mirror_content import MirrorContent, file_difference
from engine.store.mirror_rows import HISTORY, TargetName
from engine.store.reader import Reader

__all__ = ["EditPolicy", "Mirror", "MirrorReport", "MirrorSources", "TargetName"]

_ONE_AT_A_TIME: Final = threading.Lock()
"""Held by the mirror that is writing: one on a thread continues after nobody waits for it any more,
and the next must not overtake it."""

_MOVES: Final = ".crosswind-moves"
_BESIDE: Final = ".crosswind"
_EMPTY_ARRAY: Final = "[]\n"


class EditPolicy(Enum):
    """What to do with a file that a person edited."""

    LEAVE = auto()
    """Leave it, write ours beside it, and say so each time."""
    KEEP = auto()
    """Leave it, and say no more about it until it is edited again."""
    OVERWRITE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSources:
    """What a benchmark's files are made from, beside the store."""

    metrics: Sequence[Metric]
    targets: Sequence[TargetName]
    """The targets whose files are written."""
    results: Callable[[], object | None] | None = None
    """Computes the content of `results.json`, which is None to leave the file alone."""
    results_made_from: str = ""
    """A text that changes with everything that decides that content, except the benchmark's
    rows."""
    counts: Counts | None = None
    """What counts in `scores.json`; all judges vote if None."""


@dataclass(slots=True)
class MirrorReport:
    """What happened to the files; paths are relative to the workspace."""

    through: int = 0
    """The last `seq` that is in the files, for `Store.set_mirrored`."""
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """A sentence for each edited file that was left as it is."""
    failed: list[str] = field(default_factory=list)
    """A sentence for each file that could not be written, as the disk is full or rows for it are
    damaged. The file is unchanged."""
    accepted: dict[str, str] = field(default_factory=dict)
    """Digests of edited files that a person decided to keep, for `Store.set_kept`."""
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of the files that hold what the store has, for `Store.set_mirrored`. If no file was
    edited or failed, also one of all files and their sources, under the name of a note."""


class Mirror:
    """Writes files from the store, which it only reads: its reports are for the engine to store."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root = root
        self._reader = reader

    def write_benchmark(
        self,
        benchmark: str,
        sources: MirrorSources,
        *,
        edits: EditPolicy = EditPolicy.LEAVE,
        only: Container[str] | None = None,
    ) -> MirrorReport:
        """Write each file of a benchmark that is out of date, by an atomic replacement.

        `edits` says what to do with files that a person edited. `only` limits the work to the files
        of these names. Raises `InputError` and `StoreError`.

        If neither the benchmark's rows nor its files have changed since all files were up to date,
        the store is only asked for how many rows there are.
        """
        with _ONE_AT_A_TIME:
            through = self._reader.last_seq()
            _refuse_names(benchmark, sources.targets)
            files = _MirroredFolder(
                self._root, self._root / folder_of(benchmark), self._reader, edits
            )
            made_from = "" if only is not None else self.made_from(benchmark, sources)
            if not (only is None and files.is_current(made_from, _names(sources.targets))):
                try:
                    for name, pieces, is_array in self._all_files(benchmark, sources, only):
                        files.put(name, pieces, is_array=is_array)
                except DamagedError as error:
                    files.leave_all(error)
                if only is None:
                    files.remember(made_from)
            files.report.through = through
            return files.report

    def settle(self, benchmark: str) -> None:
        """Delete the list of files that were moved into place, if the store has all their digests
        by now; otherwise the next mirror does so."""
        with _ONE_AT_A_TIME:
            _MirroredFolder(
                self._root, self._root / folder_of(benchmark), self._reader, EditPolicy.LEAVE
            )

    def differences(self, benchmark: str, sources: MirrorSources) -> Iterator[str]:
        """Yield a unified diff for each edited file: what `EditPolicy.OVERWRITE` would change.
        Changes no mirrored file. Raises `InputError` and `StoreError`."""
        _refuse_names(benchmark, sources.targets)
        folder = self._root / folder_of(benchmark)
        files = _MirroredFolder(self._root, folder, self._reader, EditPolicy.LEAVE)
        with TemporaryDirectory() as aside:
            for name, pieces, is_array in self._all_files(benchmark, sources):
                yield from files.difference(name, pieces, Path(aside), is_array=is_array)

    def made_from(self, benchmark: str, sources: MirrorSources) -> str:
        """Return a digest of everything that decides what the files hold."""
        rows = self._reader.rows_digest(benchmark)
        inputs = repr((program_digest(), rows, sources.metrics, sources.targets, sources.counts))
        digest = blake2b(inputs.encode(errors="replace"), digest_size=16)
        digest.update(sources.results_made_from.encode(errors="replace"))
        return digest.hexdigest()

    def _all_files(
        self, benchmark: str, sources: MirrorSources, only: Container[str] | None = None
    ) -> Iterator[tuple[str, Iterable[str], bool]]:
        """Yield each file's name, its text in pieces, and whether it holds an array."""
        metrics = {metric.id: metric for metric in sources.metrics}
        content = MirrorContent(self._reader, benchmark, metrics, sources.counts)
        if only is None or "scenarios.json" in only:
            yield "scenarios.json", json_array(content.scenarios()), True
        if only is None or HISTORY in only:
            yield HISTORY, json_lines(content.history()), False
        if only is not None:
            return
        yield "cost.json", json_object(content.generation_cost()), False
        for target in sources.targets:
            runs = f"runs/{target.id}"
            yield f"{runs}/conversations.json", json_array(content.conversations(target)), True
            yield f"{runs}/scores.json", json_array(content.scores(target)), True
            yield f"{runs}/{HISTORY}", json_lines(content.past_of(target)), False
            yield f"{runs}/cost.json", json_object(content.cost(target)), False
        result = None if sources.results is None else sources.results()
        yield "results.json", [] if result is None else json_value(result), False


def _names(targets: Sequence[TargetName]) -> Iterator[str]:
    """Yield the names of all files of a benchmark."""
    yield from ("scenarios.json", HISTORY, "cost.json")
    for target in targets:
        for name in ("conversations.json", "scores.json", HISTORY, "cost.json"):
            yield f"runs/{target.id}/{name}"
    yield "results.json"


def _refuse_names(benchmark: str, targets: Iterable[TargetName]) -> None:
    faults = {benchmark: benchmark_fault(benchmark)}
    faults |= {target.id: name_fault(target.id) for target in targets}
    for name, fault in faults.items():
        if fault is not None:
            raise InputError(f"{name!r} cannot name a folder: {fault}")


class _MirroredFolder:
    """The files in one benchmark's folder.

    A file is ours if its digest is the one that was stored when it was last written or read. The
    digest is stored only after the mirror has ended, so each move is first noted in a file of its
    own: after a crash in between, a moved file is still known to be ours.
    """

    def __init__(self, root: Path, folder: Path, reader: Reader, edits: EditPolicy) -> None:
        self._root = root
        self._folder = folder
        self._reader = reader
        self._edits = edits
        self._moves_path = folder / _MOVES
        self._moves = self._read_moves()
        self.report = MirrorReport()
        self._current: dict[str, str | None] = {}
        """The present digest of each file; None for one that does not exist."""

    def is_current(self, made_from: str, names: Iterable[str]) -> bool:
        """Whether every file and `made_from` are as they were when all files were up to date.

        If so, the files are reported as unchanged, and copies of ours beside them are deleted. All
        bytes are read, as neither size nor time shows that nobody edited a file.
        """
        known = self._reader.mirrored(self._note_path())
        if known is None or self._edits is EditPolicy.OVERWRITE:
            return False
        for name in names:
            path = self._folder / name
            self._refuse_links(path.parent)
            try:
                self._current[self._relative(path)] = digest_on_disk(path)
            except InputError:
                return False  # reported when the file is to be written
        if known.digest != self._state_digest(made_from):
            return False
        for relative, digest in self._current.items():
            if digest is not None and digest in self._own_digests(relative):
                self.report.unchanged.append(relative)
                self.report.digests[relative] = digest
                (self._root / (relative + _BESIDE)).unlink(missing_ok=True)
        self.report.digests[known.path] = known.digest
        return True

    def remember(self, made_from: str) -> None:
        """Note the state of all files, if none failed and no edit was reported or just accepted."""
        if not (self.report.failed or self.report.kept or self.report.accepted):
            self.report.digests[self._note_path()] = self._state_digest(made_from)

    def _note_path(self) -> str:
        return f"{NOTE}mirrored/{self._relative(self._folder)}"

    def _state_digest(self, made_from: str) -> str:
        state = f"{made_from} {sorted(self._current.items())}"
        return blake2b(state.encode(), digest_size=16).hexdigest()

    def leave_all(self, error: DamagedError) -> None:
        self.report.failed.append(f"{self._relative(self._folder)} was left as it is: {error}")

    def put(self, name: str, pieces: Iterable[str], *, is_array: bool) -> None:
        """Write a file if it is out of date; one without any content is not created."""
        path = self._folder / name
        try:
            text = self._text(path, pieces, is_array=is_array)
            if text is None:
                self._current[self._relative(path)] = digest_on_disk(path)
            else:
                self._refuse_links(path.parent)
                path.parent.mkdir(parents=True, exist_ok=True)
                self._write(path, text)
        except DamagedError as error:
            self.report.failed.append(f"{self._relative(path)} was left as it is: {error}")
        except OSError as error:
            if lacks_room(error):
                self.report.failed.append(
                    f"{self._relative(path)} was left as it is: {error.strerror}; "
                    f"{room_advice(path, error)}"
                )
                return
            raise StoreError(
                f"{error.filename or path} could not be written: {error.strerror}; check who may "
                "write there"
            ) from error

    def _text(self, path: Path, pieces: Iterable[str], *, is_array: bool) -> Iterator[str] | None:
        """Return the text; None if there is none. An empty array is written only over a file that
        held rows of ours before."""
        text = iter(pieces)
        first = next(text, None)
        if first is None and is_array:
            relative = self._relative(path)
            if self._reader.mirrored(relative) is not None or relative in self._moves:
                first = _EMPTY_ARRAY
        return None if first is None else chain([first], text)

    def difference(
        self, name: str, pieces: Iterable[str], folder: Path, *, is_array: bool
    ) -> Iterator[str]:
        """Yield the lines of the diff; none if the file was not edited. Our version is written into
        `folder` for the comparison."""
        path = self._folder / name
        relative = self._relative(path)
        on_disk = digest_on_disk(path)
        if on_disk is None or on_disk in self._own_digests(relative):
            return
        text = self._text(path, pieces, is_array=is_array)
        new = NewFile(folder / path.name, text or ())
        try:
            if new.digest != on_disk:
                yield from file_difference(path, new.path, relative)
        finally:
            new.discard()

    def _write(self, path: Path, text: Iterator[str]) -> None:
        relative = self._relative(path)
        beside = path.with_name(path.name + _BESIDE)
        new = NewFile(path, text)
        try:
            on_disk = digest_on_disk(path)
            is_ours = on_disk is None or on_disk in {new.digest, *self._own_digests(relative)}
            if not is_ours and self._edits is not EditPolicy.OVERWRITE:
                self._current[relative] = on_disk
                self._leave_edited(relative, str(on_disk), new, beside)
                return
            self.report.digests[relative] = self._current[relative] = new.digest
            if on_disk == new.digest:
                self.report.unchanged.append(relative)
            else:
                self._note_move(relative, new.digest)
                new.move(path)
                self.report.written.append(relative)
            beside.unlink(missing_ok=True)
        finally:
            new.discard()

    def _leave_edited(self, relative: str, on_disk: str, new: NewFile, beside: Path) -> None:
        """Leave an edited file, and report it unless a person has decided to keep it."""
        if on_disk == self._reader.kept_digest(relative):
            beside.unlink(missing_ok=True)
        elif self._edits is EditPolicy.KEEP:
            self.report.accepted[relative] = on_disk
            beside.unlink(missing_ok=True)
        else:
            if digest_on_disk(beside) != new.digest:
                new.move(beside)
            self.report.kept.append(_kept_sentence(relative))

    def _own_digests(self, relative: str) -> set[str]:
        known = self._reader.mirrored(relative)
        digests = {self._moves.get(relative), None if known is None else known.digest}
        return {digest for digest in digests if digest is not None}

    def _refuse_links(self, folder: Path) -> None:
        """Refuse a linked folder, which could be anywhere on the disk and somebody else's."""
        for path in (folder, *folder.parents):
            if path == self._folder:
                return
            if path.is_symlink():
                raise InputError(
                    f"{path} is a symbolic link; expected a folder, into which the results of a "
                    "run are written: move the link away"
                )

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    # Moves whose digests may not be stored yet

    def _read_moves(self) -> dict[str, str]:
        try:
            lines = read_regular(self._moves_path).decode("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{self._moves_path} could not be read: {error}") from error
        moves = {relative: digest for digest, _, relative in (x.partition(" ") for x in lines)}
        left = {path: digest for path, digest in moves.items() if not self._is_stored(path, digest)}
        if not left:
            self._moves_path.unlink(missing_ok=True)
        return left

    def _is_stored(self, relative: str, digest: str) -> bool:
        known = self._reader.mirrored(relative)
        return known is not None and known.digest == digest

    def _note_move(self, relative: str, digest: str) -> None:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW
        descriptor = os.open(self._moves_path, flags, 0o666)
        try:
            os.write(descriptor, f"{digest} {relative}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._moves[relative] = digest


def _kept_sentence(relative: str) -> str:
    """Say that an edited file was left. The words are always the same, so that it is said once."""
    advice = (
        "the next run takes in what was changed"
        if relative.endswith("/scenarios.json")
        else "`crosswind repair --files --diff` shows the difference, `--keep` leaves it so for "
        "good, `--overwrite` puts ours in its place"
    )
    return (
        f"{relative} is not as Crosswind wrote it and was left as it is; what the store holds is "
        f"in {relative}{_BESIDE} ({advice})"
    )
