"""Ids that begin with what a person typed, the exact one first."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.store.reader import Reader

AT_MOST: Final = 40
"""More than these are too many to choose from: type another letter."""


class FoundId(NamedTuple):
    benchmark: str
    id: str
    kind: str
    """`scenario` or `conversation`."""


def find(reader: Reader, typed: str, limit: int = AT_MOST) -> list[FoundId]:
    """Ids of things that have a screen of their own. Raises `StoreError`."""
    prefix = typed.strip()
    if not prefix:
        return []
    found = reader.find_ids(prefix, limit, without="metric")
    return sorted((FoundId(*each) for each in found), key=lambda each: each.id != prefix)
