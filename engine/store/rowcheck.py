"""Checks the columns of rows against what each table can hold, to find damaged rows.

A number or a remark that is not essential to its row can be corrected or made unknown; a row whose
essential columns cannot be read is unusable.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final, cast, get_args, get_origin, get_type_hints

from engine.benchmark import MOST_TOKENS, MOST_USD
from engine.identity import digest_of
from engine.store.codec import FieldColumn, columns, without_none
from engine.store.connection import Connection
from engine.store.tables import TABLES, RareFlag, ReviewItem, ReviewKind

ColumnCheck = Callable[[object], object]
"""Returns the value as it is to be stored; raises `ValueError` if that makes the row unusable."""

_LAST_MOMENT: Final = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970."""
_MOST: Final = 10**9
"""An upper limit of any number of tokens, milliseconds or rows."""
_SOURCES: Final = frozenset({"model", "file", "human"})


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("no text")


def _text(value: object) -> str:
    # raises UnicodeDecodeError, which is a ValueError
    return _bytes(value).decode()


def _remark(value: object) -> str:
    """Text that is only shown to people: a wrong letter in it is better than none of it."""
    return _bytes(value).decode(errors="replace")


def _check_number(value: object, least: int = 0, most: int = _MOST) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError("out of range")
    return value


def _amount(value: object) -> float:
    if not isinstance(value, float) or not 0 <= value <= MOST_USD:
        raise ValueError("out of range")
    return value


def _or_nothing(value: object, check: ColumnCheck) -> object:
    """NULL, or what the check returns."""
    return None if value is None else check(value)


def _if_possible(value: object, check: ColumnCheck, otherwise: object = None) -> object:
    """What the check returns; `otherwise` for NULL or a value that fails it."""
    try:
        return otherwise if value is None else check(value)
    except (ValueError, RecursionError):
        return otherwise


def _check_word(value: object, words: type[StrEnum]) -> str:
    return words(_text(value)).value


def _source(value: object) -> str:
    source = _text(value)
    if source not in _SOURCES:
        raise ValueError("unknown source")
    return source


def _json(value: object, fits: Callable[[object], bool]) -> str:
    text = _text(value)
    if not fits(json.loads(text)):
        raise ValueError("another shape")
    return text


def _shape(hint: Any) -> Callable[[object], bool]:
    """Return a test whether a value from JSON is of this type. A dataclass is an object with all
    its fields; others beside them are left alone."""
    if (needed := without_none(hint)) is not hint:
        of_needed = _shape(needed)
        return lambda value: value is None or of_needed(value)
    kind: Any = get_origin(hint) or hint
    if kind is tuple:
        of_item = _shape(get_args(hint)[0])
        return lambda value: isinstance(value, list) and all(map(of_item, value))
    if kind in {dict, Mapping}:
        of_text = get_args(hint)[1] is str
        return lambda value: (
            isinstance(value, dict)
            and (not of_text or all(isinstance(member, str) for member in value.values()))
        )
    if is_dataclass(kind):
        members = {
            name: _shape(_NARROWER.get((kind, name), of))
            for name, of in get_type_hints(kind).items()
        }
        return lambda value: (
            isinstance(value, dict)
            and all(name in value and fits(value[name]) for name, fits in members.items())
        )
    if issubclass(kind, StrEnum):
        return tuple(kind).__contains__
    if kind is float:  # the only ones in JSON are probabilities
        return lambda value: type(value) in {int, float} and 0 < cast("float", value) <= 1
    return lambda value: type(value) is kind  # exactly, as a boolean is no number


_NARROWER: Final[Mapping[tuple[Any, str], Any]] = {(ReviewItem, "kind"): ReviewKind}
"""The types of fields that are declared wider than what is stored in them."""


def _as_it_is(value: object) -> object:
    return value


def _check_any(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


_TEXT_IF_POSSIBLE: Final = partial(_if_possible, check=_text)
_NUMBER_IF_POSSIBLE: Final = partial(_if_possible, check=_check_number, otherwise=0)
_MAYBE_REMARK: Final = partial(_or_nothing, check=_remark)
_FLAG: Final = partial(_check_number, most=1)
_AT: Final = partial(_if_possible, check=partial(_check_number, most=_LAST_MOMENT), otherwise=0)
_REFERENCE: Final = partial(_check_number, most=1 << 62)

_BY_TYPE: Final[Mapping[Any, ColumnCheck]] = {
    str: _check_any,  # `_BY_NAME` is stricter for some columns
    int: _check_number,
    int | None: partial(_if_possible, check=_check_number),
    float: _amount,
    float | None: _check_any,
    bool: _FLAG,
    RareFlag: partial(_if_possible, check=_FLAG),
    bytes | None: _as_it_is,
    str | None: partial(_or_nothing, check=_text),
}
"""The check of a column by the type of its field; enumerations and JSON are left to `_check`."""

_BY_NAME: Final[Mapping[str, ColumnCheck]] = {
    "seq": _REFERENCE,
    "at": _AT,
    "take": _REFERENCE,
    "scenario": partial(_or_nothing, check=_REFERENCE),
    "turn": partial(_check_number, least=1),
    "source": _source,
    "served_by": _TEXT_IF_POSSIBLE,
    "served": _TEXT_IF_POSSIBLE,
    "route": _TEXT_IF_POSSIBLE,
    "label_sample": partial(_if_possible, check=_REFERENCE),
    "stratum": _TEXT_IF_POSSIBLE,
    "reason": _MAYBE_REMARK,
    "detail": _MAYBE_REMARK,
    "version": _remark,
    "host": _remark,
    "pid": _NUMBER_IF_POSSIBLE,
    "duration_ms": _NUMBER_IF_POSSIBLE,
    "config": partial(_json, fits=_shape(Mapping[str, object])),
    **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), _check_any),
}
"""The checks of columns that are stricter or more lenient than their types. The amounts that calls
used are left to `plausible`."""


