"""JSON templates with placeholders, and dotted paths into JSON. Pure; nothing in either is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final


class Placeholder(StrEnum):
    """What a request template can hold, written `$name`."""

    MESSAGES = "messages"
    """A list of objects with `role` and `content`; must be a whole value, never part of a
    string."""
    MESSAGE = "message"
    """The user's last message."""
    SYSTEM = "system"
    SESSION = "session"
    MODEL = "model"


PLACEHOLDER: Final = re.compile(r"\$([A-Za-z_]+)")
FROM_HEADER: Final = "header "
"""Prefix for naming a header where a path into JSON is allowed too."""
FROM_COOKIES: Final = "cookies"
"""In place of a path or a header: the cookies that an application sets."""
LONGEST_PATH: Final = 200
_STEP: Final = re.compile(r"[^\s.]+")

Place = tuple[str | int, ...]


def placeholders(template: object) -> frozenset[str]:
    """The names of all placeholders in a template."""
    return frozenset(name for _, text in _texts(template, ()) for name in PLACEHOLDER.findall(text))


def misplaced_placeholders(template: object) -> Iterator[tuple[Place, str, bool]]:
    """Yield the placeholders that `filled` does not fill: path, name, and whether the name is known
    but stands within a string where only a whole value is possible."""
    for place, text in _texts(template, ()):
        for name in PLACEHOLDER.findall(text):
            if name not in set(Placeholder):
                yield place, name, False
            elif name == Placeholder.MESSAGES and text.strip() != f"${name}":
                yield place, name, True


def _texts(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    match value:
        case str():
            yield place, value
        case Mapping():
            for key, inner in value.items():
                yield from _texts(inner, (*place, key))
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _texts(inner, (*place, number))
        case _:
            pass


def filled_template(template: object, values: Mapping[str, Any]) -> Any:
    """Return the template with every placeholder replaced, in one pass: inserted values are not
    searched for placeholders. Keys stay as they are."""
    match template:
        case str():
            alone = PLACEHOLDER.fullmatch(template.strip())
            if alone is not None and alone[1] in values:
                # a value of its own keeps its type: messages are a list, not its text
                return values[alone[1]]
            return PLACEHOLDER.sub(
                lambda placeholder: str(values.get(placeholder[1], placeholder[0])), template
            )
        case Mapping():
            return {key: filled_template(inner, values) for key, inner in template.items()}
        case list() | tuple():
            return [filled_template(inner, values) for inner in template]
        case _:
            return template


def without_placeholder(template: object, name: str) -> Any:
    """Return the template without this placeholder: values that consist of it are removed, and
    within a string it becomes empty."""

    def stays(value: object) -> bool:
        return not (isinstance(value, str) and value.strip() == f"${name}")

    match template:
        case str():
            return PLACEHOLDER.sub(lambda match: "" if match[1] == name else match[0], template)
        case Mapping():
            staying = {key: inner for key, inner in template.items() if stays(inner)}
            return {key: without_placeholder(inner, name) for key, inner in staying.items()}
        case list() | tuple():
            return [without_placeholder(inner, name) for inner in template if stays(inner)]
        case _:
            return template


def path_fault(path: str) -> str | None:
    """Why `path` is not a valid path into JSON; None where it is."""
    if len(path) > LONGEST_PATH:
        return f"it is longer than {LONGEST_PATH} characters"
    steps = path.split(".")
    if not all(_STEP.fullmatch(step) for step in steps):
        return "a step of it is empty or has a space in it"
    return None


def at_path(document: object, path: str) -> object:
    """The value at a path of keys and 0-based list indices; None where there is none."""
    for step in path.split("."):
        match document:
            case Mapping() if step in document:
                document = document[step]
            case list() if step.isascii() and step.isdigit() and len(step) < _DIGITS:
                number = int(step)
                if number >= len(document):
                    return None
                document = document[number]
            case _:
                return None
    return document


_DIGITS: Final = 7
"""No list has an index of so many digits, and a path may have very many."""
