"""Writes a file beside its place and moves it there in one step, so that no reader meets half."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import BinaryIO, Final

from engine.errors import InputError, Problem
from engine.files import open_regular
from engine.moments import Moment, reached

_CHUNK: Final = 1 << 20
_IN_A_LINE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_quoted: Final = json.encoder.encode_basestring


def sync_folder(folder: Path) -> None:
    """A file's new name is durable only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest_on_disk(path: Path) -> str | None:
    """None where there is no such file. Raises `InputError` where it cannot be read."""
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


class NewFile:
    """A file that is complete, but not in its place yet."""

    def __init__(self, place: Path, pieces: Iterable[str]) -> None:
        self.place = place
        self._temporary = place.with_name(f".{place.name}.tmp")
        self._temporary.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            with os.fdopen(os.open(self._temporary, flags, 0o666), "wb", _CHUNK) as file:
                reached(Moment.WRITING_FILE)
                self.digest = _written(file, pieces)
        except BaseException:
            self.discard()
            raise
        reached(Moment.WROTE_FILE)

    @property
    def path(self) -> Path:
        """Where it is while it is not in its place."""
        return self._temporary

    def move(self, place: Path) -> None:
        """Durably, in place of whatever is there."""
        descriptor = os.open(self._temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        reached(Moment.SYNCED_FILE)
        self._temporary.replace(place)
        reached(Moment.MOVED_FILE)
        sync_folder(place.parent)
        reached(Moment.SYNCED_FOLDER)

    def discard(self) -> None:
        """Where it was not moved."""
        self._temporary.unlink(missing_ok=True)


def _written(file: BinaryIO, pieces: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        content = piece.encode()
        digest.update(content)
        file.write(content)
    return digest.hexdigest()


def json_array(rows: Iterable[object]) -> Iterator[str]:
    """The text of a JSON array with indent 2, row by row; nothing at all for no rows."""
    before = "[\n  "
    for row in rows:
        yield before + _text(row, "\n  ")
        before = ",\n  "
    if before != "[\n  ":
        yield "\n]\n"


def json_value(value: object) -> Iterator[str]:
    yield _text(value) + "\n"


def json_object(value: Mapping[str, object]) -> Iterator[str]:
    """Nothing at all for an empty one."""
    if value:
        yield from json_value(value)


def json_lines(rows: Iterable[object]) -> Iterator[str]:
    """Each row in a line; nothing at all for no rows."""
    for row in rows:
        yield _IN_A_LINE.encode(row) + "\n"


def _text(value: object, newline: str = "\n") -> str:
    """With indent 2, as `json.dumps` writes it, in a third of the time."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict) and value:
        inner = newline + "  "
        members = [f"{_quoted(name)}: {_text(one, inner)}" for name, one in value.items()]
        return f"{{{inner}{f',{inner}'.join(members)}{newline}}}"
    if isinstance(value, list | tuple) and value:
        inner = newline + "  "
        return f"[{inner}{f',{inner}'.join(_text(one, inner) for one in value)}{newline}]"
    return _IN_A_LINE.encode(value)
