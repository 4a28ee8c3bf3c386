"""Reads the sentences that the scripted models speak with: one a line, under `[headings]`."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


@cache
def lines_of(name: str) -> dict[str, tuple[str, ...]]:
    """The lines of `<name>.txt` by heading; `\\n` in a line is a line break."""
    text = resources.files(__package__).joinpath(f"{name}.txt").read_text("utf-8")
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            heading = line[1:-1]
            found[heading] = []
        elif line and not line.startswith("#"):
            found[heading].append(line.replace("\\n", "\n"))
    return {heading: tuple(said) for heading, said in found.items()}


def word_list(heading: str) -> frozenset[str]:
    """The words under this heading of `words.txt`."""
    return frozenset(" ".join(lines_of("words")[heading]).split())


@cache
def cues_of(name: str) -> dict[str, re.Pattern[str]]:
    """The expressions of `cues_<name>.txt` by heading, each from the beginning of a word."""
    return {
        heading: re.compile(rf"\b(?:{'|'.join(told)})", re.IGNORECASE)
        for heading, told in lines_of(f"cues_{name}").items()
    }
