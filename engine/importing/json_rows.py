"""Reads a JSON array row by row, a file of lines, and a single value, with the place of each fault.

A file is in memory as bytes, and one row of it at a time as values.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from engine.errors import InputError, Problem
from engine.store.codec import storable

_TOO_DEEP: Final = "values are nested deeper than can be read"
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BEFORE_ROW: Final = frozenset(b" \t\n\r[,")
_KINDS: Final = {
    "{": "an object, {...}",
    '"': "a text",
    "-": "a number",
    "n": "null",
    "t": "true",
    "f": "false",
}
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAVE: Final = "save the file as UTF-8"
_NEAR_END: Final = 16
"""The most characters of a word or number that may be cut off at the end of a text."""
_CUT_OFF: Final = "was the file cut off?"


@dataclass(frozen=True, slots=True)
class JsonRow:
    """A row of an array, and the line in which it begins, from 1."""

    index: int
    line: int
    value: object


class _NonFiniteError(ValueError):
    """The text has NaN or an infinity, which JSON does not."""


def _refuse(name: str) -> NoReturn:
    raise _NonFiniteError(f"{name} is not JSON; expected a number or null")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_QUICK_DECODER: Final = msgspec.json.Decoder()
"""Takes a third of the time. What it accepts means the same to the other decoder, which handles the
rest: it accepts lone surrogates, and describes errors."""
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
        yield from (row for row in _SlowRows(path, raw).rows() if row.index >= given)


class _SlowRows:
    """The rows of an array that has a fault, or a text that only Python's own decoder accepts."""

    def __init__(self, path: Path, raw: bytes) -> None:
        _refuse_utf16(path, raw)
        self._path = path
        self._broken: tuple[str, str] | None = None
        """What is wrong with the bytes after `_text`, and a hint."""
        try:
            self._text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._text = raw[: error.start].decode("utf-8-sig")
            self._broken = (f"byte {raw[error.start]:#04x} is not UTF-8", _SAVE)
            if error.end == len(raw) and "unexpected end" in error.reason:
                self._broken = ("the file ends in the middle of a character", _CUT_OFF)
        self._at = 0
        """The position of the next value in the text."""

    def rows(self) -> Iterator[JsonRow]:
        self._begin()
        line, counted = 1, 0
        for index in count():
            if self._next_character() == "]" and index == 0:
                break
            line += self._text.count("\n", counted, self._at)
            counted = self._at
            yield JsonRow(index, line, self._value())
            follows = self._next_character()
            if follows == "]":
                break
            if follows != ",":
                self._fail(f"after row {index} expected ',' or ']', found {follows!r}")
            self._at += 1
        self._at += 1
        if self._skip_space() < len(self._text) or self._broken is not None:
            self._fail("expected the end of the file after the array, found more", ends=True)

    def _begin(self) -> None:
        if self._skip_space() == len(self._text):
            self._fail("is empty; expected a JSON array, [...]", ends=True)
        if (first := self._text[self._at]) != "[":
            kind = _KINDS.get(first, "a number" if first.isdecimal() else f"{first!r}")
            self._fail(f"expected a JSON array, [...], found {kind}")
        self._at += 1

    def _skip_space(self) -> int:
        blank = _SPACE.match(self._text, self._at)
        self._at = self._at if blank is None else blank.end()
        return self._at

    def _next_character(self) -> str:
        """Return the next character that is not white space, without consuming it."""
        if self._skip_space() == len(self._text):
            self._fail("the file ends in the middle of the array", hint=_CUT_OFF, ends=True)
        return self._text[self._at]

    def _value(self) -> object:
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
            return _storable(value)
        except json.JSONDecodeError as error:
            ends = _may_be_cut(error)
            self._at = error.pos
            self._fail(_not_json(error), hint=_CUT_OFF if ends else None, ends=ends)
        except _NonFiniteError as error:
            self._fail(str(error))
        except RecursionError:
            self._fail(_TOO_DEEP)
        except ValueError as error:  # an integer of thousands of digits
            self._fail(f"a number cannot be read: {error}")

    def _fail(self, what: str, *, hint: str | None = None, ends: bool = False) -> NoReturn:
        """Raise, with the fault of the bytes if the text `ends` before them."""
        if self._broken is not None and ends:
            self._at = len(self._text)
            what, hint = self._broken
        line = self._text.count("\n", 0, self._at) + 1
        raise InputError(Problem(what, path=self._path, line=line, hint=hint))


def _storable(value: Any) -> Any:
    """Replace lone surrogates in every text: files may escape them, and no store holds them."""
    if isinstance(value, dict):
        return {storable(name): _storable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_storable(member) for member in value]
    return storable(value) if isinstance(value, str) else value


# the decoder does not tell a wrong value from one that is cut off
def _may_be_cut(error: json.JSONDecodeError) -> bool:
    return error.msg.startswith("Unterminated") or error.pos >= len(error.doc) - _NEAR_END


def _not_json(error: json.JSONDecodeError) -> str:
    return f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}"


def _refuse_utf16(path: Path, raw: bytes) -> None:
    if raw.startswith(_UTF16) or b"\0" in raw[:4]:
        raise InputError(Problem("this is UTF-16, expected UTF-8", path=path, hint=_SAVE))


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
    _refuse_utf16(path, raw)
    if not raw.strip():
        raise InputError(Problem("is empty; expected JSON", path))
    hint, line = None, None
    try:
        return _storable(_DECODER.decode(raw.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        what = f"byte {raw[error.start]:#04x} is not UTF-8"
        line, hint = raw.count(b"\n", 0, error.start) + 1, _SAVE
    except json.JSONDecodeError as error:
        what, line = _not_json(error), error.lineno
        hint = _CUT_OFF if _may_be_cut(error) else None
    except RecursionError:
        what = _TOO_DEEP
    except ValueError as error:
        what = str(error)
    raise InputError(Problem(what, path, line, hint=hint))
