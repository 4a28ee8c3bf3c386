"""A sample as a sheet to fill in elsewhere: what the evaluator sees, and empty cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from engine.benchmark import Speaker
from engine.errors import InputError, Problem
from engine.files import decoded_text, open_regular
from engine.report.conversation import cell, csv_line
from engine.store.migrations import Format, rows_from_file
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

    row: int
    """As a program for tables counts them, 1-based."""
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
    """The rows with an answer, of a table of cells or of JSON. Raises `InputError`."""
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error
    if len(content) > _MOST_BYTES:
        raise InputError(Problem(f"is larger than {_MOST_BYTES >> 20} MB", path))
    text = _decode_sheet(content, path)
    rows = _json_rows if text.lstrip()[:1] in {"[", "{"} else _cell_rows
    return [row for row in rows(text, path) if row.answer]


def _json_rows(text: str, path: Path) -> Iterator[LabelSheetRow]:
    """Of a list of objects, or of one object a line."""
    text = text.strip()
    form = Format.JSON if text.startswith("[") else Format.NL
    try:
        rows: list[object] = list(rows_from_file(io.BytesIO(text.encode()), form)[0])
    except ValueError as error:  # numbers of thousands of digits, too
        raise InputError(Problem(f"is no JSON: {error}", path)) from error
    except RecursionError as error:
        raise InputError(Problem("is nested too deeply for a table", path)) from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not set(_NEEDED) <= row.keys():
            what = f"row {number}: expected an object with {', '.join(_NEEDED)}"
            raise InputError(Problem(what, path))
        yield _sheet_row(number, row)


def _cell_rows(text: str, path: Path) -> Iterator[LabelSheetRow]:
    lines = io.StringIO(text, newline=None)
    first, header, delimiter = _head(lines, path)
    table = io.BytesIO((header + lines.read()).encode())
    dialect = type("Table", (csv.excel,), {"delimiter": delimiter, "skipinitialspace": True})
    csv.field_size_limit(_LONGEST_CELL)
    rows, _ = rows_from_file(table, Format.CSV, dialect=dialect, ignore_extras=True)
    number = first
    try:
        for number, row in enumerate(rows, first + 1):
            yield _sheet_row(
                number, {str(name).strip().casefold(): cell for name, cell in row.items()}
            )
    except csv.Error as error:
        what = f"is no table after row {number}: {error}"
        raise InputError(Problem(what, path)) from error


def _head(lines: Iterable[str], path: Path) -> tuple[int, str, str]:
    """The number (1-based), the text and the delimiter of the row with the columns' names, which a
    title or the delimiter may precede. Leaves `lines` behind it. Raises `InputError`."""
    for number, line in enumerate(islice(lines, _LOOKED_AT), 1):
        for delimiter in _DELIMITERS:
            names = [name.strip(' "\r\n').casefold() for name in line.split(delimiter)]
            if set(_NEEDED) <= set(names):
                return number, line, delimiter
    what = f"has no row with the columns {', '.join(_NEEDED)} at its beginning"
    raise InputError(Problem(what, path, 1, hint=f"expected {', '.join(COLUMNS)}"))


def _sheet_row(number: int, row: Mapping[str, object]) -> LabelSheetRow:
    cells = {name: _cell(row.get(name)) for name in COLUMNS}
    marked = cells["replies"].replace(",", " ").replace(";", " ").split()
    return LabelSheetRow(
        row=number,
        sample=_whole(cells["sample"]),
        number=_whole(cells["number"]),
        answer=_whole(cells["answer"]),
        replies=" ".join(map(_whole, marked)),
        confidence=_whole(cells["confidence"]),
        note=cells["note"],
    )


def _cell(value: object) -> str:
    """Without what programs for tables write into an empty cell."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    text = "" if value is None else str(value).strip()
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
