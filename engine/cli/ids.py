"""From an id, or the beginning of one, to what it names in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.benchmark import ConversationKey, base_id
from engine.branches import Branch
from engine.cli.arguments import nearest_word
from engine.errors import InputError, Problem
from engine.store.reader import Reader


@dataclass(frozen=True, slots=True)
class Named:
    """What an id names."""

    benchmark: str
    id: str
    kind: str
    """`metric`, `scenario` or `conversation`."""


def find(reader: Reader, text: str, *, benchmark: str | None = None) -> Named:
    """The one thing that has this id, or whose id alone begins so.

    Raises `InputError` where there is none or more than one, and says what comes near.
    """
    known = [Named(*row) for row in reader.find_ids("", limit=-1) if _looked_at(row[0], benchmark)]
    exact = [one for one in known if one.id == text]
    found = exact or [one for one in known if one.id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if not found:
        near = nearest_word(text, {one.id for one in known})
        hint = f"did you mean {near}?" if near else "`crosswind search` finds by words"
        raise InputError(Problem(f"there is nothing with the id {text!r}", hint=hint))
    if exact:
        names = ", ".join(sorted({one.benchmark for one in found}))
        hint = "say which with --benchmark"
        raise InputError(Problem(f"{text!r} is in several benchmarks: {names}", hint=hint))
    listed = ", ".join(sorted({one.id for one in found})[:8])
    raise InputError(Problem(f"{text!r} begins {len(found)} ids", hint=f"such as {listed}"))


def conversations(
    reader: Reader, texts: Sequence[str], *, benchmark: str | None = None
) -> dict[str, frozenset[ConversationKey]]:
    """Every conversation that was played of the things with these ids, by benchmark."""
    found: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for text in texts:
        matches = _played(reader, text, benchmark)
        if not matches:
            named = find(reader, text, benchmark=benchmark)
            raise InputError(Problem(f"no conversation of {named.id} was played yet"))
        for name, keys in matches.items():
            found[name] |= keys
    return {name: frozenset(keys) for name, keys in found.items()}


def _looked_at(name: str, benchmark: str | None) -> bool:
    """A validation run has the ids of its original once more, so it must be named."""
    return Branch.parse(name) is None if benchmark is None else name == benchmark


def _played(reader: Reader, text: str, benchmark: str | None) -> dict[str, set[ConversationKey]]:
    """Of a conversation itself, of a scenario, of a base scenario's variants, of a metric."""
    found: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for name in reader.benchmarks():
        if not _looked_at(name, benchmark):
            continue
        for take in reader.takes(name):
            key = take.key
            mine = {str(key), key.scenario_id, base_id(key.scenario_id)}
            if text in mine or key.scenario_id.startswith(f"{text}_s"):
                found[name].add(key)
    if len(found) > 1:
        names = ", ".join(sorted(found))
        hint = "say which with --benchmark"
        raise InputError(Problem(f"{text!r} is in several benchmarks: {names}", hint=hint))
    return found
