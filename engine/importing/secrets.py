"""Keys and headers that old files hold: found, taken out, and never told."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

REMOVED: Final = "[key removed]"

_KEY_NAMES: Final = frozenset(
    "apikey authorization bearer token accesstoken secret secretkey password credentials "
    "headers extraheaders defaultheaders".split()
)
_SAID: Final = frozenset({"transcript"})
"""Holds words and no settings."""
_NESTED_SECRETS: Final = (dict, list)
_SHORTEST: Final = 8
"""A shorter value is too likely to stand in a text by chance."""


@lru_cache(maxsize=4096)  # the same few names, in every row
def is_secret(name: str) -> bool:
    plain = "".join(char for char in name.lower() if char.isalnum())
    return plain in _KEY_NAMES or plain.endswith("apikey")


def without_secrets(value: object) -> object:
    """The same, without any key or header in it, however deep."""
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
    """The values of all keys and headers, each of which may stand in a text as well."""
    found: list[str] = []
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            for name, member in one.items():
                if is_secret(name):
                    found += _texts(member)
                elif isinstance(member, _NESTED_SECRETS) and name not in _SAID:
                    left.append(member)
        elif isinstance(one, list):
            left += [member for member in one if isinstance(member, _NESTED_SECRETS)]
    return frozenset(found)


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


def cleaned(text: str, secrets: frozenset[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REMOVED)
    return text
