"""Converts between dataclasses and the columns of rows, both ways from the dataclass's fields.

A field that is itself a dataclass, such as a conversation's key, is spread over columns of its own.
What converts each class is worked out once: a store has millions of rows.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, wraps
from operator import attrgetter
from types import NoneType
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from engine.benchmark import Metric, Scenario, Usage
from engine.jury import PlainVote, reason_words
from engine.store.schema import row_is_damaged
from engine.store.tables import NO_COLUMN, TABLES, RareFlag, StoredRow, utc_datetime

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Value = str | int | float | bytes | None
Convert = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]
"""Sets one field of an object."""

UNREADABLE: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError),
    RecursionError,
)
"""What is raised for a column that does not hold what its table declares."""

_COLUMNS: Final = {
    (Metric, "id"): "metric_id",
    (Metric, "when"): "holds",
    (Scenario, "id"): "scenario_id",
    "is_other": "other",
    "cost_reported": "reported",
    "latent_adversarial_goal": "latent_goal",
    "scenario_seq": "scenario",
    "target_id": "target",
    "target_system_prompt": "system_prompt",
}
"""The columns of fields whose columns have other names, by field or by class and field."""


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """The column of one field of a dataclass."""

    name: str
    path: str
    """Attributes from the row to the value, with dots: `key.sample`."""
    hint: Any
    """The type that the field is declared with."""


def _cached(function: F) -> F:
    """`functools.cache`, whose stubs do not take the class of a frozen dataclass for hashable."""
    return cast("F", cache(function))


@_cached
def columns(table: type) -> tuple[FieldColumn, ...]:
    """Return the columns in the order of the fields."""
    return tuple(_columns(table, ""))


@_cached
def columns_of(table: str) -> tuple[str, ...]:
    """Return the column names of a table whose rows are facts."""
    return tuple(column.name for column in columns(TABLES[table]))


def _columns(table: type, path: str) -> Iterator[FieldColumn]:
    for name, hint in _fields(table):
        if is_dataclass(hint) and isinstance(hint, type):
            # a stored row is one call, so the field that counts calls in a sum has no column
            inner = _columns(hint, f"{path}{name}.")
            yield from (column for column in inner if (hint, column.name) != (Usage, "calls"))
        else:
            yield FieldColumn(_column(table, name), path + name, hint)


def _column(table: type, name: str) -> str:
    return _COLUMNS.get((table, name)) or _COLUMNS.get(name) or name


def _fields(table: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(table, include_extras=True)
    return [
        (field.name, hints[field.name]) for field in fields(table) if field.metadata != NO_COLUMN
    ]


# From a row


def read(wanted: type[T], row: sqlite3.Row) -> T:
    """Convert a row, whose columns may come from several tables. Raises `DamagedError` if it cannot
    be read."""
    try:
        value: T = _reader(wanted, tuple(row.keys()))(row)
    except UNREADABLE:
        # without the cause, whose message quotes the row
        raise row_is_damaged(row) from None
    return value


def reporting_damage(parse: Callable[[sqlite3.Row], T]) -> Callable[[sqlite3.Row], T]:
    """Make `parse` raise `DamagedError` for a row that cannot be read."""

    @wraps(parse)
    def parsed(row: sqlite3.Row) -> T:
        try:
            return parse(row)
        except UNREADABLE:
            raise row_is_damaged(row) from None

    return parsed


def read_all(wanted: type[T], rows: Sequence[sqlite3.Row]) -> list[T]:
    """Convert the rows of one query, as `read` does."""
    if not rows:
        return []
    reader = _reader(wanted, tuple(rows[0].keys()))
    try:
        return [reader(row) for row in rows]
    except UNREADABLE:
        return [read(wanted, row) for row in rows]  # raises for the one that is at fault


@_cached
def _reader(wanted: type, columns: tuple[str, ...]) -> Convert:
    """Return a reader for rows with these `columns`. It indexes a row by position, which takes half
    the time of names (SQLite's rows search for a name from the first column on), and fills slots
    directly, as calling a frozen dataclass takes twice as long."""
    hints = dict(_fields(wanted))
    plain: list[tuple[Fill, int]] = []
    converted: list[tuple[Fill, int, Convert]] = []
    nested: list[tuple[Fill, Convert]] = []
    constant: list[tuple[Fill, Any]] = []
    for field in fields(wanted):
        hint, fill = hints.get(field.name), _slot(wanted, field.name)
        name = _column(wanted, field.name)
        if is_dataclass(hint):
            nested.append((fill, _reader(cast("type", hint), columns)))
        elif hint is None or (name not in columns and (wanted, name) == (Usage, "calls")):
            constant.append((fill, field.default))  # a field without a column has a default
        elif convert := _BY_FIELD.get(field.name) or _decoder(hint):
            converted.append((fill, columns.index(name), convert))
        else:
            plain.append((fill, columns.index(name)))

    def read_row(row: Sequence[Any]) -> object:
        made: object = object.__new__(wanted)
        for fill, place in plain:
            fill(made, row[place])
        for fill, place, convert in converted:
            fill(made, convert(row[place]))
        for fill, read_part in nested:
            fill(made, read_part(row))
        for fill, value in constant:
            fill(made, value)
        return made

    return read_row


def _slot(table: type, name: str) -> Fill:
    """Return what sets a field, bypassing the protection of a frozen dataclass."""
    # from the class that declares the field: a subclass with slots does not repeat it
    [slot] = (base.__dict__[name] for base in table.__mro__ if name in base.__dict__)
    fill: Fill = slot.__set__
    return fill


def _decoder(hint: Any) -> Convert | None:
    """Return what converts a column to a value; None if the value is the column's."""
    if hint in _DECODERS:
        return _DECODERS[hint]
    if (needed := without_none(hint)) is not hint:
        return _or_none(_decoder(needed))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        # takes a fifth of the time of calling the class; an unknown value raises KeyError, which is
        # in `UNREADABLE`
        return {member.value: member for member in hint}.__getitem__
    if get_origin(hint) in {tuple, Mapping}:
        # JSON; a value of another type raises msgspec's error, which is a ValueError
        return msgspec.json.Decoder(hint).decode
    return None


_NAME_LENGTH: Final = 80
"""The most characters of a text that many rows are likely to share."""


def _shared_name(text: str) -> str:
    """Hold each id, name and digest once for all rows."""
    return sys.intern(text) if len(text) <= _NAME_LENGTH else text


_TEXTS: Final = msgspec.json.Decoder(dict[str, str])


def _shared_texts(text: str) -> Mapping[str, str]:
    """Decode what a row was made from. Each name and digest is held once for all rows, in most of
    which they are the same."""
    return {sys.intern(name): sys.intern(value) for name, value in _TEXTS.decode(text).items()}


def optional_bool(value: int | None) -> bool | None:
    """Convert a column of 1, 0 or NULL."""
    return None if value is None else bool(value)


VOTE: Final = (
    "v.judge, v.source, v.number, v.metric_id, CASE WHEN json_valid(v.depends) "
    "THEN json_extract(v.depends, '$.\"metric definition\"') END, v.passed, v.unscored"
)
"""The columns of a vote, of the verdict `v`. It is given under one definition of its metric, whose
digest `depends` has."""


def plain_vote(row: Sequence[Any]) -> PlainVote:
    """Convert these columns."""
    judge, source, number, metric, under, passed, why = row
    return PlainVote(judge, source, number, metric, under, optional_bool(passed), why)


# To a row


def encoder(table: type[StoredRow], *given: str) -> Callable[..., tuple[Value, ...]]:
    """Return what makes a row's columns. It takes the row, its `seq`, the present time, and a value
    for each of the columns `given`, which replaces the row's own."""
    names = [column.name for column in columns(table)]
    values_of = attrgetter(*(column.path for column in columns(table)))
    seq_place, at_place = names.index("seq"), names.index("at")
    given_places = [names.index(name) for name in given]
    encoded = [
        (place, encode)
        for place, column in enumerate(columns(table))
        if place not in given_places and (encode := _encoder(column.hint)) is not None
    ]

    def make_columns(row: StoredRow, seq: int, now: int, *decided: Value) -> tuple[Value, ...]:
        values = list(values_of(row))
        for place, encode in encoded:
            values[place] = encode(values[place])
        values[seq_place] = seq
        if values[at_place] is None:
            values[at_place] = now
        for place, value in zip(given_places, decided, strict=True):
            values[place] = value
        return tuple(values)

    return make_columns


def insert_into(table: str) -> str:
    """Return the INSERT statement of a table."""
    names = columns_of(table)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def _encoder(hint: Any) -> Convert | None:
    if hint in _ENCODERS:
        return _ENCODERS[hint]
    if (needed := without_none(hint)) is not hint:
        return _or_none(_encoder(needed))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return attrgetter("_value_")  # the property `value` takes five times as long
    if get_origin(hint) is tuple and is_dataclass(item := get_args(hint)[0]):
        keys = [field.name for field in fields(item)]
        return lambda held: (
            _json([{key: getattr(item, key) for key in keys} for item in held]) if held else "[]"
        )
    return None


_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def storable(text: str) -> str:
    """Replace lone surrogates, which have no UTF-8 and which SQLite cannot hold."""
    if text.isascii():  # a flag of the string, which costs nothing to read
        return text
    try:
        text.encode()  # much faster than searching for what is rarely there
    except UnicodeEncodeError:
        return text.translate(_SURROGATES)
    return text


# allow_nan=False: NaN would be written as a word that SQLite's json_valid refuses
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _json(value: object) -> str:
    return storable(_JSON.encode(value))


def _json_object(value: Mapping[str, object]) -> str:
    return _json(dict(value))


# Both ways


def without_none(hint: Any) -> Any:
    """Return `X` of a hint `X | None`, and any other hint as it is."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    return parts[0] if NoneType in get_args(hint) and len(parts) == 1 else hint


def _or_none(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


_Texts = tuple[str, ...]
_Flags = tuple[bool, ...]
_ENCODERS: Final[Mapping[Any, Convert]] = {
    str: storable,
    bool: int,
    RareFlag: lambda value: 1 if value else None,
    _Texts: lambda texts: _json(list(texts)),
    _Flags: lambda flags: _json(list(flags)),
    Mapping[str, str]: _json_object,
    Mapping[str, object]: _json_object,
}
_BY_FIELD: Final = {"unscored": _or_none(reason_words)}
_DECODERS: Final[Mapping[Any, Convert]] = {
    bool: bool,
    RareFlag: bool,
    datetime: utc_datetime,
    str: _shared_name,
    Mapping[str, str]: _shared_texts,
}
