"""Takes values out of decoded JSON, each checked for its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)


class MessageError(ValueError):
    """A line is not what it should be. Says what was found and what was expected."""


class Fields:
    """The fields of one object; those that nobody asks for are ignored."""

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise MessageError(f"{what}: expected an object")
        self._values: Mapping[str, object] = value
        self._what = what

    def text(self, name: str) -> str:
        return self._need(name, self.text_or_none(name))

    def text_or_none(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "a string")

    def whole(self, name: str) -> int:
        return self._need(name, self.whole_or_none(name))

    def whole_or_none(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._wrong(name, "a whole number")

    def number(self, name: str) -> float:
        return self._need(name, self.number_or_none(name))

    def number_or_none(self, name: str) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self._wrong(name, "a number")

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if isinstance(value, bool):
            return value
        raise self._wrong(name, "true or false")

    def word(self, name: str, words: type[_E]) -> _E:
        return self._need(name, self.word_or_none(name, words))

    def word_or_none(self, name: str, words: type[_E]) -> _E | None:
        text = self.text_or_none(name)
        if text is None:
            return None
        try:
            return words(text)
        except ValueError:
            raise self._wrong(name, f"one of {', '.join(words)}") from None

    def each(self, name: str, read: Callable[[object], _T]) -> list[_T]:
        """What a list holds; nothing where it is missing."""
        value = self._values.get(name)
        if value is None:
            return []
        if isinstance(value, list):
            return [read(item) for item in value]
        raise self._wrong(name, "a list")

    def pairs(self, name: str, read: Callable[[object], _T]) -> dict[str, _T]:
        """What an object holds by name; nothing where it is missing."""
        value = self._values.get(name)
        if value is None:
            return {}
        if isinstance(value, dict):
            return {key: read(item) for key, item in value.items()}
        raise self._wrong(name, "an object")

    def value(self, name: str) -> object:
        return self._values.get(name)

    def _need(self, name: str, value: _T | None) -> _T:
        if value is None:
            raise MessageError(f"{self._what}: {name!r} is missing")
        return value

    def _wrong(self, name: str, expected: str) -> MessageError:
        return MessageError(f"{self._what}: {name!r} is not {expected}")


def as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise MessageError("expected a string")


def as_whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MessageError("expected a whole number")
