"""The words of a text, as search finds them, and where they stand.

A word is a run of letters and digits. Scripts that put no spaces between words have no such runs,
so of them each character is a word, together with the marks on it, and a query of several is a
phrase. Every emoji is a word, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from engine.quotes import Span

MOST_TERMS: Final = 32
"""A pasted page would otherwise be a query of thousands of words."""
_QUERY_LENGTH: Final = 1000
_PREFIX_LETTERS: Final = 4
"""Letters of a prefix query; shorter prefixes match nearly every text and are slow."""

# Thai, Lao, Tibetan, Burmese, Khmer and the scripts of the Tai languages
_WITH_MARKS: Final = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
    "\u3041-\u30ff"  # kana, whose voicing marks can be characters of their own
)
# Chinese characters of every plane, the signs among them that are letters, Bopomofo, other kana
_SINGLE: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3035\u3100-\u312f\u31a0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_EMOJI: Final = (
    "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001faff"
)


def _marks() -> str:
    """Return the characters that stand on another one, in scripts without spaces."""
    ends = zip(_WITH_MARKS[::3], _WITH_MARKS[2::3], strict=True)
    characters = (chr(code) for a, b in ends for code in range(ord(a), ord(b) + 1))
    return "".join(each for each in characters if unicodedata.category(each)[0] == "M")


_DIACRITICS: Final = "\u0300-\u036f"
_ALONE: Final = rf"(?=\w)[{_WITH_MARKS}{_SINGLE}][{_marks()}]*|[{_EMOJI}]"
# without alternatives, as that is ten times as fast on text that has nothing of it
_SPECIAL: Final = re.compile(f"[{_WITH_MARKS}{_SINGLE}{_EMOJI}{_DIACRITICS}]+")
_RUN: Final = rf"[^\W_{_WITH_MARKS}{_SINGLE}{_EMOJI}]"
_WORD: Final = re.compile(f"{_ALONE}|{_RUN}(?:{_RUN}|[{_DIACRITICS}])*")
_TERM: Final = re.compile(r'"([^"]*)"?|(\S+)')


class Term(NamedTuple):
    """Words that stand one after the other."""

    words: tuple[str, ...]
    is_prefix: bool
    """Whether the last one is only the beginning of a word."""


def plain(text: str) -> str:
    """Return the text in which FTS5's `unicode61` finds the words of this module: without
    diacritics, and a word of a single character as the letter `u` and its number."""
    if text.isascii():
        return text
    return _SPECIAL.sub(_codes, unicodedata.normalize("NFD", text))


def _codes(run: re.Match[str]) -> str:
    words = _WORD.findall(run[0])
    if not words:  # diacritics, or what is no word either
        return "" if "\u0300" <= run[0][0] <= "\u036f" else " "
    return f" {' '.join(map(_code, words))} "


@lru_cache(maxsize=1 << 13)
def _code(word: str) -> str:
    return "".join(f"u{ord(character):x}" for character in word)


def terms_of(query: str) -> list[Term]:
    """Parse what a person types: words, "phrases" and `begin*`. No other character has a meaning,
    and only the first terms count."""
    terms = []
    for match in _TERM.finditer(query[:_QUERY_LENGTH]):
        phrase, word = match.groups()
        term = phrase or word or ""
        found = _WORD.findall(term)
        if not found:
            continue
        is_long = sum(map(len, found)) >= _PREFIX_LETTERS
        is_prefix = word is not None and word.endswith("*") and not _SPECIAL.match(found[-1])
        terms.append(Term(tuple(map(_folded, found)), is_prefix and is_long))
    return terms[:MOST_TERMS]


def matches(text: str, terms: Sequence[Term]) -> list[Span] | None:
    """Return where the terms stand, in order and without overlaps; None if one is missing."""
    inside = plain(text).lower()
    if not all(word in inside for term in terms for word in term.words):
        return None  # as of most texts, without a look at each word
    words = [(_folded(found[0]), *found.span()) for found in _WORD.finditer(text)]
    spans: list[Span] = []
    for term in terms:
        found = list(_places(words, term))
        if not found:
            return None
        spans += found
    return _merged(sorted(spans))


@lru_cache(maxsize=1 << 14)
def _folded(word: str) -> str:
    return plain(word).strip().lower()


def _places(words: Sequence[tuple[str, int, int]], term: Term) -> Iterator[Span]:
    *firsts, last = term.words
    for at in range(len(words) - len(firsts)):
        end = words[at + len(firsts)]
        is_last = end[0].startswith(last) if term.is_prefix else end[0] == last
        if is_last and all(words[at + index][0] == word for index, word in enumerate(firsts)):
            yield words[at][1], end[2]


def _merged(spans: list[Span]) -> list[Span]:
    merged = spans[:1]
    for begin, end in spans[1:]:
        if begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
