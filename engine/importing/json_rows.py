"""Reads a JSON array row by row. A large file is never in memory as a whole; a small one is decoded
at once, which takes a third of the time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import msgspec

from engine.errors import InputError, Problem
from engine.files import open_regular

CHUNK: Final = 1 << 20
SMALL: Final = 8 << 20
"""Bytes of a file that is decoded at once."""
LONGEST_ROW: Final = 256 << 20
"""Characters of one row; a longer one is the content of some other file."""
_TOO_DEEP: Final = "values are nested deeper than can be read"

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NEAR_END: Final = 16
"""The most characters of a word or number that may be cut off at the end of the text so far."""
_KINDS: Final = {
    "{": "an object, {...}",
    '"': "a text",
    "-": "a number",
    "n": "null",
    "t": "true",
    "f": "false",
}
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

OnRead = Callable[[bytes], None]
"""Called with each piece of a file, in order, as it is read."""


class RowLines:
    """The line in which each row of a file begins. They are counted when one is asked for, since
    few rows have problems, and counting takes a third of the time of decoding."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[int] | None = None

    def of(self, index: int) -> int | None:
        """Return the line of a row, from 1; None if the file has changed since it was read."""
        if self._lines is None:
            self._lines = []
            with suppress(InputError, OSError), open_regular(self._path) as file:
                for line, _ in _ArrayReader(self._path, file, None).rows():
                    self._lines.append(line)
        return self._lines[index] if index < len(self._lines) else None


@dataclass(frozen=True, slots=True)
class JsonRow:
    """A row of an array, and the line in which it begins."""

    index: int
    line: int | RowLines
    value: object


class _NonFiniteError(ValueError):
    """The text has NaN or an infinity, which JSON does not."""


def _refuse(name: str) -> NoReturn:
    raise _NonFiniteError(f"{name} is not JSON; expected a number or null")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_QUICK_DECODER: Final = msgspec.json.Decoder()
"""Takes a third of the time. What it accepts means the same to the other decoder, which handles the
rest: it accepts lone surrogates, and describes errors."""


def read_rows(path: Path, on_read: OnRead | None = None) -> Iterator[JsonRow]:
    """Yield the rows of the array in a file, in order. `on_read` is called with its bytes.

    Raises `InputError` at the first fault; the rows before it are good.
    """
    try:
        with open_regular(path) as file:
            values = _small_array(file, on_read)
            if values is None:
                file.seek(0)
                for index, (line, value) in enumerate(_ArrayReader(path, file, on_read).rows()):
                    yield JsonRow(index, line, value)
                return
        lines = RowLines(path)
        for index, value in enumerate(values):
            yield JsonRow(index, lines, value)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def _small_array(file: BinaryIO, on_read: OnRead | None) -> list[object] | None:
    """Return the rows of a small file without a fault; None for any other file."""
    raw = file.read(SMALL + 1)
    values: object = None
    if len(raw) <= SMALL:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            values = _QUICK_DECODER.decode(raw)
    if not isinstance(values, list):
        return None
    if on_read is not None:
        on_read(raw)
    return values


