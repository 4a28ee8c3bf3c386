"""Families of things to do in words: how a definition tells of them, how a reply does them.

They stand in `lexicon.txt`. A family is chosen by the words of a definition and then looked for in
what an assistant said. Nothing passes between this and the scripted targets: it is held to general
language, and it errs as such a list must.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from string import Template
from typing import Final

_HEAD: Final = re.compile(r"\[(\w+)\] (.+)")


@dataclass(frozen=True, slots=True)
class WordFamily:
    """One kind of thing to do in words."""

    key: str
    doing: str = field(compare=False)
    """What the assistant does, to follow "the assistant …"."""
    told: tuple[str, ...] = field(compare=False)
    shown: tuple[str, ...] = field(compare=False)
    """Plain enough to rest a decision on."""
    hinted: tuple[str, ...] = field(compare=False)
    straight: bool = field(compare=False)
    """Whether it is not done inside "if …" or "before you …": an order is not, a risk is."""


@cache
def families() -> tuple[WordFamily, ...]:
    text = resources.files(__package__).joinpath("lexicon.txt").read_text("utf-8")
    return tuple(_read(text.splitlines()))


def _read(lines: list[str]) -> list[WordFamily]:
    named: dict[str, str] = {}
    heads: list[tuple[str, str]] = []
    kinds: list[dict[str, list[str]]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        head = _HEAD.fullmatch(line)
        if not line or line.startswith("#"):
            continue
        if head:
            heads.append((head[1], head[2]))
            kinds.append({"told": [], "shown": [], "hinted": [], "straight": []})
        elif word == "let":
            name, _, named[name] = rest.partition(" ")
        else:
            kinds[-1][word].append(Template(rest).safe_substitute(named))
    return [
        WordFamily(
            key,
            doing,
            tuple(kind["told"]),
            tuple(kind["shown"]),
            tuple(kind["hinted"]),
            bool(kind["straight"]),
        )
        for (key, doing), kind in zip(heads, kinds, strict=True)
    ]


@cache
def any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for many; compiled when first needed, as few families ever are."""
    if not patterns:
        return re.compile(r"(?!)")
    return re.compile("|".join(rf"\b(?:{pattern})(?!\w)" for pattern in patterns))
