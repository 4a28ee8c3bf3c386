"""Turns validation errors of a YAML file into messages for the person who wrote it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from engine.config.wording import did_you_mean, nearest_word, quotable
from engine.config.yaml_text import KeyPath, YamlDocument
from engine.errors import Problem

SECRET_KEYS: Final = frozenset({"apikey", "extra_headers", "headers"})
"""No value under these keys is ever shown."""

_EXPECTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "mapping_type": "keys and values",
    "model_type": "keys and values",
    "string_too_short": "text",
    "too_short": "at least one",
}

_NUMBER: Final = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")


def problems_of(
    error: ValidationError, document: YamlDocument, shape: type[BaseModel]
) -> list[Problem]:
    """Every problem that validation found, in the order of its errors."""
    faults = error.errors(include_url=False, include_input=False)
    return [
        problem for fault in faults if (problem := _problem(fault, document, shape)) is not None
    ]


def in_file_order(problems: Collection[Problem]) -> list[Problem]:
    """Sorted from top to bottom, without duplicates."""
    return sorted(
        dict.fromkeys(problems), key=lambda problem: (problem.line or 0, problem.column or 0)
    )


def doubles(
    words: Iterable[tuple[KeyPath, object]], document: YamlDocument, what: str
) -> Iterator[Problem]:
    """A problem for each repeated word, ignoring case, as many file systems do."""
    first: dict[str, KeyPath] = {}
    for at, word in words:
        if not isinstance(word, str):
            continue
        known = first.setdefault(word.strip().casefold(), at)
        if known != at:
            line = document.key_place(known).line
            yield document.problem(
                at, f"{what}: `{quotable(word)}` (first on line {line})", of_key=True
            )


def kind_of(value: object) -> str:
    """The kind of a value in words, without showing it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text" if value.strip() else "empty text"
        case date():
            return "a date"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "keys and values" if value else "an empty mapping"
        case _:
            return "something else"


def _problem(fault: ErrorDetails, document: YamlDocument, shape: type[BaseModel]) -> Problem | None:
    at = fault["loc"]
    if at[-1:] == ("[key]",):
        return document.problem(at[:-1], _message_of(fault), of_key=True)
    value = document.value(at)
    expected = _expected_words(at, shape) or _EXPECTED.get(fault["type"], "something else")
    match fault["type"]:
        case "extra_forbidden":
            return _unknown_key(at, document, shape)
        case "missing":
            return document.problem(at, f"this key is missing, expected {expected}")
        case "too_short" if value:
            # its members failed, and each has its own problem
            return None
        case "value_error":
            return document.problem(at, _message_of(fault))
        case "string_type" if value is not None and not isinstance(value, (list, dict)):
            return _not_text(at, document)
        case _:
            what = f"found {_found_words(at, document)}, expected {expected}"
            return document.problem(at, what, hint=_quotes_hint(value, fault["type"]))


def _message_of(fault: ErrorDetails) -> str:
    """The message of one of our own checks; without one, the fault is an empty key."""
    own = fault.get("ctx", {}).get("error")
    return str(own) if own is not None else "found an empty key, expected a name"


def _expected_words(at: KeyPath, shape: type[BaseModel]) -> str | None:
    """The description of the field there, which says what is expected."""
    around = _shape_at(at[:-1], shape)
    field = around.model_fields.get(str(at[-1])) if around is not None else None
    return field.description if field is not None else None


def _found_words(at: KeyPath, document: YamlDocument) -> str:
    """The value itself if it is a number or a boolean and no secret, else its kind."""
    value = document.value(at)
    if isinstance(value, (int, float)) and not _is_secret(at):
        return f"`{quotable(document.written.get(at, str(value)))}`"
    return kind_of(value)


def _quotes_hint(value: object, fault_type: str) -> str | None:
    """A hint for a number or boolean that quotes turn into text."""
    if not isinstance(value, str):
        return None
    word = value.strip().casefold()
    if fault_type == "bool_type":
        return "delete the quotes" if word in {"true", "false", "yes", "no", "on", "off"} else None
    if fault_type in {"int_type", "float_type"} and _NUMBER.fullmatch(word):
        return "delete the quotes" if "e" not in word else "write it without an exponent"
    return None


def _not_text(at: KeyPath, document: YamlDocument) -> Problem:
    """The problem of a word that YAML does not read as text."""
    value = document.value(at)
    if _is_secret(at):
        kind = kind_of(value)
        what = f"YAML reads this as {kind}, expected text"
        return document.problem(at, what, hint="put it in quotes")
    written = quotable(document.written.get(at, ""))
    reading = str(value).lower() if isinstance(value, bool) else kind_of(value)
    what = f"YAML reads `{written}` as {reading}, expected text"
    return document.problem(at, what, hint=f'put it in quotes: "{written}"')


def _is_secret(at: KeyPath) -> bool:
    return not SECRET_KEYS.isdisjoint(at)


def _unknown_key(at: KeyPath, document: YamlDocument, shape: type[BaseModel]) -> Problem:
    word = str(at[-1])
    around = _shape_at(at[:-1], shape)
    known = around.model_fields if around is not None else {}
    hint = did_you_mean(word, known)
    if nearest_word(word, known) is None:
        home = next((place for place, name in _all_keys(shape) if name == word), None)
        if home is not None:
            hint = f"`{word}` belongs under `{home}`" if home else f"`{word}` belongs at the top"
    return document.problem(at, "unknown key", hint=hint, of_key=True)


def _all_keys(shape: type[BaseModel], home: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a shape and of the shapes in it, after the place where it belongs."""
    for name, field in shape.model_fields.items():
        yield home, name
        inner = _shape_in(field.annotation)
        if inner is not None:
            yield from _all_keys(inner, f"{home}.{name}" if home else name)


def _shape_at(at: KeyPath, shape: type[BaseModel]) -> type[BaseModel] | None:
    """The shape of the mapping there; None where it has none."""
    current: type[BaseModel] | None = shape
    rest = list(at)
    while rest and current is not None:
        field = current.model_fields.get(str(rest.pop(0)))
        if field is None:
            return None
        if rest and _holds_many(field.annotation):
            rest.pop(0)
        current = _shape_in(field.annotation)
    return current


def _holds_many(annotation: Any) -> bool:
    return get_origin(annotation) in {tuple, Mapping} or any(
        _holds_many(part) for part in get_args(annotation)
    )


def _shape_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((shape for part in get_args(annotation) if (shape := _shape_in(part))), None)
