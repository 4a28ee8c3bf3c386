"""Answers any JSON schema with something that fits it, where no role knows the shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.providers.scripted.words import Draw

_WORDS: Final = ("a plain answer", "something to look at again", "the part that matters", "a start")
_DEEP: Final = 12
"""A schema that refers to itself is followed no deeper than this."""


def filled(schema: Mapping[str, Any], draw: Draw) -> Any:
    """A value that satisfies the schema: types, enums, required keys and lower bounds."""
    return _value(schema, schema, draw, 0)


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], draw: Draw, depth: int) -> Any:
    if "$ref" in schema:
        return _value(_resolved(schema["$ref"], root), root, draw, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return draw.pick(schema["enum"])
    for way in ("anyOf", "oneOf"):
        if schema.get(way):
            return _alternative(schema[way], root, draw, depth)
    if schema.get("allOf"):
        merged = {key: value for part in schema["allOf"] for key, value in part.items()}
        return _value({**schema, **merged, "allOf": None}, root, draw, depth)
    return _typed(schema, root, draw, depth)


def _alternative(
    options: list[Mapping[str, Any]], root: Mapping[str, Any], draw: Draw, depth: int
) -> Any:
    if depth > _DEEP and any(option.get("type") == "null" for option in options):
        return None
    return _value(options[0], root, draw, depth + 1)


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for key in reference.removeprefix("#").strip("/").split("/"):
        found = found[key] if key else found
    result: Mapping[str, Any] = found
    return result


def _typed(schema: Mapping[str, Any], root: Mapping[str, Any], draw: Draw, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    match kind:
        case "object":
            return _object(schema, root, draw, depth)
        case "array":
            least = schema.get("minItems", 0 if depth > _DEEP else 1)
            items = schema.get("items", {"type": "string"})
            return [_value(items, root, draw, depth + 1) for _ in range(least)]
        case "string":
            text = draw.pick(_WORDS)
            while len(text) < schema.get("minLength", 0):
                text += f", {draw.pick(_WORDS)}"
            return text[: schema.get("maxLength", len(text))]
        case "integer":
            return _number(schema, 1)
        case "number":
            return float(_number(schema, 1))
        case "boolean":
            return draw.chance(0.5)
        case "null":
            return None
        case _:
            return _object(schema, root, draw, depth) if "properties" in schema else "an answer"


def _object(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: Draw, depth: int
) -> dict[str, Any]:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    required = schema.get("required", list(properties))
    # a schema may require a key that it does not describe
    return {key: _value(properties.get(key, {}), root, draw, depth + 1) for key in required}


def _number(schema: Mapping[str, Any], step: int) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + step
    if "maximum" in schema:
        return schema["maximum"]
    if "exclusiveMaximum" in schema:
        return schema["exclusiveMaximum"] - step
    return step
