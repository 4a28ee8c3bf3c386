"""`extra_body`: what a person wants in the body of each request, beside what is sent anyway."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.config.environment import Environment
from engine.config.faults import kind_of
from engine.config.secret import VARIABLE
from engine.config.yaml_text import KeyPath, YamlDocument
from engine.errors import Problem

DEEPEST: Final = 8
"""Mappings and lists within one another."""
LONGEST: Final = 16_384
"""Characters of all of it, as JSON."""

_OWN: Final = {
    **dict.fromkeys(
        ("temperature", "top_p", "max_tokens", "reasoning_effort", "seed"),
        "write it under `params`",
    ),
    "max_completion_tokens": "write `max_tokens` under `params`",
    "model": "write it as the model's own `model`",
    "n": "each request is for one reply; `generation: {num_samples: 2}` asks for several",
    **dict.fromkeys(
        ("messages", "system", "stream", "stream_options", "response_format", "output_config"),
        "delete it",
    ),
    "prompt_cache_key": "delete it",
}
"""What every request says by itself, and what to do instead."""
_SECRET_KEY: Final = re.compile(
    r"(^|_|-)(api_?key|key|auth|authorization|secret|password|token|cookie)$", re.IGNORECASE
)


def extra_body_problems(value: object, at: KeyPath, document: YamlDocument) -> Iterator[Problem]:
    """What is wrong with one. Shows no value of it."""
    if not isinstance(value, dict):
        return
    for key in value:
        if key in _OWN:
            what = f"`{key}` is sent by Crosswind itself"
            yield document.problem((*at, key), what, hint=_OWN[key], of_key=True)
    faults = list(_faults(value, at, document, 1))
    yield from faults
    if not faults and len(json.dumps(value)) > LONGEST:
        what = f"this is too long, expected at most {LONGEST:,} characters as JSON"
        yield document.problem(at, what, of_key=True)


def _faults(value: object, at: KeyPath, document: YamlDocument, depth: int) -> Iterator[Problem]:
    """In what no JSON can hold, and in keys that stand there for all to read."""
    match value:
        case dict() | list() if depth > DEEPEST:
            what = f"this is nested too deeply, expected at most {DEEPEST} levels"
            yield document.problem(at, what)
        case dict():
            for key, inner in value.items():
                if isinstance(inner, str) and _SECRET_KEY.search(key):
                    yield from _open_secret(inner, (*at, key), document)
                yield from _faults(inner, (*at, key), document, depth + 1)
        case list():
            for place, inner in enumerate(value):
                yield from _faults(inner, (*at, place), document, depth + 1)
        case None | bool() | int() | str():
            pass
        case float() if math.isfinite(value):
            pass
        case _:
            what = f"found {kind_of(value)} that JSON cannot hold, expected text or a number"
            yield document.problem(at, what, hint="put it in quotes")


def _open_secret(text: str, at: KeyPath, document: YamlDocument) -> Iterator[Problem]:
    if VARIABLE.search(text) is None:
        what = "this seems to be a key in plain text, and would be kept with every run"
        hint = 'put it into .env and write its variable here, as in "${NAME}"'
        yield document.problem(at, what, hint=hint)


def texts_with_variables(value: object) -> Iterator[str]:
    """Every text in it that holds a `${NAME}`, as it is written."""
    match value:
        case str() if VARIABLE.search(value):
            yield value
        case Mapping():
            for inner in value.values():
                yield from texts_with_variables(inner)
        case list() | tuple():
            for inner in value:
                yield from texts_with_variables(inner)
        case _:
            pass


def filled_in(
    body: Mapping[str, Any], environment: Environment, *, where: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """With every `${NAME}` looked up, and the texts that came of that, which are shown nowhere.

    Raises `InputError` for a variable that is not set.
    """
    secrets: list[str] = []

    def of(value: object) -> Any:
        match value:
            case str() if VARIABLE.search(value):
                text = environment.resolve(value, where=where)
                secrets.append(text)
                secrets.extend(
                    environment.resolve(f"${{{name}}}", where=where)
                    for name in VARIABLE.findall(value)
                )
                return text
            case Mapping():
                return {key: of(inner) for key, inner in value.items()}
            case list() | tuple():
                return [of(inner) for inner in value]
            case _:
                return value

    return {key: of(value) for key, value in body.items()}, tuple(dict.fromkeys(secrets))
