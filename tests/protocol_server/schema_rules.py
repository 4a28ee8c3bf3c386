"""What the two providers demand of a JSON schema before they promise to keep to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_BOUNDS: Final = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "maxItems",
)  # fmt: skip

Place = tuple[str, ...]


def strict_fault(schema: Mapping[str, Any]) -> str | None:
    """Why OpenAI's strict mode would not take the schema; None where it would."""
    for place, part in _parts(schema, ()):
        if "properties" not in part and part.get("type") != "object":
            continue
        if part.get("additionalProperties") is not False:
            return f"In context={place}, 'additionalProperties' must be supplied and be false."
        missing = set(part.get("properties", {})) - set(part.get("required", ()))
        if missing:
            return f"In context={place}, 'required' must hold every key. Missing {min(missing)!r}."
    return None


def anthropic_fault(schema: Mapping[str, Any]) -> str | None:
    """Why Anthropic's structured output would not take the schema; None where it would."""
    for _, part in _parts(schema, ()):
        kind = part.get("type")
        if kind == "object" and part.get("additionalProperties") is not False:
            return "For 'object' type, 'additionalProperties' must be explicitly set to false"
        unfit = [bound for bound in _BOUNDS if bound in part]
        if unfit:
            return f"For {kind!r} type, property {unfit[0]!r} is not supported"
        if part.get("minItems", 0) not in {0, 1}:
            return "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
    return None


def _parts(schema: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    yield place, schema
    for key in ("properties", "$defs"):
        for name, part in schema.get(key, {}).items():
            yield from _parts(part, (*place, key, name))
    if isinstance(schema.get("items"), Mapping):
        yield from _parts(schema["items"], (*place, "items"))
    for key in ("anyOf", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(key, ())):
            yield from _parts(part, (*place, key, str(number)))
