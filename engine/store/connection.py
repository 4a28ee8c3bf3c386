"""A connection that answers, shared by threads: each answer is whole and leaves no cursor open."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from engine.store.codec import UNREADABLE
from engine.store.header import damaged, unreadable
from engine.store.pages import PAGE

Parameter = str | int | float | None


class Connection:
    """Speaks SQL for a reader. A cursor left open would keep the writer's log from shrinking."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self.path = path
        # one class for each store, so that whoever cannot read a row can say where it lies
        self._row: type[sqlite3.Row] = type("StoredRow", (sqlite3.Row,), {"store": path})

    def all(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[sqlite3.Row]:
        with self._lock:
            try:
                cursor = self._connection.cursor()
                cursor.row_factory = self._row
                return cursor.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise unreadable(self.path, error) from error

    def first(self, sql: str, parameters: Sequence[Parameter] = ()) -> sqlite3.Row | None:
        return next(iter(self.all(sql, parameters)), None)

    def number(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        return int(self.all(sql, parameters)[0][0])

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        """What rows say is taken apart in the block; raises `StoreError` where that cannot be
        done."""
        try:
            yield
        except UNREADABLE:
            raise damaged(self.path, "a row cannot be read") from None

    @contextlib.contextmanager
    def one_moment(self) -> Iterator[None]:
        """Everything read in the block is of one moment. Keep it short."""
        with self._lock:
            self.all("BEGIN")
            try:
                yield
            finally:
                self.all("COMMIT")

    def move_to(self, other: Connection) -> None:
        """Answer from what `other` is connected to, which is not to be used any more."""
        with self._lock:
            self._connection.close()
            self._connection = other._connection

    def close(self) -> None:
        with self._lock:
            self._connection.close()


HEADER: Final = 32
_FRAME: Final = 24
_SALT: Final = 8
"""Where in a frame the number stands that is one higher each time when the log is begun anew."""
_MOST_AGES: Final = 1000
_MAGIC: Final = (0x377F0682, 0x377F0683)
_MOST_PAGES: Final = 1 << 24
_WORD: Final = 0xFFFFFFFF


def log_of(store: Path) -> Path:
    return store.with_name(store.name + "-wal")


def has_log(store: Path) -> bool:
    """Whether there is a log that holds something."""
    log = log_of(store)
    return log.is_file() and log.stat().st_size > 0


def log_fault(store: Path) -> str | None:
    """Why SQLite does not look into a log that holds something; None where it does."""
    log = log_of(store)
    if not log.exists():
        return None
    if not log.is_file():
        return f"{log.name} beside it is not a file"
    with log.open("rb") as file:
        header = file.read(HEADER)
    if not header or _is_sound(header):
        return None
    return f"the header of {log.name} is damaged, so that what was written last is not seen"


def _is_sound(header: bytes) -> bool:
    if len(header) < HEADER or not any(header):
        return len(header) < HEADER  # it was only just begun
    words = struct.unpack(">8I", header)
    order = ">" if words[0] & 1 else "<"
    first = second = 0
    for one, other in struct.iter_unpack(f"{order}2I", header[:_FRAME]):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return words[0] in _MAGIC and words[2] == PAGE and words[6:] == (first, second)


def fold_blindly(log: Path, pages: Path) -> None:
    """Write each page of a log to its place in a copy of the store, whatever the log's header and
    sums say: what is then read is looked at row by row."""
    with log.open("rb") as frames, pages.open("r+b") as file:
        # a log is begun anew over the old one, of which the end is left behind the new one's
        for age in sorted(set(_ages(frames)), reverse=True):
            for one in _ages(frames):
                frame = frames.read(_FRAME + PAGE)
                [number] = struct.unpack_from(">I", frame)
                if one == age and 1 <= number <= _MOST_PAGES:
                    file.seek((number - 1) * PAGE)
                    file.write(frame[_FRAME:])


def _ages(frames: BinaryIO) -> Iterator[int]:
    """Of each whole frame, before which the file stands then: how many times the log was begun anew
    since; 0 where that is not to be told."""
    count = (frames.seek(0, os.SEEK_END) - HEADER) // (_FRAME + PAGE)
    newest: int | None = None
    for place in range(count):
        frames.seek(HEADER + place * (_FRAME + PAGE))
        [salt] = struct.unpack_from(">I", frames.read(_FRAME), _SALT)
        frames.seek(-_FRAME, os.SEEK_CUR)
        newest = salt if newest is None else newest
        age = (newest - salt) & _WORD
        yield age if age < _MOST_AGES else 0
