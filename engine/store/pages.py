"""Reads a store's pages and its write-ahead log without SQLite, by SQLite's file format.

If an inner page is lost, SQLite finds none of the pages below it, although their rows are intact.
The format: https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

PAGE: Final = 16384
"""The page size in bytes of every store, since the first version."""

# a leaf of a table, and the header of a file: section 1.3, "The Database Header", and 1.6 of
# https://sqlite.org/fileformat2.html
_LEAF: Final = 0x0D
_HEADER: Final = 100
# U-35 and ((U-12)*32/255)-23 are the format's own, from section 1.6, "B-tree Pages", of the page
# above; U is the page size, as no page here has reserved bytes
_LARGEST: Final = PAGE - 35
"""Bytes of a row up to which all of it is in its leaf page; the rest of a longer one overflows."""
_LEAST: Final = (PAGE - 12) * 32 // 255 - 23
# a damaged length must not gather the pages of the whole file
_LONGEST_ROW: Final = 1 << 28
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Bytes of an integer, by its serial type."""


def rows_in_pages(path: Path) -> Iterator[tuple[int, Sequence[object]]]:
    """Yield each row of any table with its `seq`; text is bytes. Unreadable cells are skipped."""
    with path.open("rb") as file:
        pages = path.stat().st_size // PAGE

        def page(number: int) -> bytes:
            if not 1 <= number <= pages:
                raise ValueError("no such page")
            file.seek((number - 1) * PAGE)
            return file.read(PAGE)

        for number in range(1, pages + 1):
            content = page(number)
            # the first page begins with the file's header of 100 bytes, but its cells count from
            # the page's start
            start = _HEADER if number == 1 else 0
            if content[start] != _LEAF:
                continue
            [cells] = struct.unpack_from(">H", content, start + 3)
            # a damaged cell count must not lead beyond the page
            for place in range(start + 8, min(start + 8 + 2 * cells, PAGE - 1), 2):
                [at] = struct.unpack_from(">H", content, place)
                # https://sqlite.org/fileformat2.html#b_tree_pages: length, rowid, record
                try:
                    length, at = _varint(content, at)
                    seq, at = _varint(content, at)
                    yield seq, _values(_payload(content, at, length, page))
                except (ValueError, IndexError, struct.error):
                    continue


def _payload(content: bytes, at: int, length: int, page: Callable[[int], bytes]) -> bytes:
    if not 0 < length <= _LONGEST_ROW:
        raise ValueError("no row is so long")
    if length <= _LARGEST:
        return content[at : at + length]
    here = _LEAST + (length - _LEAST) % (PAGE - 4)
    # SQLite splits a long row so that its overflow fills whole pages, or keeps the least here if
    # that leaves too much for this page
    if here > _LARGEST:
        here = _LEAST
    parts = [content[at : at + here]]
    [following] = struct.unpack_from(">I", content, at + here)
    left = length - here
    while left > 0:
        more = page(following)
        [following] = struct.unpack_from(">I", more)
        parts.append(more[4 : 4 + left])
        left -= PAGE - 4
    return b"".join(parts)


def _values(record: bytes) -> Sequence[object]:
    kinds, at = _serial_types(record)
    values: list[object] = []
    for kind in kinds:
        value, at = _value(record, at, kind)
        values.append(value)
    return values


def _serial_types(record: bytes) -> tuple[Sequence[int], int]:
    """Return the serial type of each value, and the offset of the first value.

    The offset is also the first byte of a record (no table of ours has so many columns that it
    takes two). It is derived from the types instead: with each type read, header and values get
    longer, so they add up to the record's length exactly once. A damaged byte then costs no row.
    """
    kinds, at, values = [], 1, 0
    while at + values < len(record):
        kind, at = _varint(record, at)
        kinds.append(kind)
        values += _size(kind)
    if at + values != len(record):
        raise ValueError("a row of another length")
    return kinds, at


def _size(kind: int) -> int:
    # 0 is NULL, 8 and 9 are the integers 0 and 1 without any bytes (section 2.1, "Record Format")
    if kind in {0, 8, 9}:
        return 0
    if kind == 7:
        return 8
    if kind < 12 and kind not in _INTEGERS:
        raise ValueError("no such kind of value")
    # from 12 on, even types are blobs and odd ones text, of (kind - 12) // 2 bytes
    return _INTEGERS.get(kind) or (kind - 12) // 2


