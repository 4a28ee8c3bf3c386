"""Reads JSON files that others wrote, with the position of each fault, and writes ours."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final, NoReturn

from engine.errors import InputError, Problem
from engine.files import read_regular

SIZE_LIMIT: Final = 64 * 1024 * 1024
DEPTH_LIMIT: Final = 50

_IN_A_LINE: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_quoted: Final = json.encoder.encode_basestring
# possessive quantifiers (++, *+, of Python 3.11): without them a file of megabytes would take
# exponential time
_TO_A_NUMBER_OF_JAVASCRIPT = re.compile(r'(?:[^"NI]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Everything before a NaN or Infinity that is not within a string."""


class ParsedObject(dict[str, object]):
    """A JSON object that remembers which keys were given twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        times = Counter(name for name, _ in pairs) if len(pairs) > len(self) else Counter()
        self.doubled = sorted(name for name, count in times.items() if count > 1)


def read_json(path: Path) -> object:
    """Return the file's content, with objects as `ParsedObject`s. Raises `InputError`."""
    value = parse_json(path, _read(path), ParsedObject)
    if problem := next(_unstorable(value), None):
        raise InputError(Problem(problem, path=path))
    return value


def parse_json(
    path: Path,
    content: bytes,
    make_object: Callable[[list[tuple[str, object]]], object] | None = None,
) -> object:
    """Return the value that the bytes of a file hold. Raises `InputError` with the place of the
    first fault."""
    text = _decoded(path, content)
    hint, line, column = None, None, None
    try:
        value: object = json.loads(
            text, object_pairs_hook=make_object, parse_constant=refuse_constant
        )
        return value
    except json.JSONDecodeError as error:
        what, line, column = (
            f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}",
            error.lineno,
            error.colno,
        )
        # the decoder does not tell a wrong value from one that is cut off
        if error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()) - _NEAR_END:
            hint = "was the file cut off?"
    except NonFiniteError:
        what, line, column = _place_of_constant(text)
    except RecursionError:
        what = _TOO_DEEP
    except ValueError as error:  # an integer of thousands of digits
        what = f"a number cannot be read: {error}"
    raise InputError(Problem(what, path=path, line=line, column=column, hint=hint))


def _decoded(path: Path, content: bytes) -> str:
    if content.startswith(_UTF16) or b"\0" in content[:4]:
        raise InputError(Problem("this is UTF-16, expected UTF-8", path=path, hint=_SAVE))
    if not content.strip():
        raise InputError(Problem("is empty; expected JSON", path=path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte {content[error.start]:#04x} is not UTF-8"
        hint = _SAVE
        if error.end == len(content) and "unexpected end" in error.reason:
            what, hint = "the file ends in the middle of a character", "was the file cut off?"
        raise InputError(Problem(what, path=path, line=line, hint=hint)) from error


_TOO_DEEP: Final = f"values are nested more than {DEPTH_LIMIT} deep"
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SAVE: Final = "save the file as UTF-8"
_NEAR_END: Final = 16
"""The most characters of a word or number that may be cut off at the end of a text."""


class NonFiniteError(ValueError):
    """The text has NaN or an infinity, which JSON does not."""


def refuse_constant(name: str) -> NoReturn:
    """For `parse_constant` of Python's decoder."""
    raise NonFiniteError(name)


def _place_of_constant(text: str) -> tuple[str, int, int]:
    """Say what is wrong with the first NaN or infinity, and in which line and column it is."""
    passed = _TO_A_NUMBER_OF_JAVASCRIPT.match(text)
    at = passed.end() if passed is not None else 0
    word = "NaN" if text.startswith("NaN", at) else "Infinity"
    if text.endswith("-", 0, at):
        word, at = f"-{word}", at - 1
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"{word} is not JSON; expected a number or null", line, column


def _unstorable(value: object) -> Iterator[str]:
    """Yield what is valid JSON but cannot be stored: deep nesting and infinite numbers."""
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > DEPTH_LIMIT:
            yield _TOO_DEEP
            return
        # level by level, not recursively, as the depth is what is checked
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, float) and not isfinite(value):
                yield "a number is too large; expected one below 1e308"
        level = below


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            most = f"expected at most {SIZE_LIMIT // 1_048_576} MB"
            what = f"the file has {size / 1_048_576:.0f} MB; {most}"
            raise InputError(Problem(what, path=path))
        return read_regular(path)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error


def kind_of(value: object) -> str:
    """Name a value's type in JSON, together with the value if that is short."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value:g}" if abs(value) < 1e15 else "a number"
        case str():
            return f"the text {value!r}" if len(value) <= 30 else "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def json_array(rows: Iterable[object]) -> Iterator[str]:
    """Yield the text of a JSON array with indent 2, row by row; nothing for no rows."""
    before = "[\n  "
    for row in rows:
        yield before + _text(row, "\n  ")
        before = ",\n  "
    if before != "[\n  ":
        yield "\n]\n"


def json_value(value: object) -> Iterator[str]:
    """Yield the text of a JSON value with indent 2."""
    yield _text(value) + "\n"


def json_object(value: Mapping[str, object]) -> Iterator[str]:
    """As `json_value`, but nothing for an empty object."""
    if value:
        yield from json_value(value)


def json_lines(rows: Iterable[object]) -> Iterator[str]:
    """Yield each row as a line of JSON."""
    for row in rows:
        yield _IN_A_LINE.encode(row) + "\n"


def _text(value: object, newline: str = "\n") -> str:
    """As `json.dumps` with indent 2, in a third of its time."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict) and value:
        inner = newline + "  "
        members = [f"{_quoted(name)}: {_text(member, inner)}" for name, member in value.items()]
        return f"{{{inner}{f',{inner}'.join(members)}{newline}}}"
    if isinstance(value, list | tuple) and value:
        inner = newline + "  "
        return f"[{inner}{f',{inner}'.join(_text(member, inner) for member in value)}{newline}]"
    # numbers, literals, and empty objects and lists, which have nothing to indent
    return _IN_A_LINE.encode(value)
