"""SQLite's log beside a store, where SQLite itself passes over it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from engine.store.pages import PAGE

HEADER: Final = 32
_FRAME: Final = 24
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
        frames.seek(HEADER)
        while len(frame := frames.read(_FRAME + PAGE)) == _FRAME + PAGE:
            [number] = struct.unpack_from(">I", frame)
            if 1 <= number <= _MOST_PAGES:
                file.seek((number - 1) * PAGE)
                file.write(frame[_FRAME:])