def _value(record: bytes, at: int, kind: int) -> tuple[object, int]:
    end = at + _size(kind)
    if kind in {0, 8, 9}:
        return None if kind == 0 else kind - 8, end
    if kind in _INTEGERS:
        return int.from_bytes(record[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", record, at)[0], end
    return record[at:end], end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | content[place] & 0x7F
        if content[place] < 0x80:
            return value, place + 1
    # the ninth byte of a varint has eight bits of value, and the number is signed
    value = value << 8 | content[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


LOG_HEADER: Final = 32
_FRAME: Final = 24
_SALT: Final = 8
"""Offset in a frame of the salt, which rises by one each time the log is restarted."""
# the end of an old log hardly survives so many restarts: a salt so far off is damaged
_MOST_AGES: Final = 1000
# the last bit is the byte order of the checksummed words: 82 little-endian, 83 big-endian
# (section 4.1, "WAL File Format")
_MAGIC: Final = (0x377F0682, 0x377F0683)
# 256 GB: a damaged number must not make a file of terabytes
_MOST_PAGES: Final = 1 << 24
# the checksums and salts of a log are numbers of 32 bits, which overflow
_WORD: Final = 0xFFFFFFFF


def log_of(store: Path) -> Path:
    """Return the path of the store's write-ahead log."""
    return store.with_name(store.name + "-wal")


def has_log(store: Path) -> bool:
    """Whether there is a log that is not empty."""
    log = log_of(store)
    return log.is_file() and log.stat().st_size > 0


def log_fault(store: Path) -> str | None:
    """Say why SQLite ignores a log that is not empty; None if it does not ignore it."""
    log = log_of(store)
    if not log.exists():
        return None
    if not log.is_file():
        return f"{log.name} beside it is not a file"
    with log.open("rb") as file:
        header = file.read(LOG_HEADER)
    if not header or _is_sound(header):
        return None
    return f"the header of {log.name} is damaged, so that what was written last is not seen"


def _is_sound(header: bytes) -> bool:
    if len(header) < LOG_HEADER or not any(header):
        return len(header) < LOG_HEADER  # it was only just created
    words = struct.unpack(">8I", header)
    # the header is always big-endian; only the checksummed words follow the bit
    order = ">" if words[0] & 1 else "<"
    first = second = 0
    for one, other in struct.iter_unpack(f"{order}2I", header[:_FRAME]):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return words[0] in _MAGIC and words[2] == PAGE and words[6:] == (first, second)


def fold_blindly(log: Path, pages: Path) -> None:
    """Write each page of a log to its place in a copy of the store, ignoring the log's header and
    checksums: the rows that are then read are checked one by one."""
    with log.open("rb") as frames, pages.open("r+b") as file:
        # a restarted log overwrites the old one, whose end remains behind the new frames
        for age in sorted(set(_frame_generations(frames)), reverse=True):
            for frame_generation in _frame_generations(frames):
                frame = frames.read(_FRAME + PAGE)
                [number] = struct.unpack_from(">I", frame)
                if frame_generation == age and 1 <= number <= _MOST_PAGES:
                    file.seek((number - 1) * PAGE)
                    file.write(frame[_FRAME:])


def _frame_generations(frames: BinaryIO) -> Iterator[int]:
    """Yield for each complete frame how many times the log was restarted since; 0 if unknown. The
    file is then positioned at that frame."""
    count = (frames.seek(0, os.SEEK_END) - LOG_HEADER) // (_FRAME + PAGE)
    newest: int | None = None
    for place in range(count):
        frames.seek(LOG_HEADER + place * (_FRAME + PAGE))
        [salt] = struct.unpack_from(">I", frames.read(_FRAME), _SALT)
        frames.seek(-_FRAME, os.SEEK_CUR)
        # the first frame is of the newest age, as a restarted log is written from its start
        newest = salt if newest is None else newest
        age = (newest - salt) & _WORD
        yield age if age < _MOST_AGES else 0
