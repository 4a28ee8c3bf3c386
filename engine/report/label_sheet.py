"""A sample as a CSV sheet to fill in elsewhere: what the evaluator sees, and empty cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from engine.benchmark import Speaker
from engine.errors import InputError, Problem
from engine.files import decoded_text, open_regular
from engine.report.conversation import cell, csv_line
from engine.store.tables import MessageRow

GIVEN: Final = ("answer", "replies", "confidence", "note")
"""The columns that a person fills in."""
COLUMNS: Final = ("sample", "number", "definition", "transcript", *GIVEN)
# 50 kB for each conversation of the largest sample
_MOST_BYTES: Final = 1 << 28
# the module `csv` refuses more than 128 kB in a cell, and long transcripts have more
_LONGEST_CELL: Final = 1 << 24
_DELIMITERS: Final = ",;\t|"
_NEEDED: Final = ("sample", "number", "answer")
_LOOKED_AT: Final = 20
"""Lines in which the columns' names are looked for."""


@dataclass(frozen=True, slots=True)
class LabelSheetRow:
    """One row of a filled-in sheet."""

    line: int
    """The line of the file on which it begins, 1-based."""
    sample: str
    number: str
    answer: str
    replies: str
    confidence: str
    note: str


def sheet_lines(
    sample: int, items: Iterable[tuple[int, str, Sequence[MessageRow]]]
) -> Iterator[str]:
    """The header, and a row for each number with its definition and messages."""
    yield csv_line(COLUMNS)
    for number, definition, messages in items:
        transcript = "\n\n".join(
            f"[{row.turn}] {'ASSISTANT' if row.speaker is Speaker.TARGET else 'USER'}: {row.text}"
            for row in messages
        )
        yield csv_line(
            [str(sample), str(number), cell(definition), cell(transcript), "", "", "", ""]
        )


def read_sheet(path: Path) -> list[LabelSheetRow]:
    """The rows with an answer. Raises `InputError`."""
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error
    if len(content) > _MOST_BYTES:
        raise InputError(Problem(f"is larger than {_MOST_BYTES >> 20} MB", path))
    lines = io.StringIO(_decode_sheet(content, path), newline=None)
    csv.field_size_limit(_LONGEST_CELL)
    head = _head(lines, path)
    reader = csv.DictReader(lines, head.names, delimiter=head.delimiter)
    try:
        return [row for row in _rows(reader, head) if row.answer]
    except csv.Error as error:
        line = head.line + reader.line_num
        raise InputError(Problem(f"is no table: {error}", path, line)) from error


@dataclass(frozen=True, slots=True)
class _Head:
    """The row with the columns' names."""

    line: int
    """1-based."""
    delimiter: str
    names: Sequence[str]


def _head(lines: Iterable[str], path: Path) -> _Head:
    """Find the row with the columns' names, which a title or the delimiter may precede, and leave
    `lines` behind it. Raises `InputError`."""
    for number, line in enumerate(islice(lines, _LOOKED_AT), 1):
        for delimiter in _DELIMITERS:
            names = [name.strip(' "\r\n').casefold() for name in line.split(delimiter)]
            if set(_NEEDED) <= set(names):
                return _Head(number, delimiter, names)
    what = f"has no row with the columns {', '.join(_NEEDED)} at its beginning"
    raise InputError(Problem(what, path, 1, hint=f"expected {', '.join(COLUMNS)}"))


def _rows(reader: csv.DictReader[str], head: _Head) -> Iterator[LabelSheetRow]:
    begins = head.line + 1
    for row in reader:
        cells = {name: _cell(row.get(name)) for name in COLUMNS}
        marked = cells["replies"].replace(",", " ").replace(";", " ").split()
        yield LabelSheetRow(
            line=begins,
            sample=_whole(cells["sample"]),
            number=_whole(cells["number"]),
            answer=_whole(cells["answer"]),
            replies=" ".join(map(_whole, marked)),
            confidence=_whole(cells["confidence"]),
            note=cells["note"],
        )
        begins = head.line + reader.line_num + 1


def _cell(text: str | None) -> str:
    """Without what programs for tables write into an empty cell."""
    text = (text or "").strip()
    return "" if text.casefold() in _EMPTY else text


_EMPTY: Final = frozenset({"nan", "<na>", "none", "null", "nat"})


def _whole(text: str) -> str:
    """A whole number without the decimals that programs for tables add to it."""
    whole, point, decimals = text.partition(".")
    return whole if point and whole.isdecimal() and not decimals.strip("0") else text


def _decode_sheet(content: bytes, path: Path) -> str:
    """The text, from UTF-8, or from UTF-16 with a byte order mark, as spreadsheets write it."""
    try:
        text = decoded_text(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        hint = "save it as CSV UTF-8"
        raise InputError(Problem("is not UTF-8 from here on", path, line, hint=hint)) from error
    if "\0" in text:  # UTF-16 without a byte order mark
        raise InputError(Problem("is not UTF-8", path, hint="save it as CSV UTF-8"))
    return text
