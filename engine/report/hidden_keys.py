"""Hides keys that a server repeated, in whatever leaves the workspace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from html import escape
from typing import Any, Final
from urllib.parse import quote

SHORTEST: Final = 12
"""Characters: shorter keys are not searched for, as `ollama` or `EMPTY` may be plain words."""
HIDDEN: Final = "[hidden]"

Hide = Callable[[Any], Any]
"""Returns a value of any type without keys in its texts."""


def spellings(secret: str) -> set[str]:
    """The key as it stands in texts, JSON, scripts, pages, pictures and links; empty for one that
    is too short."""
    if len(secret) < SHORTEST:
        return set()
    in_json, in_page = json.dumps(secret)[1:-1], escape(secret, quote=False)
    in_script = in_json.replace("<", "\\u003c")
    # the templates write quotes as numbers, pictures by their names
    in_template = in_page.replace('"', "&#34;").replace("'", "&#39;")
    return {secret, in_json, in_script, in_template, escape(secret), quote(secret, safe="")}


def hiding(secrets: Iterable[str]) -> Hide:
    """Return a function that hides these keys in every text of a value, whatever it is made of."""
    # the longest first: a text that contains another one is replaced as a whole
    texts = {text for secret in secrets for text in spellings(secret)}
    found = sorted(texts, key=len, reverse=True)
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
