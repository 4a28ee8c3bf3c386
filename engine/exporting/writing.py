"""Puts what is exported in its place: whole or not at all, and over nothing that is there."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.branches import BENCHMARKS
from engine.errors import InputError, Problem, StoreError
from engine.store.replaced_file import NewFile

_OURS: Final = ("config.yaml", ".env", "crosswind.", "search.db")


def refuse_taken(place: Path, *, force: bool, folder: bool) -> None:
    """Raises `InputError` for a place that cannot be written to, or not without `force`."""
    if not place.parent.is_dir():
        raise InputError(Problem("there is no such folder", place.parent))
    if not place.exists() and not place.is_symlink():
        return
    if folder and place.exists() and not place.is_dir():
        raise InputError(Problem("expected a folder, found a file", place))
    if not folder and place.is_dir():
        raise InputError(Problem("expected a file, found a folder", place))
    if folder and not any(place.iterdir()):
        return
    if not force:
        kind = "folder" if folder else "file"
        hint = "name another place, or add --force"
        raise InputError(Problem(f"this {kind} is there already", place, hint=hint))


def refuse_ours(place: Path, *, root: Path, store: Path) -> None:
    """Raises `InputError` for a place where the workspace at `root` has its own files: what is
    exported would take the place of what it was exported from."""
    real, home, stored = place.resolve(), root.resolve(), store.resolve()
    is_ours = real.parent in {home, stored.parent} and real.name.startswith((stored.name, *_OURS))
    if is_ours or real.is_relative_to(home / BENCHMARKS):
        hint = "name another place; --force does not help here"
        raise InputError(Problem("this is a place of the workspace itself", place, hint=hint))


def write_file(place: Path, pieces: Iterable[str]) -> None:
    """In one step. Raises `StoreError`."""
    with _told(place):
        new = NewFile(place, pieces)
        try:
            new.move(place)
        finally:
            new.discard()


def write_folder(place: Path, documents: Iterable[tuple[str, Iterable[str]]]) -> int:
    """Each document under its path in the folder; how many. A new folder appears when it is
    complete; in one that is there, each file is replaced and no other is touched.

    Raises `StoreError`.
    """
    with _told(place):
        if place.exists():
            return _filled(place, documents)
        unfinished = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            unfinished.mkdir()
            count = _filled(unfinished, documents)
            unfinished.rename(place)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return count


def _filled(folder: Path, documents: Iterable[tuple[str, Iterable[str]]]) -> int:
    count = 0
    for name, pieces in documents:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, pieces)
        count += 1
    return count


@contextmanager
def _told(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise StoreError(
            f"{where} could not be written: {error.strerror}; check the space on the disk and who "
            "may write there"
        ) from error
