"""Fills a JSON schema with any value that satisfies it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.providers.scripted.words import SeededChoices

_WORDS: Final = ("a plain answer", "something to look at again", "the part that matters", "a start")
_DEEP: Final = 12
"""The depth down to which a recursive schema is followed."""


def example_value(schema: Mapping[str, Any], draw: SeededChoices) -> Any:
    """Return a value that satisfies the schema: types, enums, required keys and lower bounds."""
    return _value(schema, schema, draw, 0)


def _value(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    if "$ref" in schema:
        return _value(_resolve_reference(schema["$ref"], root), root, draw, depth + 1)
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
    return _value_of_type(schema, root, draw, depth)


def _alternative(
    options: list[Mapping[str, Any]], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    if depth > _DEEP and any(option.get("type") == "null" for option in options):
        return None
    return _value(options[0], root, draw, depth + 1)


def _resolve_reference(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for key in reference.removeprefix("#").strip("/").split("/"):
        node = node[key] if key else node
    result: Mapping[str, Any] = node
    return result


def _value_of_type(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
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
            return _number_of_schema(schema)
        case "number":
            return float(_number_of_schema(schema))
        case "boolean":
            return draw.chance(0.5)
        case "null":
            return None
        case _:
            return _object(schema, root, draw, depth) if "properties" in schema else "an answer"


def _object(
    schema: Mapping[str, Any], root: Mapping[str, Any], draw: SeededChoices, depth: int
) -> dict[str, Any]:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    required = schema.get("required", list(properties))
    # a schema may require a key without describing it
    return {key: _value(properties.get(key, {}), root, draw, depth + 1) for key in required}


def _number_of_schema(schema: Mapping[str, Any]) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    if "maximum" in schema:
        return schema["maximum"]
    if "exclusiveMaximum" in schema:
        return schema["exclusiveMaximum"] - 1
    return 1
