"""Choices that look free and are repeatable in every process and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from engine.identity import seed_from

T = TypeVar("T")


class Draw:
    """A row of choices that follows from its parts alone.

    Only `Random.random` and `Random.randrange` are used: what `choice` and `shuffle` make of a
    seed may differ between Python versions.
    """

    def __init__(self, *parts: str | int) -> None:
        self._random = Random(seed_from(*(_encodable(part) for part in parts)))

    def fraction(self) -> float:
        return self._random.random()

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, count: int) -> int:
        return self._random.randrange(count)

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        left = list(options)
        return [left.pop(self._random.randrange(len(left))) for _ in range(len(left))]


def _encodable(part: str | int) -> str | int:
    """Half of a surrogate pair is text to Python and to some files, but has no bytes."""
    if isinstance(part, int) or part.isascii():
        return part
    return part.encode("utf-8", "backslashreplace").decode("utf-8")
