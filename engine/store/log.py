"""SQLite's log beside a store, where SQLite itself passes over it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from engine.store.pages import PAGE

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
