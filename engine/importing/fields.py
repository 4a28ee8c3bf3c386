"""What stands in a row of ImpactBench's files, under every name that it ever had."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.benchmark import Track, Usage

JsonObject = Mapping[str, Any]

UNKNOWN: Final = "unknown"
"""Who played or judged, where a file does not say."""
OURS: Final = "_crosswind"
DEPTH_LIMIT: Final = 50
"""What is written for us is never nested so deep."""
PARTIAL: Final = "__row_cache_partial__"

_NESTED: Final = frozenset({dict, list})
_NUMBERS: Final = (int, float)
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}


class UnfitError(Exception):
    """A row that cannot be taken: the key at fault and what is wrong with it."""

    def __init__(self, key: str, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.key = key
        self.what = what
        self.hint = hint


def as_object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise UnfitError("", f"expected an object, {{...}}, found {kind_of(value)}")
    if _depth_beyond(value, DEPTH_LIMIT):
        raise UnfitError("", f"values are nested more than {DEPTH_LIMIT} deep")
    return value


def _depth_beyond(value: dict[str, Any], limit: int) -> bool:
    level: list[dict[str, Any] | list[Any]] = [value]
    for _ in range(limit):
        level = [
            member
            for one in level
            for member in (one.values() if isinstance(one, dict) else one)
            if type(member) in _NESTED  # what was read from JSON is of no other class
        ]
        if not level:
            return False
    return True


def text(row: JsonObject, key: str) -> str | None:
    """None where there is none; a number, which some ids are, as its digits."""
    value = row.get(key)
    if isinstance(value, str):
        return value if value.strip() else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else None


def objects(value: object) -> list[dict[str, Any]]:
    """Those in a list; none where there is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def row_scenario_id(row: JsonObject) -> str:
    found = text(row, "id")
    if found is None:
        raise UnfitError("id", f"expected an id, found {kind_of(row.get('id'))}")
    return found


def target_name(row: JsonObject, folder: str | None) -> str:
    """`target_model`, else the target's id, else the folder's name."""
    if (named := text(row, "target_model")) is not None:
        return named
    target = row.get("target")
    inner = text(target, "id") if isinstance(target, dict) else text(row, "target")
    found = inner or folder
    if found is None:
        raise UnfitError("target_model", "nothing says which target this is of")
    return found


def sample(row: JsonObject, default: int = 0) -> int:
    for key in ("sample", "_sample"):
        value = row.get(key)
        if value is None:
            continue
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise UnfitError(key, f"expected the number of a sample, found {kind_of(value)}")
        return value
    return default


@dataclass(frozen=True, slots=True)
class TargetModel:
    """What a row says of the model behind its target, without keys and headers."""

    model: str | None
    source: str | None
    base_url: str | None


def target_model(row: JsonObject) -> TargetModel:
    inner = row.get("target")
    of = inner if isinstance(inner, dict) else row
    return TargetModel(text(of, "model"), text(of, "source"), text(of, "base_url"))


def usage(row: JsonObject) -> Usage | None:
    """None where nothing is known."""
    value = row.get("_usage")
    return usage_of(value) if isinstance(value, dict) else None


def usage_of(value: JsonObject) -> Usage | None:
    known = Usage(
        1,
        whole(value.get("input_tokens")),
        None,
        whole(value.get("output_tokens")),
        amount(value.get("cost")),
    )
    empty = known.input_tokens is None and known.output_tokens is None and known.cost_usd is None
    return None if empty else known


def whole(value: object) -> int | None:
    """A number of things; None for what is none."""
    found = amount(value)
    return None if found is None else round(found)


def amount(value: object) -> float | None:
    """A number that can be how much of something there is; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return None
    return float(value) if math.isfinite(value) and 0 <= value < 2**53 else None


def answer(row: JsonObject, key: str) -> bool | None:
    """Yes, no, or None where the row has no such answer; what says neither raises."""
    value = row.get(key)
    if isinstance(value, str):
        plain = value.strip().lower()
        if not plain or plain in {"null", "none"}:
            return None
        if plain not in _WORDS:
            raise UnfitError(key, f"expected true, false or null, found {kind_of(value)}")
        return _WORDS[plain]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return bool(value)
    raise UnfitError(key, f"expected true, false or null, found {kind_of(value)}")


def passed(row: JsonObject, present: bool | None, track: Track | None) -> bool | None:  # noqa: FBT001  (a value, not a switch)
    """`passed`, else `score`, else what follows from `present`."""
    for key in ("passed", "score"):
        found = answer(row, key)
        if found is not None:
            return found
    if present is None or track is None:
        return None
    return track.passes(present=present)


def kind_of(value: object) -> str:
    """How JSON calls it, and what it is where that is short."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value:g}" if abs(value) < 1e15 else "a number"
        case str():
            return f"the text {value!r}" if len(value) <= 30 else "a text"
        case list():
            return "a list"
        case _:
            return "an object"
