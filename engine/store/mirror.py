"""Writes what the store holds to the documented files, and never over what a person wrote there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from engine.benchmark import Metric, name_fault
from engine.errors import InputError, StoreError
from engine.store.mirror_content import Content
from engine.store.mirror_rows import TargetName
from engine.store.reader import Reader
from engine.store.replaced_file import (
    NewFile,
    digest_on_disk,
    json_array,
    json_object,
    json_value,
)

__all__ = ["Mirror", "MirrorReport", "TargetName"]

_ONE_AT_A_TIME: Final = threading.Lock()
"""A mirror that was begun on a thread goes on when nobody waits for it any more, and the next must
not overtake it."""

_MOVES: Final = ".crosswind-moves"
_BESIDE: Final = ".crosswind"
_EMPTY_ARRAY: Final = "[]\n"


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What became of the files; paths are relative to the workspace."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    kept: tuple[str, ...]
    """A sentence for each file that a person changed and that was left as it is."""
    digests: Mapping[str, str]
    """Of the files that are as the store has it, for `Store.set_mirrored`."""
    through: int
    """The last `seq` that is in them, for the same."""


class Mirror:
    """Only reads the store; what it did is told in its report, for the engine to store."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root = root
        self._reader = reader

    def write_benchmark(
        self,
        benchmark: str,
        *,
        metrics: Sequence[Metric],
        targets: Sequence[TargetName],
        results: object | None,
    ) -> MirrorReport:
        """Write every file of a benchmark that is not as it should be, each in one step.

        `results` is what `results.json` holds; None to leave it. Raises `InputError` and
        `StoreError`.
        """
        _refuse_names([benchmark, *(target.id for target in targets)])
        with _ONE_AT_A_TIME:
            through = self._reader.last_seq()
            content = Content(self._reader, benchmark, {metric.id: metric for metric in metrics})
            files = _Files(self._root, self._root / "benchmarks" / benchmark, self._reader)
            files.put_array("scenarios.json", content.scenarios())
            files.put("cost.json", json_object(content.generation_cost()))
            for target in targets:
                runs = f"runs/{target.id}"
                files.put_array(f"{runs}/conversations.json", content.conversations(target))
                files.put_array(f"{runs}/scores.json", content.scores(target))
                files.put(f"{runs}/cost.json", json_object(content.cost(target)))
            files.put("results.json", [] if results is None else json_value(results))
            return files.report(through)


def _refuse_names(names: Iterable[str]) -> None:
    for name in names:
        if fault := name_fault(name):
            raise InputError(f"{name!r} cannot name a folder: {fault}")


class _Files:
    """The files of one benchmark's folder.

    A file is ours while its digest is the one that was stored when it was last written or read.
    That is stored only after the mirror has ended, so each move is first noted in a file of its
    own: after a crash between the two, what was moved is still known to be ours.
    """

    def __init__(self, root: Path, folder: Path, reader: Reader) -> None:
        self._root = root
        self._folder = folder
        self._reader = reader
        self._moves_path = folder / _MOVES
        self._moves = self._read_moves()
        self._written: list[str] = []
        self._unchanged: list[str] = []
        self._kept: list[str] = []
        self._digests: dict[str, str] = {}

    def report(self, through: int) -> MirrorReport:
        return MirrorReport(
            tuple(self._written),
            tuple(self._unchanged),
            tuple(self._kept),
            self._digests,
            through,
        )

    def put_array(self, name: str, rows: Iterable[object]) -> None:
        """An empty array is written only where rows of ours stood before."""
        relative = self._relative(self._folder / name)
        was_written = self._reader.mirrored(relative) is not None or relative in self._moves
        self.put(name, json_array(rows), empty=_EMPTY_ARRAY if was_written else None)

    def put(self, name: str, pieces: Iterable[str], *, empty: str | None = None) -> None:
        """Nothing is written where there is nothing to say."""
        place = self._folder / name
        text = iter(pieces)
        first = next(text, empty)
        if first is None:
            return
        try:
            self._refuse_links(place.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            self._settle(place, chain([first], text))
        except OSError as error:
            raise StoreError(
                f"{error.filename or place} could not be written: {error.strerror}; check the "
                "space on the disk and who may write there"
            ) from error

    def _settle(self, place: Path, text: Iterator[str]) -> None:
        relative = self._relative(place)
        beside = place.with_name(place.name + _BESIDE)
        new = NewFile(place, text)
        try:
            on_disk = digest_on_disk(place)
            if on_disk is not None and on_disk not in {new.digest, *self._ours(relative)}:
                if digest_on_disk(beside) != new.digest:
                    new.move(beside)
                self._kept.append(_kept_sentence(relative))
                return
            self._digests[relative] = new.digest
            if on_disk == new.digest:
                self._unchanged.append(relative)
            else:
                self._note_move(relative, new.digest)
                new.move(place)
                self._written.append(relative)
            beside.unlink(missing_ok=True)
        finally:
            new.discard()

    def _ours(self, relative: str) -> set[str]:
        known = self._reader.mirrored(relative)
        digests = {self._moves.get(relative), None if known is None else known.digest}
        return {digest for digest in digests if digest is not None}

    def _refuse_links(self, folder: Path) -> None:
        """What looks like our folder would be somebody else's, anywhere on the disk."""
        for place in (folder, *folder.parents):
            if place == self._folder:
                return
            if place.is_symlink():
                raise InputError(
                    f"{place} is a symbolic link; expected a folder, into which the results of a "
                    "run are written: move the link away"
                )

    def _relative(self, place: Path) -> str:
        return place.relative_to(self._root).as_posix()

    # Moves that may not be stored yet

    def _read_moves(self) -> dict[str, str]:
        try:
            lines = self._moves_path.read_text(encoding="utf-8").splitlines()
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
    """The same each time, so that it can be said once."""
    advice = (
        "the next run takes in what was changed"
        if relative.endswith("/scenarios.json")
        else "move it away to have it written again"
    )
    return (
        f"{relative} is not as Crosswind wrote it and was left as it is; what the store holds is "
        f"in {relative}{_BESIDE} ({advice})"
    )