@cache
def _checks(table: str) -> Mapping[str, ColumnCheck]:
    checks = {column.name: _check(column) for column in columns(TABLES[table])}
    return checks | {"text": _remark} if table == "note" else checks


def _check(column: FieldColumn) -> ColumnCheck:
    if known := _BY_NAME.get(column.name) or _BY_TYPE.get(column.hint):
        return known
    kind = without_none(column.hint)
    if get_origin(kind) in {tuple, Mapping}:
        shaped = partial(_json, fits=_shape(kind))
        return shaped if kind is column.hint else partial(_if_possible, check=shaped)
    check = partial(_check_word, words=kind) if issubclass(kind, StrEnum) else _BY_TYPE[kind]
    return check if kind is column.hint else partial(_or_nothing, check=check)


_REMARKS: Final = {
    "message": ("thought", "landmark", "reasoning"),
    "verdict": ("justification", "unscored"),
}
"""Columns that may be lost if no file has them either."""

ColumnValues = dict[str, object]


def mended_row(
    table: str, values: Mapping[str, object], *, nothing_else: bool = False
) -> ColumnValues | None:
    """Return a row with its text decoded and its correctable columns corrected; None if unusable.

    In `values` text is bytes. `nothing_else` says that no file has the row, so that it is kept even
    if a remark in it cannot be read.
    """
    checks = _checks(table)
    remarks = _REMARKS.get(table, ()) if nothing_else else ()
    mended: ColumnValues = {}
    try:
        for name, value in values.items():
            check = _MAYBE_REMARK if name in remarks else checks.get(name, _check_any)
            mended[name] = check(value)
        if table == "message" and not _is_as_stored(values):
            return None
    except (ValueError, RecursionError):
        return None
    return mended


def fault(table: str, values: Mapping[str, object]) -> str | None:
    """Say what is wrong with a row; None if nothing is. In `values` text is bytes."""
    mended = mended_row(table, values)
    if mended is None:
        if table == "message" and is_readable_but_other(values):
            return f"the text of message {values['seq']} is not the one that was stored"
        return f"{table} {values['seq']} cannot be read"
    for name, value in values.items():
        now = mended[name]
        # a value that was corrected is a fault, although the row is usable
        if (now.encode() if isinstance(now, str) else now) != value:
            return f"{table} {values['seq']} has a {name} that cannot be"
    return None


def _is_as_stored(values: Mapping[str, object]) -> bool:
    speaker, text = values["speaker"], values["text"]
    if not isinstance(speaker, bytes) or not isinstance(text, bytes):
        return False
    return digest_of(speaker.decode(), text) == values["digest"]


def is_readable_but_other(values: Mapping[str, object]) -> bool:
    """Whether a message can be read, but its text does not match its digest."""
    try:
        return not _is_as_stored(values)
    except ValueError:
        return False


COLUMNS: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
"""The columns of amounts. New rows are checked before they are stored; rows of older versions may
hold any amount, even one that overflows a sum."""


def _is_plausible(column: str) -> str:
    return f"{column} BETWEEN 0 AND {MOST_USD if column == 'cost_usd' else MOST_TOKENS}"


def plausible_value(column: str) -> str:
    """Return SQL for the column that is NULL where its amount is implausible."""
    return f"CASE WHEN {_is_plausible(column)} THEN {column} END"


SPENT: Final = (
    f"(SELECT total({plausible_value('cost_usd')}) FROM attempt)"
    " + (SELECT total(counted_usd) FROM unsettled)"
)
"""SQL for what all calls cost in US dollars, as far as that is known or was decided."""


def implausible_rows(connection: Connection) -> int:
    """Count the attempts with an implausible amount. Raises `StoreError`."""
    any_of = " OR ".join(f"NOT {_is_plausible(column)}" for column in COLUMNS)
    return connection.number(f"SELECT count(*) FROM attempt WHERE {any_of}")


def forget_implausible(connection: sqlite3.Connection) -> None:
    """Set every implausible amount to NULL."""
    for column in COLUMNS:
        connection.execute(f"UPDATE attempt SET {column} = NULL WHERE NOT {_is_plausible(column)}")
