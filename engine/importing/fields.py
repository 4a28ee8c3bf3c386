"""Reads the fields in rows of ImpactBench's files, under every name that they ever had."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from engine.benchmark import (
    NAME_LENGTH,
    Track,
    Usage,
    metric_id,
    name_fault,
    scenario_id,
    variant_id,
)
from engine.store.json_file import kind_of
from engine.store.tables import Depends

ForeignObject = Mapping[str, Any]

OURS: Final = "_crosswind"
DEPTH_LIMIT: Final = 50
"""Deeper than any file that was written for us."""
PARTIAL: Final = "__row_cache_partial__"

_NESTED: Final = frozenset({dict, list})
_NUMBERS: Final = (int, float)
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}


class UnfitError(Exception):
    """A row that cannot be imported: the key at fault and what is wrong with it."""

    def __init__(self, key: str, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.key = key
        self.what = what
        self.hint = hint


def as_object(value: object) -> ForeignObject:
    """Return the row. Raises `UnfitError` if it is not an object, or nested too deeply."""
    if not isinstance(value, dict):
        raise UnfitError("", f"expected an object, {{...}}, found {kind_of(value)}")
    if _is_too_deep(value):
        raise UnfitError("", f"values are nested more than {DEPTH_LIMIT} deep")
    return value


def _is_too_deep(value: dict[str, Any]) -> bool:
    level: list[dict[str, Any] | list[Any]] = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            member
            for value in level
            for member in (value.values() if isinstance(value, dict) else value)
            if type(member) in _NESTED  # parsed JSON has no other classes
        ]
        if not level:
            return False
    return True


def text(row: ForeignObject, key: str) -> str | None:
    """Return a text, or an integer as text, as some ids are; None if missing or blank."""
    value = row.get(key)
    if isinstance(value, str):
        return value if value.strip() else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else None


def objects_in(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; empty if it is not a list."""
    return (
        [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []
    )


def row_scenario_id(row: ForeignObject) -> str:
    """Return the row's scenario id, unchanged. Raises `UnfitError` if it has none."""
    name = text(row, "id")
    if name is None:
        raise UnfitError("id", f"expected an id, found {kind_of(row.get('id'))}")
    return name


def target_name(row: ForeignObject, folder: str | None) -> str:
    """Return `target_model`, else the target's id, else the folder's name. Raises `UnfitError`."""
    if (named := text(row, "target_model")) is not None:
        return named
    target = row.get("target")
    inner = text(target, "id") if isinstance(target, dict) else text(row, "target")
    name = inner or folder
    if name is None:
        raise UnfitError("target_model", "nothing says which target this is of")
    return name


def sample(row: ForeignObject, default: int = 0) -> int:
    """Return the sample's number from 0. Raises `UnfitError` if it is not a number."""
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
    """The model behind a row's target, without keys and headers."""

    model: str | None
    source: str | None
    base_url: str | None


def target_model(row: ForeignObject) -> TargetModel:
    """Read the row's `target` if that is an object, else the row itself."""
    inner = row.get("target")
    of = inner if isinstance(inner, dict) else row
    return TargetModel(text(of, "model"), text(of, "source"), text(of, "base_url"))


def usage(row: ForeignObject) -> Usage | None:
    """Return the row's usage; None if unknown."""
    value = row.get("_usage")
    return usage_of(value) if isinstance(value, dict) else None


def usage_of(value: ForeignObject) -> Usage | None:
    """Read usage as that of one call, in US dollars and tokens; None if nothing is known."""
    known = Usage(
        1,
        whole_number(value.get("input_tokens")),
        None,
        whole_number(value.get("output_tokens")),
        amount(value.get("cost")),
    )
    empty = known.input_tokens is None and known.output_tokens is None and known.cost_usd is None
    return None if empty else known


def whole_number(value: object) -> int | None:
    """Return a count, rounded; None if the value is not one."""
    number = amount(value)
    return None if number is None else round(number)


def amount(value: object) -> float | None:
    """Return a non-negative, finite number; None if the value is not one."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return None
    # from 2**53 on, a float cannot represent every integer
    return float(value) if math.isfinite(value) and 0 <= value < 2**53 else None


def answer(row: ForeignObject, key: str) -> bool | None:
    """Read yes or no; None if there is no answer. Raises `UnfitError` for anything else."""
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


def passed(row: ForeignObject, present: bool | None, track: Track | None) -> bool | None:  # noqa: FBT001  (a value, not a switch)
    """Return `passed`, else `score`, else what follows from `present`. Raises `UnfitError`."""
    for key in ("passed", "score"):
        verdict = answer(row, key)
        if verdict is not None:
            return verdict
    if present is None or track is None:
        return None
    return track.passes(present=present)


_PUBLISHED_SCENARIO = re.compile(r"scenario_(\d{1,20})_m(\d{1,20})(?:_v(\d{1,20}))?")
LONGEST = 10_000
"""Characters of what may be a name."""
_PUBLISHED_METRIC = re.compile(r"metric_(\d{1,20})")


def our_scenario_id(published: str) -> str | None:
    """Return `m01_s001_v01` for `scenario_001_m01_v01`; None for another format."""
    match = _PUBLISHED_SCENARIO.fullmatch(published)
    if match is None:
        return None
    base = scenario_id(metric_id(int(match[2])), int(match[1]))
    return base if match[3] is None else variant_id(base, int(match[3]))


def our_metric_id(published: str) -> str | None:
    """Return `m01` for `metric_001`; None for another format."""
    match = _PUBLISHED_METRIC.fullmatch(published)
    return None if match is None else metric_id(int(match[1]))


def fitting_name(name: str) -> str | None:
    """Return a similar name that is valid for a target or a benchmark; None for what looks like a
    path, is too long, or has no usable characters."""
    if name_fault(name) is None:
        return name
    if len(name) > LONGEST or _looks_like_path(name):
        return None
    fitting = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    fitting = re.sub(r"\.{2,}", ".", re.sub(r"_{2,}", "_", fitting))
    fitting = fitting.strip("-._")[:NAME_LENGTH].rstrip("-._")
    return fitting if name_fault(fitting) is None else None


def marked_name(name: str, otherwise: str) -> str | None:
    """Return the fitting name, or `otherwise` where there is none, with a digest of the whole name,
    so that no two names share it; None for what looks like a path."""
    if _looks_like_path(name):
        return None
    digest = blake2b(name.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{(fitting_name(name) or otherwise)[: NAME_LENGTH - 9].rstrip('-._')}-{digest}"


def _looks_like_path(name: str) -> bool:
    return name.startswith(("/", "\\", "~")) or ".." in name.replace("\\", "/").split("/")


@dataclass(slots=True)
class Names:
    """Maps their names to ours, one to one, ignoring case."""

    otherwise: str = "target"
    """What a name without usable characters begins with."""
    stored: Mapping[str, str] = field(default_factory=dict)
    """Names that earlier imports changed: ours, with theirs."""
    mapped: dict[str, str] = field(default_factory=dict)
    """Their names that had to be changed, with ours."""
    taken: dict[str, str] = field(default_factory=dict)
    """Our names, case-folded, with theirs."""
    _known: dict[str, str | None] = field(default_factory=dict)
    """Cached results: many rows have the same few names."""

    def ours(self, theirs: str) -> str | None:
        """Return our name; None if theirs looks like a path."""
        if theirs not in self._known:
            self._known[theirs] = self._free_name(theirs)
        return self._known[theirs]

    def _free_name(self, theirs: str) -> str | None:
        for name in (fitting_name(theirs), marked_name(theirs, self.otherwise)):
            if name is None or self.stored.get(name, theirs) != theirs != name:
                continue
            if self.taken.setdefault(name.casefold(), theirs) == theirs:
                if name != theirs:
                    self.mapped[theirs] = name
                return name
        return None


REMOVED: Final = "[key removed]"

_KEY_NAMES: Final = frozenset(
    "apikey authorization bearer token accesstoken secret secretkey password credentials "
    "headers extraheaders defaultheaders".split()
)
_SAID: Final = frozenset({"transcript"})
"""Keys whose values are speech, not settings."""
_NESTED_SECRETS: Final = (dict, list)
_SHORTEST: Final = 8
"""Shorter values are too likely to occur in a text by chance."""


@lru_cache(maxsize=4096)  # every row has the same few names
def is_secret(name: str) -> bool:
    """Whether the value of this key is, or may contain, a credential."""
    plain = "".join(char for char in name.lower() if char.isalnum())
    return plain in _KEY_NAMES or plain.endswith("apikey")


def without_secrets(value: object) -> object:
    """Return the value without credentials and headers, at any depth."""
    if isinstance(value, dict):
        return {
            name: without_secrets(member)
            for name, member in value.items()
            if not (isinstance(name, str) and is_secret(name))
        }
    if isinstance(value, list):
        return [without_secrets(member) for member in value]
    return value


def secrets_in(value: object) -> frozenset[str]:
    """Return the values of all credentials, which may occur in texts as well."""
    texts: list[str] = []
    left = [value]
    while left:
        container = left.pop()
        if isinstance(container, dict):
            for name, member in container.items():
                if is_secret(name):
                    texts += _texts(member)
                elif isinstance(member, _NESTED_SECRETS) and name not in _SAID:
                    left.append(member)
        elif isinstance(container, list):
            left += [member for member in container if isinstance(member, _NESTED_SECRETS)]
    return frozenset(texts)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        bare = value.removeprefix("Bearer ").strip()
        if len(bare) >= _SHORTEST and not bare.startswith("${"):
            yield bare
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)


def without_texts(value: Any, secrets: frozenset[str]) -> Any:
    """Return the value with these secrets replaced wherever they occur in a text, at any depth."""
    if isinstance(value, dict):
        return {name: without_texts(member, secrets) for name, member in value.items()}
    if isinstance(value, list):
        return [without_texts(member, secrets) for member in value]
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REMOVED)
    return value


# Objects of our own files

K = TypeVar("K")

_LARGEST: Final = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970: no number of a row is larger."""


def read_as(kind: type[K], value: object) -> K | None:
    """Return a value of our own files as this type; None if it does not fit."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def row_of(kind: type[K], row: object, names: str, **given: object) -> K | None:
    """Return an object with the fields of these names, as the row has them, and those that are
    `given`; None if any does not fit, or is a number that no store holds."""
    if not isinstance(row, Mapping):
        return None
    values = {name: row[name] for name in names.split() if name in row} | given
    numbers = (value for value in values.values() if isinstance(value, _NUMBERS))
    return read_as(kind, values) if all(0 <= number <= _LARGEST for number in numbers) else None


def rows_of(kind: type[K], listed: object, names: str, **given: object) -> list[K]:
    """Return those of a list that `row_of` returns."""
    rows = (row_of(kind, row, names, **given) for row in objects_in(listed))
    return [row for row in rows if row is not None]


def time_of(value: object) -> int | None:
    """Return milliseconds since 1970; None if it is no such number."""
    is_time = type(value) is int and 0 <= value <= _LARGEST
    return value if is_time and isinstance(value, int) else None


def depends_of(row: ForeignObject) -> Depends | None:
    """Return what a row was made from, as its digests; None if that is not told."""
    return read_as(dict[str, str], row.get("depends"))
