"""What each column of each table can hold, so that a row that came to harm is known.

A number or a remark beside what a row is there for can be put right, or be unknown; a row whose
own matter cannot be read is of no use.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from engine.benchmark import MOST_TOKENS, MOST_USD, Role, Speaker, Stage, State, StopReason, Track
from engine.facts import NoteKind
from engine.store.digest import digest_of
from engine.store.schema import TABLES

Check = Callable[[object], object]
"""The value as it is to stand; raises `ValueError` where the row is of no use without it."""

_LAST_MOMENT: Final = 253_402_300_799_999
"""Milliseconds: the end of the year 9999."""
_MOST: Final = 10**9
"""No call takes so many tokens or milliseconds, and nothing is counted so far."""
_SOURCES: Final = frozenset({"model", "file", "human"})


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("no text")


def _text(value: object) -> str:
    return _bytes(value).decode()


def _remark(value: object) -> str:
    """What people read beside the matter: better with a letter that is wrong than not at all."""
    return _bytes(value).decode(errors="replace")


def _number(value: object, least: int = 0, most: int = _MOST) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError("out of range")
    return value


def _or_nothing(value: object, check: Check) -> object:
    """NULL, or what the check says."""
    return None if value is None else check(value)


def _if_possible(value: object, check: Check, otherwise: object = None) -> object:
    """What the check says, or that it is not known."""
    try:
        return otherwise if value is None else check(value)
    except (ValueError, RecursionError):
        return otherwise


def _word(value: object, words: type[StrEnum]) -> str:
    return words(_text(value)).value


def _source(value: object) -> str:
    said = _text(value)
    if said not in _SOURCES:
        raise ValueError("unknown source")
    return said


def _json(value: object, fits: Callable[[object], bool]) -> str:
    said = _text(value)
    if not fits(json.loads(said)):
        raise ValueError("another shape")
    return said


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_named_text(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_landmarks(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and type(one.get("turn")) is int
        and isinstance(one.get("instruction"), str)
        for one in value
    )


def _is_quotes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and isinstance(one.get("text"), str)
        and "turn" in one
        and (one["turn"] is None or type(one["turn"]) is int)
        for one in value
    )


def _as_it_is(value: object) -> object:
    return value


def _any(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


_MAYBE_TEXT: Final = partial(_or_nothing, check=_text)
_MAYBE_REMARK: Final = partial(_or_nothing, check=_remark)
_FLAG: Final = partial(_number, most=1)
_MAYBE_FLAG: Final = partial(_or_nothing, check=_FLAG)
_TEXT_IF_POSSIBLE: Final = partial(_if_possible, check=_text)
_COUNT: Final = partial(_if_possible, check=_number)
_STAGE: Final = partial(_word, words=Stage)
_DEPENDS: Final = partial(_if_possible, check=partial(_json, fits=_is_named_text))
_TEXTS: Final = partial(_json, fits=_is_list_of_text)
_AT: Final = partial(_if_possible, check=partial(_number, most=_LAST_MOMENT), otherwise=0)
_REFERENCE: Final = partial(_number, most=1 << 62)

_CHECKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "run": {
        "benchmarks": _TEXTS,
        "config": partial(_json, fits=_is_object),
        "version": _remark,
        "host": _remark,
        "pid": partial(_if_possible, check=_number, otherwise=0),
    },
    "note": {
        "kind": partial(_word, words=NoteKind),
        "stage": partial(_or_nothing, check=_STAGE),
        "text": _remark,
    },
    "state": {
        "stage": _STAGE,
        "target": _MAYBE_TEXT,
        "was": partial(_or_nothing, check=partial(_word, words=State)),
        "state": partial(_word, words=State),
        "reason": _MAYBE_REMARK,
    },
    "metric": {
        "track": partial(_word, words=Track),
        "examples": _TEXTS,
        "source": _source,
        "depends": _DEPENDS,
    },
    "scenario": {
        "landmarks": partial(_json, fits=_is_landmarks),
        "demographic": partial(_json, fits=_is_named_text),
        "system_prompt": _MAYBE_TEXT,
        "extra": partial(_json, fits=_is_object),
        "source": _source,
        "removed": _FLAG,
        "depends": _DEPENDS,
    },
    "take": {
        "sample": _number,
        "number": _number,
        "scenario": partial(_or_nothing, check=_REFERENCE),
        "scripted": _FLAG,
        "depends": _DEPENDS,
    },
    "take_end": {
        "take": _REFERENCE,
        "stop_reason": partial(_word, words=StopReason),
        "finished": _FLAG,
        "detail": _MAYBE_REMARK,
    },
    "message": {
        "take": _REFERENCE,
        "turn": partial(_number, least=1),
        "speaker": partial(_word, words=Speaker),
        "thought": _MAYBE_TEXT,
        "landmark": _MAYBE_TEXT,
        "done": _FLAG,
        "reasoning": _MAYBE_TEXT,
        "digest": _as_it_is,
        "served_by": _TEXT_IF_POSSIBLE,
    },
    "verdict": {
        "take": _REFERENCE,
        "track": partial(_word, words=Track),
        "source": _source,
        "number": _number,
        "present": _MAYBE_FLAG,
        "passed": _MAYBE_FLAG,
        "unscored": _MAYBE_TEXT,
        "quotes": partial(_json, fits=_is_quotes),
        "counted_before": _MAYBE_FLAG,
        "counted": _MAYBE_FLAG,
        "served_by": _TEXT_IF_POSSIBLE,
        "depends": _DEPENDS,
    },
    "attempt": {
        "stage": _STAGE,
        "target": _MAYBE_TEXT,
        "role": partial(_word, words=Role),
        "status": _COUNT,
        "duration_ms": partial(_if_possible, check=_number, otherwise=0),
        "first_token_ms": _COUNT,
        "detail": _MAYBE_REMARK,
        "served": _TEXT_IF_POSSIBLE,
        "other": partial(_if_possible, check=_FLAG),
        "route": _TEXT_IF_POSSIBLE,
        "reported": partial(_if_possible, check=_FLAG),
    },
    "learned": {"dropped": _TEXTS},
}
"""Columns that are not listed hold text, or what their table lets them hold. What calls used is for
`plausible` to look at."""

_REMARKS: Final = {
    "message": ("thought", "landmark", "reasoning"),
    "verdict": ("justification", "unscored"),
}
"""Columns that a row can do without where nothing else has them."""

Values = dict[str, object]


def mended(
    table: str, values: Mapping[str, object], *, nothing_else: bool = False
) -> Values | None:
    """A row as it is to stand, with its text as text; None for one that is of no use.

    In `values` text is bytes. `nothing_else` says that no file has the row, so that the rest of it
    is kept where a remark in it cannot be read.
    """
    checks = _CHECKS[table]
    remarks = _REMARKS.get(table, ()) if nothing_else else ()
    found: Values = {}
    try:
        for name, value in values.items():
            if name == "seq":
                found[name] = _number(value, most=1 << 62)
            elif name == "at":
                found[name] = _AT(value)
            elif name in remarks:
                found[name] = _MAYBE_REMARK(value)
            else:
                found[name] = checks.get(name, _any)(value)
        if table == "message" and not _is_as_stored(values):
            return None
    except (ValueError, RecursionError):
        return None
    return found


def fault(table: str, values: Mapping[str, object]) -> str | None:
    """What is wrong with a row, in words; None where nothing is. In `values` text is bytes."""
    found = mended(table, values)
    if found is None:
        if table == "message" and is_readable_but_other(values):
            return f"the text of message {values['seq']} is not the one that was stored"
        return f"{table} {values['seq']} cannot be read"
    for name, value in values.items():
        now = found[name]
        if (now.encode() if isinstance(now, str) else now) != value:
            return f"{table} {values['seq']} has a {name} that cannot be"
    return None


def _is_as_stored(values: Mapping[str, object]) -> bool:
    speaker, text = values["speaker"], values["text"]
    if not isinstance(speaker, bytes) or not isinstance(text, bytes):
        return False
    return digest_of(speaker.decode(), text) == values["digest"]


def is_readable_but_other(values: Mapping[str, object]) -> bool:
    """Of a message, whether its text is not the one that was stored."""
    try:
        return not _is_as_stored(values)
    except ValueError:
        return False


def columns_of(table: str) -> tuple[str, ...]:
    """Every column of a table whose rows are facts."""
    return ("seq", "at", *TABLES[table].split())


COLUMNS: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")
"""Of amounts. They are looked at where they come in; rows that were written before that was so may
hold any, and a few of those are too much for a sum."""


def _is_plausible(column: str) -> str:
    return f"{column} BETWEEN 0 AND {MOST_USD if column == 'cost_usd' else MOST_TOKENS}"


def plausible(column: str) -> str:
    """The column, unknown where it holds what cannot be."""
    return f"CASE WHEN {_is_plausible(column)} THEN {column} END"


def implausible_rows(connection: sqlite3.Connection) -> int:
    """How many attempts hold an amount that cannot be."""
    any_of = " OR ".join(f"NOT {_is_plausible(column)}" for column in COLUMNS)
    [count] = connection.execute(f"SELECT count(*) FROM attempt WHERE {any_of}").fetchone()
    return int(count)


def forget_implausible(connection: sqlite3.Connection) -> None:
    """Make every amount that cannot be unknown."""
    for column in COLUMNS:
        connection.execute(f"UPDATE attempt SET {column} = NULL WHERE NOT {_is_plausible(column)}")
