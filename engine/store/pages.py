"""The rows of a store's pages one by one, past whatever leads to them.

Where a page that points to others is lost, SQLite finds none of those; their rows are still there.
What is read is as SQLite's file format has it: https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = 16384
"""Of every store, from its first day."""

_LEAF: Final = 0x0D
_HEADER: Final = 100
_LARGEST: Final = PAGE - 35
"""Bytes of a row that stand in its page; the rest of a longer one is in others."""
_LEAST: Final = (PAGE - 12) * 32 // 255 - 23
_LONGEST_ROW: Final = 1 << 28
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Bytes of a number, by how its kind is written."""

Values = Sequence[object]


def rows_in_pages(path: Path) -> Iterator[tuple[int, Values]]:
    """Each row of any table with its number; text is bytes. What cannot be read is passed over."""
    with path.open("rb") as file:
        pages = path.stat().st_size // PAGE

        def page(number: int) -> bytes:
            if not 1 <= number <= pages:
                raise ValueError("no such page")
            file.seek((number - 1) * PAGE)
            return file.read(PAGE)

        for number in range(1, pages + 1):
            content = page(number)
            start = _HEADER if number == 1 else 0
            if content[start] != _LEAF:
                continue
            [cells] = struct.unpack_from(">H", content, start + 3)
            for place in range(start + 8, min(start + 8 + 2 * cells, PAGE - 1), 2):
                [at] = struct.unpack_from(">H", content, place)
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
    if here > _LARGEST:
        here = _LEAST
    found = [content[at : at + here]]
    [following] = struct.unpack_from(">I", content, at + here)
    left = length - here
    while left > 0:
        more = page(following)
        [following] = struct.unpack_from(">I", more)
        found.append(more[4 : 4 + left])
        left -= PAGE - 4
    return b"".join(found)


def _values(record: bytes) -> Values:
    size, at = _varint(record, 0)
    kinds = []
    while at < size:
        kind, at = _varint(record, at)
        kinds.append(kind)
    found: list[object] = []
    for kind in kinds:
        value, at = _value(record, at, kind)
        found.append(value)
    if at != len(record):
        raise ValueError("a row of another length")
    return found


def _value(record: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind in {0, 8, 9}:
        return None if kind == 0 else kind - 8, at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(record[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", record, at)[0], at + 8
    end = at + (kind - 12) // 2
    if kind < 12 or end > len(record):
        raise ValueError("no such kind of value")
    return record[at:end], end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(at, at + 8):
        found = found << 7 | content[place] & 0x7F
        if content[place] < 0x80:
            return found, place + 1
    found = found << 8 | content[at + 8]
    return found - (1 << 64) if found >> 63 else found, at + 9
