"""Text tools of the scripted models: stock lines, stems, sentences, tags, and reproducible random
choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from random import Random
from typing import Final, TypeVar

from engine.identity import seed_from


@cache
def lines_of(name: str) -> dict[str, tuple[str, ...]]:
    """Return the lines of `<name>.txt` by heading."""
    text = resources.files(__package__).joinpath(f"{name}.txt").read_text("utf-8")
    by_heading: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            heading = line[1:-1]
            by_heading[heading] = []
        elif line and not line.startswith("#"):
            by_heading[heading].append(line)
    return {heading: tuple(texts) for heading, texts in by_heading.items()}


LONGEST: Final = 32_768
"""Characters of a text that a script reads: more than any definition, role or message has, and few
enough that none of their patterns is slow."""

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SENTENCE: Final = re.compile(r"[^\n.!?…]*(?:[.!?…]+(?=[\s\"'”’*_)]|$)[\"'”’*_)]*|[.!?…]+|\n|$)")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)]|#+|>)\s+")
_CURLY: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"'})
_LIGHT_MARKDOWN: Final = re.compile(r"[*_`#]+")


@lru_cache(maxsize=4096)
def token_count(text: str) -> int:
    """Estimate tokens as words and punctuation marks, within about a quarter. A long text is
    extrapolated from its beginning."""
    counted = len(_TOKEN.findall(text[:LONGEST]))
    return counted if len(text) <= LONGEST else counted * len(text) // LONGEST


def tagged(text: str, name: str) -> str | None:
    """Return the text between `<name>` and `</name>`, cut to `LONGEST`; None if there is none."""
    inside, closing, _ = text.partition(f"<{name}>")[2].partition(f"</{name}>")
    return inside.strip()[:LONGEST] if closing else None


@lru_cache(maxsize=2048)
def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences and list items of a text, unchanged except for list marks."""
    sentences_read: list[str] = []
    unfinished = ""
    text = text[:LONGEST]
    for match in _SENTENCE.finditer(text):
        piece = match.group()
        unfinished += piece
        # a point that a letter or digit follows is within a word, such as 3.5 or example.com
        ends_inside = piece.endswith(".") and text[match.end() : match.end() + 1].isalnum()
        if ends_inside and not piece.endswith("\n"):
            continue
        sentence = _LIST_MARK.sub("", unfinished.strip())
        unfinished = ""
        if any(char.isalnum() for char in sentence):
            sentences_read.append(sentence)
    return tuple(sentences_read)


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Normalize: lower case, straight quotation marks, no light Markdown, single spaces."""
    folded = _LIGHT_MARKDOWN.sub("", text[:LONGEST].translate(_CURLY)).lower()
    return " ".join(folded.split())


@lru_cache(maxsize=2048)
def bare(text: str) -> str:
    """As `plain`, but without apostrophes, which people in a hurry leave out."""
    return plain(text).replace("'", "")


def words(text: str) -> list[str]:
    return _WORD.findall(plain(text))


_ENDINGS: Final = (
    "ations", "ation", "nesses", "ness", "ments", "ment", "ings", "ing", "edly", "ed",
    "ies", "ily", "ally", "ly", "ers", "er", "es", "s", "e", "y",
)  # fmt: skip


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Strip a word's ending, crudely: enough to see that two words are related."""
    for ending in _ENDINGS:
        # three letters must be left, or short words would all become related
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


COMMON_WORDS: Final = frozenset(" ".join(lines_of("words")["common"]).split())
"""Words without a subject of their own, and words that are in any definition."""


@lru_cache(maxsize=512)
def content_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words that carry a text's subject, in order, without repetitions."""
    stems = [stem(word) for word in words(text) if word not in COMMON_WORDS and len(word) > 2]
    return tuple(dict.fromkeys(stems))


T = TypeVar("T")


class SeededChoices:
    """A random generator seeded by its parts.

    It uses only `Random.random` and `Random.randrange`: the results of `choice` and `shuffle` for a
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
    """Escape lone surrogates, which Python and some files allow but which have no bytes."""
    if isinstance(part, int) or part.isascii():
        return part
    return part.encode("utf-8", "backslashreplace").decode("utf-8")
