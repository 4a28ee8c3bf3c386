"""Writes exports: whole or not at all, without overwriting anything unasked, and without keys."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from engine.branches import BENCHMARKS
from engine.errors import InputError, Problem, StoreError
from engine.files import UNFINISHED, is_stream, remove_leftovers, sync, write_named

SHORTEST: Final = 12
"""Characters: shorter keys are not searched for, as `ollama` or `EMPTY` may be plain words."""
HIDDEN: Final = "[hidden]"

Hide = Callable[[Any], Any]
"""Returns a value of any type without keys in its texts."""


def spellings(secret: str) -> set[str]:
    """The key as it stands in texts, JSON, scripts, pages, pictures and links; empty for one that
    is too short."""
    if len(secret) < SHORTEST:
        return set()
    in_json, in_page = json.dumps(secret)[1:-1], escape(secret, quote=False)
    in_script = in_json.replace("<", "\\u003c")
    # the templates write quotes as numbers, pictures by their names
    in_template = in_page.replace('"', "&#34;").replace("'", "&#39;")
    return {secret, in_json, in_script, in_template, escape(secret), quote(secret, safe="")}


def hiding(secrets: Iterable[str]) -> Hide:
    """Return a function that hides these keys in every text of a value, whatever it is made of."""
    # the longest first: a text that contains another one is replaced as a whole
    texts = {text for secret in secrets for text in spellings(secret)}
    found = sorted(texts, key=len, reverse=True)
    if not found:
        return lambda value: value
    pattern = re.compile("|".join(map(re.escape, found)))

    def hide(value: Any) -> Any:
        match value:
            case str():
                # enumerations are texts, too, and never hold a key
                return pattern.sub(HIDDEN, value) if type(value) is str else value
            case Mapping():
                return {hide(key): hide(inner) for key, inner in value.items()}
            case list() | tuple():
                return type(value)(map(hide, value)) if type(value) in {list, tuple} else value
        if not is_dataclass(value) or isinstance(value, type):
            return value
        were = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {name: now for name, was in were.items() if (now := hide(was)) != was}
        return replace(value, **changed) if changed else value

    return hide


_OURS: Final = ("config.yaml", ".env", "crosswind.", "search.db")


def refuse_taken(place: Path, *, force: bool, folder: bool) -> None:
    """Raises `InputError` for a place that cannot be written to, or only with `force`."""
    if not place.parent.is_dir():
        raise InputError(Problem("there is no such folder", place.parent))
    if not folder and is_stream(place):
        return  # nothing is replaced
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
    """Raises `InputError` for a place of the workspace's own files, which an export may replace."""
    # resolved, as a link may lead to the store
    real, home, stored = Path(os.path.realpath(place)), root.resolve(), store.resolve()
    is_ours = real.parent in {home, stored.parent} and real.name.startswith((stored.name, *_OURS))
    if is_ours or real.is_relative_to(home / BENCHMARKS):
        hint = "name another place, outside of these"
        raise InputError(Problem("this is a place of the workspace itself", place, hint=hint))


def write_file(place: Path, pieces: Iterable[str | bytes]) -> None:
    """Write to a place that a person named, as `write_named`. Raises `StoreError`."""
    with told_as_store_error(place):
        write_named(place, pieces)


def write_folder(place: Path, documents: Iterable[tuple[str, str | bytes]]) -> int:
    """Write each document to its path in the folder, and return their number. A new folder appears
    when it is complete; in an existing one, files are replaced one by one when all are complete,
    and no others are touched.

    Raises `StoreError`.
    """
    with told_as_store_error(place), closing(UnfinishedFolder(place)) as unfinished:
        for name, content in documents:
            unfinished.write(name, content)
        os.sync()  # once, as syncing each of thirty thousand files takes minutes
        # a new folder moves in one step; into an existing one, each file moves by itself
        if place.exists():
            for folder in {place, *(unfinished.move(name).parent for name in unfinished.names)}:
                sync(folder)
        else:
            unfinished.path.rename(place)
        sync(place.parent)
        return len(unfinished.names)


class UnfinishedFolder:
    """A hidden folder beside the one that is to be made or filled, so that nobody publishes it. It
    is in that folder itself if nothing can be moved there from beside."""

    def __init__(self, place: Path) -> None:
        """Make it, and remove what killed processes left. Raises `OSError`."""
        around = place.parent
        if place.exists() and not (
            os.access(around, os.W_OK) and around.stat().st_dev == place.stat().st_dev
        ):
            around = place
        for folder in (place.parent, place):
            remove_leftovers(folder, place.name)
        self.place = place
        self.path = around / f".{place.name}{UNFINISHED}{secrets.token_hex(4)}"
        self.path.mkdir()
        self.names: list[str] = []
        """The files that were written."""
        self._made = {self.path}
        # says that its process is alive, and ends with it
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def write(self, name: str, content: str | bytes) -> None:
        """Write one file, creating its folders. Raises `OSError`."""
        path = self.path / name
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.names.append(name)

    def move(self, name: str) -> Path:
        """Move a file to its place in the folder, replacing what is there. Raises `OSError`."""
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return (self.path / name).replace(path)

    def close(self) -> None:
        """Remove what was not moved."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def told_as_store_error(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise StoreError(
            f"{where} could not be written: {error.strerror}; check the space on the disk and who "
            "may write there"
        ) from error
