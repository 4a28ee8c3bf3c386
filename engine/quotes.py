"""Finds passages that somebody copied from a message in that message again.

Small changes are tolerated: white space, quotation marks, dashes, light Markdown, the case of the
first letter, final punctuation, JSON escapes, and omissions marked by an ellipsis. A single word is
no passage, because it can occur anywhere, unless it is the whole message.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

Span = tuple[int, int]

NO_QUOTE_FOUND: Final = "none of this verdict's evidence was found in what the target said"
"""A note on a verdict that remains valid."""

MOST_PARTS: Final = 8
"""The most parts between ellipses; a passage with more is a summary."""

LONGEST: Final = 20_000
"""The most characters of a passage; longer ones are never found."""

_MARKS: Final = tuple(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u2026": "...",
        # bold and italics: text copied from a rendered reply lacks the marks
        "*": "",
        "_": "",
    }.items()
)
"""Marks and their plain replacements."""
_ELLIPSIS: Final = re.compile(r"[\[(]?\.{3,}[\])]?")
_ESCAPES: Final = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')
_LAST_MARKS: Final = "\"' .,;:!?\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f"
_WITHOUT_BLANKS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD: Final = re.compile(rf"[{_WITHOUT_BLANKS}]{{1,2}}|[^\W{_WITHOUT_BLANKS}]+")
"""In a script without spaces, two characters count as a word."""


def is_one_word(passage: str) -> bool:
    """Whether no part of the passage has more than one word."""
    return all(len(_WORD.findall(part)) < 2 for part in _ELLIPSIS.split(_plain(passage[:LONGEST])))


def why_not_found(passage: str) -> str:
    """Why a passage is not found in any message, for people."""
    return "one word is no quote" if is_one_word(passage) else "not found in the transcript"


def contains(message: str, passage: str) -> bool:
    return _find_spans(_plain_message(message), passage) is not None


def find_passage(message: str, passage: str) -> tuple[Span, ...]:
    """The span of each part of the passage in the message; empty where it is not found."""
    plain = _plain_message(message)
    return tuple(_original_span(message, plain, span) for span in _find_spans(plain, passage) or ())


def _original_span(message: str, plain: str, span: Span) -> Span:
    """Map a span of the plain text to the original message."""
    wanted = plain[slice(*span)]
    at = message.find(wanted)
    # unique in both: no search by offset is needed
    if 0 <= at == message.rfind(wanted) and plain.find(wanted) == plain.rfind(wanted):
        return at, at + len(wanted)
    return _offset(message, span[0]), _offset(message, span[1] - 1) + 1


def _plain(text: str) -> str:
    for mark, plain in _MARKS:  # ten times as fast as str.translate for text that is not ASCII
        if mark in text:
            text = text.replace(mark, plain)
    return " ".join(text.split())


_plain_message = lru_cache(maxsize=256)(_plain)
"""Cached for whole messages, because several passages are looked for in each."""


def _offset(text: str, place: int) -> int:
    """The offset in `text` of the character that is at `place` in its `_plain` form and is no
    blank: the shortest prefix of `text` whose plain form reaches `place` ends with it."""
    return bisect_left(range(len(text)), place + 1, key=lambda end: len(_plain(text[: end + 1])))


def _find_spans(plain: str, passage: str) -> list[Span] | None:
    for copied in _possible_readings(passage[: LONGEST + 1]):
        wanted = _without_marks(_plain(copied))
        if not wanted or len(passage) > LONGEST:
            continue
        if _is_whole(plain, wanted):
            return [(0, len(plain))]
        if is_one_word(wanted):
            continue
        span = _span(plain, wanted, 0)
        spans = [span] if span else _in_order(plain, wanted)
        if spans is not None:
            return spans
    return None


def _possible_readings(passage: str) -> Iterator[str]:
    """Yield the passage as it is, and with its JSON escapes decoded."""
    yield passage
    meant = _ESCAPES.sub(lambda escapes: str(json.loads(f'"{escapes[0]}"')), passage)
    if meant != passage:
        yield meant


def _without_marks(plain: str) -> str:
    return plain.strip("\"' ").removesuffix("...").removeprefix("...").strip()


def _is_whole(plain: str, wanted: str) -> bool:
    message, passage = (text.strip(_LAST_MARKS).casefold() for text in (plain, wanted))
    return message == passage and bool(message)


def _in_order(plain: str, wanted: str) -> list[Span] | None:
    parts = [part for piece in _ELLIPSIS.split(wanted) if (part := _without_marks(piece))]
    if not 1 < len(parts) <= MOST_PARTS:
        return None
    spans: list[Span] = []
    for part in parts:
        span = _span(plain, part, spans[-1][1] if spans else 0)
        if span is None:
            return None
        spans.append(span)
    return spans


def _span(plain: str, wanted: str, start: int) -> Span | None:
    """The first span of `wanted` from `start` on, ignoring the case of its first letter, and
    without its final punctuation where it is not found with it."""
    for copied in dict.fromkeys((wanted, wanted.rstrip(_LAST_MARKS))):
        first, rest = copied[:1], copied[1:]
        # a quote at the beginning of a sentence is often capitalised
        for begin in dict.fromkeys((first, first.lower(), first.upper())):
            at = start - 1
            while copied and (at := plain.find(begin + rest, at + 1)) >= 0:
                end = at + len(begin + rest)
                if not (_cuts_a_word(plain, at) or _cuts_a_word(plain, end)):
                    return at, end
    return None


def _cuts_a_word(plain: str, at: int) -> bool:
    """Whether `at` lies between two letters of one word. Scripts without case may omit spaces."""
    around = plain[max(0, at - 1) : at + 1]
    return len(around) == 2 and at > 0 and all(_is_of_a_word(char) for char in around)


def _is_of_a_word(char: str) -> bool:
    return char.isdecimal() or char.lower() != char.upper()
