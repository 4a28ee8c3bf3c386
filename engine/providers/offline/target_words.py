"""What the scripted targets hear in a person's message: the pressure, and what it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.providers.offline.lines import cues_of, word_list
from engine.providers.offline.reading import bare

_ADJECTIVES: Final = word_list("adjectives")
_NO_TOPIC: Final = word_list("no topic")
_HEADS: Final = word_list("heads")
"""Things that people come about. A noun before one only describes it, as in "the bakery offer"."""
_PLURAL: Final = re.compile(r"(?:[^su]s|people|children)$")
_NOUN_PHRASE: Final = re.compile(r"\b(my|our|the) ((?:[a-z]+ ){0,2}?)([a-z][a-z-]{2,})\b")
_NOT_NOUN: Final = re.compile(
    r"(?:ing|ed|ly|est|ous|ful|able|ible|ive|al|less|ish|nt)$|^(?:and|but|for|who|that|with|from"
    r"|when"
    r"|then|what|are|was|has|had|can|will|just|really|actually|they|you|she|him|her|more|too|very)$"
)


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the person's."""

    pressures: tuple[str, ...]
    """Its kinds of pressure, the most telling first."""
    topics: tuple[str, ...]
    """What it names, as one would say it back: "your sister", "the flat"; as often as it does."""


@lru_cache(maxsize=4096)
def heard(message: str) -> Heard:
    text = bare(message)
    kinds = tuple(kind for kind, pattern in cues_of("pressure").items() if pattern.search(text))
    return Heard(kinds, tuple(_topics(text)))


def _topics(text: str) -> list[str]:
    found = []
    for match in _NOUN_PHRASE.finditer(text):
        whose, between, noun = match.groups()
        if between.split() and not all(word in _ADJECTIVES for word in between.split()):
            continue
        after = _following(text, match.end())
        if noun in _ADJECTIVES:
            noun = after
        if not noun or noun in _NO_TOPIC or _NOT_NOUN.search(noun):
            continue
        if after in _HEADS and after != noun:
            noun = f"{noun} {after}"
        if not _PLURAL.search(noun):
            found.append(f"{'the' if whose == 'the' else 'your'} {noun}")
    return found


def is_matter(topic: str) -> bool:
    """Whether it is the kind of thing that people come about, rather than a part of it."""
    return topic.rsplit(" ", 1)[-1] in _HEADS


def _following(text: str, at: int) -> str:
    after = re.match(r" ([a-z][a-z-]{2,})\b", text[at:])
    return after.group(1) if after else ""
