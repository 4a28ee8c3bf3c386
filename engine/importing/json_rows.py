"""Reads a JSON array row by row, a file of lines, and a single value, with the place of each fault.

A file is in memory as bytes, and one row of it at a time as values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.errors import InputError, Problem
from engine.store.codec import storable
from engine.store.json_file import kind_of, parse_json, refuse_constant

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BEFORE_ROW: Final = frozenset(b" \t\n\r[,")


@dataclass(frozen=True, slots=True)
class JsonRow:
    """A row of an array, and the line in which it begins, from 1."""

    index: int
    line: int
    value: object


_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)
_QUICK_DECODER: Final = msgspec.json.Decoder()
"""Takes a third of the time. What it accepts means the same to the other decoder, which handles the
rest, such as lone surrogates."""
_ROWS_DECODER: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_QUICK: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_rows(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the rows of the array in a file with these bytes.

    Raises `InputError` at the first fault; the rows before it are good.
    """
    rows: list[msgspec.Raw] = []
    with suppress(*_NOT_QUICK):
        rows = _ROWS_DECODER.decode(raw)
    at, line, given = 0, 1, 0
    for row in rows:
        begins = at
        while raw[begins] in _BEFORE_ROW:
            begins += 1
        line += raw.count(b"\n", at, begins)
        try:
            value = _QUICK_DECODER.decode(row)
        except _NOT_QUICK:
            break
        yield JsonRow(given, line, value)
        given += 1
        at = begins + len(row)
        line += raw.count(b"\n", begins, at)
    if not rows or given < len(rows):
        yield from (row for row in _slow_rows(path, raw) if row.index >= given)


def _slow_rows(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the rows of an array that has a fault, up to that, or a text that only Python's own
    decoder accepts."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = raw[: error.start].decode("utf-8-sig")
    at, line, counted = len(text) - len(text.lstrip()) + 1, 1, 0
    for index in count() if text.lstrip().startswith("[") else ():
        at = _after_space(text, at)
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        yield JsonRow(index, line, _storable(value))
        at = _after_space(text, at)
        if not text.startswith(",", at):
            break
        at += 1
    # raises at the first fault
    if not isinstance(value := parse_json(path, raw), list):
        what = f"expected a JSON array, [...], found {kind_of(value)}"
        raise InputError(Problem(what, path=path))


def _after_space(text: str, at: int) -> int:
    blank = _SPACE.match(text, at)
    return at if blank is None else blank.end()


def _storable(value: Any) -> Any:
    """Replace lone surrogates in every text: files may escape them, and no store holds them."""
    if isinstance(value, dict):
        return {storable(name): _storable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_storable(member) for member in value]
    return storable(value) if isinstance(value, str) else value


def read_lines(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the values of a file with one per line. Raises `InputError` as `read_rows` does."""
    for index, line in enumerate(raw.split(b"\n")):
        if not line.strip():
            continue
        try:
            value = read_object(path, line)
        except InputError as error:
            raise InputError([replace(one, line=index + 1) for one in error.problems]) from error
        yield JsonRow(index, index + 1, value)


def read_object(path: Path, raw: bytes) -> object:
    """Return the value of a file with these bytes. Raises `InputError`."""
    with suppress(*_NOT_QUICK):
        return _QUICK_DECODER.decode(raw)
    return _storable(parse_json(path, raw))