@dataclass(slots=True)
class _ArrayReader:
    """An array that is read on demand. `at` is the position of the next value in `text`; the text
    before it is dropped with the next piece."""

    path: Path
    file: BinaryIO
    on_read: OnRead | None
    text: str = ""
    at: int = 0
    line: int = 1
    """The line number of `at` in the file, from 1."""
    bytes_read: int = 0
    ended: bool = False
    broken: str | None = None
    """Why nothing after `text` can be read."""
    decoder: codecs.IncrementalDecoder = field(
        default_factory=codecs.getincrementaldecoder("utf-8")
    )

    def rows(self) -> Iterator[tuple[int, object]]:
        """Yield the line in which each row begins, and the row."""
        self._begin()
        if self._next_character() == "]":
            return self._finish()
        for index in count():
            line = self.line
            yield line, self._value()
            follows = self._next_character()
            self.at += 1
            if follows == "]":
                self.at -= 1
                return self._finish()
            if follows != ",":
                self._fail(f"after row {index} expected ',' or ']', found {follows!r}")
            self._next_character()

    def _begin(self) -> None:
        while self.at == len(self.text) and not self.ended:
            self._read_more()
            self._skip_space()
        if self.at == len(self.text):
            self._fail("is empty; expected a JSON array, [...]")
        first = self._next_character()
        if first != "[":
            kind = _KINDS.get(first, "a number" if first.isdecimal() else f"{first!r}")
            self._fail(f"expected a JSON array, [...], found {kind}")
        self.at += 1

    def _finish(self) -> None:
        self.at += 1
        while True:
            self._skip_space()
            if self.at < len(self.text):
                self._fail("expected the end of the file after the array, found more")
            if self.ended:
                return
            self._read_more()

    def _next_character(self) -> str:
        """Return the next character that is not white space, without consuming it."""
        while True:
            self._skip_space()
            if self.at < len(self.text):
                return self.text[self.at]
            if self.ended:
                self._fail("the file ends in the middle of the array", cut_off=True)
            self._read_more()

    def _skip_space(self) -> None:
        blank = _SPACE.match(self.text, self.at)
        if blank is not None and blank.end() > self.at:
            self.line += self.text.count("\n", self.at, blank.end())
            self.at = blank.end()

    def _value(self) -> object:
        size = CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self.ended or not self._may_be_cut(error):
                    self._not_json(error)
                # the row is decoded again from its beginning: as pieces double, all attempts
                # together cost at most twice the last one
                self._read_more(size)
                size *= 2
            except _NonFiniteError as error:
                self._fail(str(error))
            except RecursionError:
                self._fail(_TOO_DEEP)
            except ValueError as error:  # an integer of thousands of digits
                self._fail(f"a number cannot be read: {error}")
            else:
                if end == len(self.text) and not self.ended:
                    self._read_more()  # a number may continue
                    continue
                self.line += self.text.count("\n", self.at, end)
                self.at = end
                return value

    # the decoder does not tell a wrong value from one whose end was not read yet
    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated") or error.pos >= len(self.text) - _NEAR_END

    def _not_json(self, error: json.JSONDecodeError) -> NoReturn:
        cut_off = self._may_be_cut(error)
        self.line += self.text.count("\n", self.at, error.pos)
        what = f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}"
        self._fail(what, cut_off=cut_off and self.ended)

    def _read_more(self, size: int = CHUNK) -> None:
        if len(self.text) - self.at > LONGEST_ROW:
            self._fail(f"a row has more than {LONGEST_ROW >> 20} million characters")
        if self.broken is not None:
            self.line += self.text.count("\n", self.at)
            self._fail(self.broken, hint="save the file as UTF-8")
        raw = self.file.read(size)
        self.ended = not raw
        if self.on_read is not None:
            self.on_read(raw)
        text = self._decode_chunk(raw if self.bytes_read else self._without_mark(raw))
        self.bytes_read += len(raw)
        self.text = self.text[self.at :] + text
        self.at = 0

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith(_UTF16) or b"\0" in raw[:4]:
            hint = "save the file as UTF-8"
            raise InputError(Problem("this is UTF-16, expected UTF-8", path=self.path, hint=hint))
        return raw.removeprefix(codecs.BOM_UTF8)

    def _decode_chunk(self, raw: bytes) -> str:
        """Decode a piece. The text before a wrong byte is still used."""
        try:
            return self.decoder.decode(raw, final=self.ended)
        except UnicodeDecodeError as error:
            if self.ended:
                self._fail("the file ends in the middle of a character", cut_off=True)
            self.broken = f"byte {error.object[error.start]:#04x} is not UTF-8"
            return bytes(error.object[: error.start]).decode()

    def _fail(self, what: str, *, cut_off: bool = False, hint: str | None = None) -> NoReturn:
        hint = "was the file cut off?" if cut_off else hint
        raise InputError(Problem(what, path=self.path, line=self.line, hint=hint))


def read_lines(path: Path, on_read: OnRead | None = None) -> Iterator[JsonRow]:
    """Yield the values of a file with one per line. Raises `InputError` as `read_rows` does."""
    try:
        with open_regular(path) as file:
            yield from _lines(path, file, on_read)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def _lines(path: Path, file: BinaryIO, on_read: OnRead | None) -> Iterator[JsonRow]:
    number = 0
    while raw := file.readline(LONGEST_ROW + 1):
        number += 1
        if len(raw) > LONGEST_ROW:
            what = f"this line has more than {LONGEST_ROW >> 20} MB"
            raise InputError(Problem(what, path, number))
        if on_read is not None:
            on_read(raw)
        if not raw.strip():
            continue
        row = _object_problem(raw, path)
        if isinstance(row, Problem):
            raise InputError(replace(row, line=number))
        yield JsonRow(number - 1, number, row[0])


def read_object(path: Path, pieces: Iterable[bytes], on_read: OnRead | None = None) -> object:
    """Return the value of a small file, given its pieces. Raises `InputError`."""
    try:
        raw = _read_whole(pieces)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error
    if on_read is not None:
        on_read(raw)
    problem = _object_problem(raw, path)
    if isinstance(problem, Problem):
        raise InputError(problem)
    return problem[0]


def _read_whole(pieces: Iterable[bytes]) -> bytes:
    """Join the pieces, or enough of them to exceed the limit."""
    read: list[bytes] = []
    left = LONGEST_ROW
    for piece in pieces:
        read.append(piece)
        left -= len(piece)
        if left < 0:
            break
    return b"".join(read)


def _object_problem(raw: bytes, path: Path) -> Problem | tuple[object]:
    """Return the value in a tuple, or why it cannot be read."""
    if len(raw) > LONGEST_ROW:
        return Problem(f"the file has more than {LONGEST_ROW >> 20} MB", path=path)
    if raw.startswith(_UTF16) or b"\0" in raw[:4]:
        return Problem("this is UTF-16, expected UTF-8", path, hint="save the file as UTF-8")
    if not raw.strip():
        return Problem("is empty; expected JSON", path)
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (_QUICK_DECODER.decode(raw),)
    try:
        value = _DECODER.decode(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        what = f"byte {raw[error.start]:#04x} is not UTF-8"
        line = raw.count(b"\n", 0, error.start) + 1
        return Problem(what, path, line, hint="save the file as UTF-8")
    except json.JSONDecodeError as error:
        what = f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}"
        cut_off = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        return Problem(what, path, error.lineno, hint="was the file cut off?" if cut_off else None)
    except RecursionError:
        return Problem(_TOO_DEEP, path)
    except ValueError as error:
        return Problem(str(error), path)
    return (value,)
