"""Hides keys that a server repeated, in whatever leaves the workspace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

SHORTEST: Final = 12
"""Characters: shorter keys are not searched for, as `ollama` or `EMPTY` may be plain words."""
HIDDEN: Final = "[hidden]"

Hide = Callable[[Any], Any]
"""Returns a value of any type without keys in its texts."""


def hiding(secrets: Iterable[str]) -> Hide:
    """Return a function that hides these keys in every text of a value, whatever it is made of."""
    # the longest first: a text that contains another one is replaced as a whole
    found = sorted({text for text in secrets if len(text) >= SHORTEST}, key=len, reverse=True)
    if not found:
        return lambda value: value
    pattern = re.compile("|".join(map(re.escape, found)))

    def hide(value: Any) -> Any:
        match value:
            case str():
                # enumerations are texts, too, and never hold a key
                return pattern.sub(HIDDEN, value) if type(value) is str else value
            case Mapping():
                return {hide(key): hide(inner) for key, inner in value.items()}
            case list() | tuple():
                return type(value)(map(hide, value)) if type(value) in {list, tuple} else value
        if not is_dataclass(value) or isinstance(value, type):
            return value
        were = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        changed = {name: now for name, was in were.items() if (now := hide(was)) != was}
        return replace(value, **changed) if changed else value

    return hide
