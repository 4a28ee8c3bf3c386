"""Parses a filter line, as a person types it to select conversations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.benchmark import Track
from engine.store.browsing import KINDS, OUTCOMES, Field, Filter, FilterTerm

LONGEST: Final = 500
"""The longest line in characters."""

_WORD: Final = re.compile(
    r'(?P<no>-?)(?:(?P<name>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S+))'
)
_OTHER_NAMES: Final[dict[str, Field]] = {
    "demographic": Field.WHO,
    "evaluator": Field.JUDGE,
    "stop": Field.END,
    "verdict": Field.OUTCOME,
}
_SIGNS: Final[Mapping[str, str]] = {
    "+": Track.POSITIVE.value,
    "-": Track.NEGATIVE.value,
    "−": Track.NEGATIVE.value,
}
HELP: Final = "outcome: metric: target: who: judge: end: is:stale -not =whole"


class FilterFault(Exception):  # noqa: N818  (a fault of what was typed, in words for who typed it)
    """A fault in a filter line, in words."""


class _FilterWord(NamedTuple):
    negated: bool
    name: str | None
    values: tuple[str, ...]


def parse(typed: str) -> Filter:
    """Parse a filter line into conditions; an empty one has none. Raises `FilterFault`."""
    return tuple(
        _condition(word)
        for word in map(_filter_word, _WORD.finditer(typed[:LONGEST]))
        if word.values
    )


def _filter_word(match: re.Match[str]) -> _FilterWord:
    quoted, bare = match["quoted"], match["bare"]
    values: tuple[str, ...]
    if quoted is not None:
        values = (quoted,) if quoted else ()
    elif match["name"] is None:
        is_begun = bare.endswith(":") and bare[:-1].isalpha()
        values = () if is_begun else (bare,)
    else:
        values = tuple(value for value in bare.split(",") if value)
    return _FilterWord(match["no"] == "-", match["name"], values)


def _condition(word: _FilterWord) -> FilterTerm:
    field = Field.TEXT if word.name is None else _field(word.name)
    return FilterTerm(field, tuple(_value(field, value) for value in word.values), word.negated)


def _field(name: str) -> Field:
    """The field with this name or with a name that begins like this."""
    wanted = name.lower()
    names = {field.value: field for field in Field} | _OTHER_NAMES
    if wanted in names:
        return names[wanted]
    meant = {field for known, field in names.items() if known.startswith(wanted)}
    if len(meant) == 1:
        return meant.pop()
    raise FilterFault(f"there is no `{name}:`, but " + " ".join(f"{field}:" for field in Field))


def _value(field: Field, value: str) -> str:
    match field:
        case Field.OUTCOME:
            return _one_of(field, value, OUTCOMES)
        case Field.IS:
            return _one_of(field, value, KINDS)
        case Field.TYPE:
            return _one_of(field, _SIGNS.get(value, value), [track.value for track in Track])
        case Field.SAMPLE:
            if not value.isdecimal() or not value.isascii():
                raise FilterFault(f"sample: takes a number from 0, not `{value}`")
            return str(int(value))
        case _:
            return value


def _one_of(field: Field, value: str, known: tuple[str, ...] | list[str]) -> str:
    meant = [word for word in known if word.startswith(value.lower())]
    if len(meant) != 1:
        raise FilterFault(f"{field}: takes {', '.join(known)}, not `{value}`")
    return meant[0]
