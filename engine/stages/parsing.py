"""Reads the one object of a given shape that stands in what a model wrote.

Models put prose, fences, reasoning and stop marks around an answer, wrap it, repeat it, or write it
as Python does. All of that is read where it leaves no doubt which object is meant. Nothing beyond
is guessed: an incomplete answer is no answer, and neither is a quotation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)

LOOKED_AT: Final = 1_000_000
"""The most characters that are examined, some several times, to find objects in one text."""
ONE_TRY: Final = 100
"""What a try to read an object takes, in characters that could be examined instead: an error of
`json` counts the lines before it."""

_REASONING: Final = re.compile(
    # up to the first closing tag: the rest is the answer, whatever it quotes
    r"\A\s*(?:<(think|thinking|thought|reasoning)>.*?</\1>|\[THINK\].*?\[/THINK\])",
    re.DOTALL | re.IGNORECASE,
)
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+"'
    r"|'(?:[^'\\]|\\.)*+'"
    r"|,(?=\s*+[}\]])|\b(?:True|False|None)\b|[{}\[\]]",
    re.DOTALL,
)
"""What Python and JSON write differently, and what must be passed over to find it."""
_LITERALS: Final = {"True": "true", "False": "false", "None": "null", ",": ""}

JsonValue = dict[str, Any]


def parse_answer(text: str, shape: type[T], quotable: Sequence[str] = ()) -> T:
    """Return the one object of this shape in a text; equal ones count as one.

    An object that stands in one of the `quotable` texts is a quotation and no answer. Raises
    `ValueError`, which says in plain words what is wrong.
    """
    body = _REASONING.sub("", text.removeprefix("\ufeff"), count=1).strip()
    if not body:
        raise ValueError("it was empty")
    objects, fault = _objects_in(body)
    answers: list[T] = []
    quoted = [part for said in quotable for part in _parts_in(said)]
    was_quotation = False
    for value in objects:
        for part, answer in _fitting(value, shape):
            if part in quoted:
                was_quotation = True
            elif answer not in answers:
                answers.append(answer)
    match answers:
        case [answer]:
            return answer
        case []:
            if was_quotation:
                raise ValueError("its object is a quotation from the conversation, not an answer")
            raise ValueError(_misfit(objects, shape) or fault)
        case _:
            raise ValueError(f"it held {len(answers)} different objects of that shape")


def is_bare(text: str) -> bool:
    """Whether a text is one JSON object and nothing else."""
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _fitting(value: JsonValue, shape: type[T]) -> Iterator[tuple[JsonValue, T]]:
    """Yield the outermost parts of a value that have the shape."""
    try:
        yield value, shape.model_validate(value, strict=True)
    except ValidationError:
        for part in _children(value):
            yield from _fitting(part, shape)


def _children(value: JsonValue) -> Iterator[JsonValue]:
    for member in value.values():
        for part in member if isinstance(member, list) else [member]:
            if isinstance(part, dict):
                yield part


def _parts_in(text: str) -> Iterator[JsonValue]:
    """Yield every object in a text, and every object in these."""
    if "{" in text:
        left = _objects_in(text)[0]
        while left:
            value = left.pop()
            yield value
            left += _children(value)


def _misfit(objects: Sequence[JsonValue], shape: type[BaseModel]) -> str:
    """Why the longest object does not fit; empty where there is no object."""
    if not objects:
        return ""
    try:
        shape.model_validate(max(objects, key=len), strict=True)
    except ValidationError as error:
        return faults_in(error)
    return ""


def faults_in(error: ValidationError) -> str:
    """What does not fit, each with its place, without what was found there."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'the answer'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)[:5]
    )


def _objects_in(text: str) -> tuple[list[JsonValue], str]:
    """The outermost objects in a text, and what is wrong with the first that cannot be read."""
    objects: list[JsonValue] = []
    fault = ""
    at, left = text.find("{"), LOOKED_AT
    while at >= 0 and left > 0:
        left -= ONE_TRY
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise ValueError("it was nested too deeply") from None
        except ValueError as error:
            fault = fault or _words(error)
            left -= error.pos - at if isinstance(error, json.JSONDecodeError) else 0
            value, end = _as_python_writes(text, at)
            left -= end - at
            if value is None:
                end = at + 1
        if value is not None:
            objects.append(value)
        at = text.find("{", end)
    return objects, fault or "it was not one JSON object (there is none in it)"


def _as_python_writes(text: str, start: int) -> tuple[JsonValue | None, int]:
    """The object from `start` on, in which commas may trail and literals be Python's; None where it
    is none. And where the search ended."""
    pieces: list[str] = []
    depth, copied, end = 0, start, len(text)
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        depth += (word in ("{", "[")) - (word in ("}", "]"))
        if word in _LITERALS or word[0] == "'":
            instead = _LITERALS[word] if word in _LITERALS else _json_string(word)
            pieces += [text[copied : token.start()], instead]
            copied = token.end()
        if depth == 0:
            end = token.end()
            break
    else:
        return None, end
    try:
        value = _DECODER.decode("".join([*pieces, text[copied:end]]))
    except (ValueError, RecursionError):
        return None, end
    return value if isinstance(value, dict) else None, end


def _json_string(word: str) -> str:
    """A string in Python's quotation marks as JSON writes it."""
    # between two escaped backslashes, a backslash belongs to what follows it
    parts = (
        part.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
        for part in word[1:-1].split("\\\\")
    )
    return '"' + "\\\\".join(parts) + '"'


def _words(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it was not one JSON object ({error.msg}, line {error.lineno})"
    return str(error)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it held {name}, which is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("it held the same key twice")
    return members


_DECODER: Final = json.JSONDecoder(
    # raw line breaks in strings, which some servers allow, are harmless
    strict=False,
    parse_constant=_no_constant,
    object_pairs_hook=_no_duplicates,
)
