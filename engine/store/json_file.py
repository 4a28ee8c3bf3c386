"""Reads JSON files that others wrote, with the position of each fault, and writes ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final

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
    text = _read(path)
    try:
        value: object = json.loads(text, object_pairs_hook=ParsedObject, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        what = f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}"
        cut_off = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        hint = "was the file cut off?" if cut_off else None
        raise InputError(
            Problem(what, path=path, line=error.lineno, column=error.colno, hint=hint)
        ) from error
    except _NonFiniteError as error:
        raise InputError(_not_a_number(path, text)) from error
    except RecursionError as error:
        raise InputError(Problem(_TOO_DEEP, path=path)) from error
    except ValueError as error:  # an integer of thousands of digits
        raise InputError(Problem(f"a number cannot be read: {error}", path=path)) from error
    if problem := next(_unstorable(value), None):
        raise InputError(Problem(problem, path=path))
    return value


_TOO_DEEP: Final = f"values are nested more than {DEPTH_LIMIT} deep"


class _NonFiniteError(Exception):
    """The text has NaN or an infinity, which JSON does not."""


def _refuse(_: str) -> object:
    raise _NonFiniteError


def _not_a_number(path: Path, text: str) -> Problem:
    passed = _TO_A_NUMBER_OF_JAVASCRIPT.match(text)
    at = passed.end() if passed is not None else 0
    word = "NaN" if text.startswith("NaN", at) else "Infinity"
    if text.endswith("-", 0, at):
        word, at = f"-{word}", at - 1
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    what = f"{word} is not JSON; expected a number or null"
    return Problem(what, path=path, line=line, column=column)


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


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            raise InputError(
                Problem(
                    f"the file has {size / 1_048_576:.0f} MB; expected at most "
                    f"{SIZE_LIMIT // 1_048_576} MB",
                    path=path,
                )
            )
        content = read_regular(path)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            Problem(
                f"byte {content[error.start]:#04x} is not UTF-8",
                path=path,
                line=line,
                hint="save the file as UTF-8",
            )
        ) from error


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
