"""Finds passages that somebody copied from a message in that message again, by their words.

Words are compared as they are read, however they are written: compatibility forms (NFKC), case,
vowel signs, markup, escapes, punctuation and numbering of lists make no difference, and a spelled
number equals a written one. One word in eight may be changed, left out or put in, but never a
negation, a number, or a word that is capitalised inside a sentence: those change what is said.
Omissions may be marked by an ellipsis. A single word is no passage, because it can occur anywhere,
unless it is the whole message.

Of 33 ways in which judges copy a passage 30 are found (half of them were before this compared
words), of 28 spellings of the same words 26; of 600 passages of other transcripts none.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import unescape
from itertools import accumulate, islice
from string import punctuation
from typing import Final, NamedTuple

Span = tuple[int, int]

NO_QUOTE_FOUND: Final = "none of this verdict's evidence was found in what the target said"
"""A note on a verdict that remains valid."""

MOST_PARTS: Final = 8
"""The most parts between ellipses; a passage with more is a summary."""

LONGEST: Final = 20_000
"""The most characters of a passage; longer ones are never found."""

_EDITS: Final = 0.125
"""The share of a passage's words that may be edited."""
_LONGEST_EDITED: Final = 200
"""The most words of a passage that is compared with edits, which takes time. Judges are asked for
two sentences at most."""
_MOST_PLACES: Final = 20
"""The most places of a message at which an edited passage is compared."""
_ONE_LETTER: Final = 5
"""The fewest words of a passage of which one may be spelt differently (toward, towards)."""

_ELLIPSIS: Final = re.compile(r"[\[(]?(?:\.{3,}|…)[\])]?")
_ESCAPES: Final = re.compile(r'(?:\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))+')
_INSERTED: Final = re.compile(r"\[[^\[\]\n]{1,40}\](?!\()")
"""A remark of whoever copied, such as `[sic]`, and no link."""
_LABEL: Final = re.compile(
    r"\A\W{0,9}(?:(?:the )?assistant|ai|target|(?:message|reply|turn|response) #?\d{1,3})"
    r"(?: \([^()\n]{1,20}\))? ?[:：]|\((?:message|reply|turn|response) #?\d{1,3}\)\W{0,9}\Z",
    re.IGNORECASE,
)
"""Who speaks, before a passage, or the number of the message, before or after it."""
_WITHOUT_BLANKS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_ALONE: Final = re.compile(f"[{_WITHOUT_BLANKS}]")
"""In a script without spaces, each character is compared as a word."""
_TOKEN: Final = re.compile(
    # the two most frequent first
    r"(?P<word>[A-Za-z][A-Za-z0-9]*)|(?P<space> (?=[A-Za-z]))"
    # the numbering of a list, at the beginning of a line or, in a copy of one, of a sentence
    r"|(?P<mark>(?:(?<![^\n])|(?<=[.!?;])[ \t]|(?<=:)[ \t](?=\(?1\D))[ \t>*_-]{0,9}"
    r"\(?\d{1,2}[.)](?=\s))"
    # where a link leads, a tag, and an entity
    r"|(?P<markup>\]\([^()\s]{1,2000}\)|</?[a-zA-Z][^<>\n]{0,200}>|&#?\w{1,31};)"
    r"|(?P<number>[0-9][A-Za-z0-9]*)|(?P<other>[^\x00-\x7f])|(?P<apostrophe>')|(?P<blank>[^\w']|_)"
)
_APOSTROPHES: Final = frozenset("'\u2018\u2019\u02bc\u2032\uff07")
_DROPPED: Final = re.compile("[\u0307\u0591-\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f]")
"""Signs of vowels and of writing that the same word may have or lack."""
_MARKS: Final = punctuation + "“”‘’„«»。！？、，；："
_I: Final = frozenset(("I", "Id", "Ill", "Im", "Ive"))
"""Capitalised for no reason of meaning."""
_ENDS: Final = frozenset('.!?:;。！？：；…\n"“”„«»()[]*#>-–—|')
"""Characters after which a word may be capitalised because a sentence begins."""
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen twenty"
        ).split()
    )
}
_NEGATIONS: Final = frozenset(
    (
        "no not never none nothing nobody nowhere neither nor without cannot hardly "
        "aint arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt mustnt neednt shant "
        "shouldnt wasnt werent wont wouldnt "
        "nicht nichts nie niemals niemand kein keine keinen keinem keiner ohne "
        "ne pas jamais rien sans aucun aucune nunca nada sin ni non mai senza não nem sem "
        "не нет ни никогда без"
    ).split()
) | frozenset("不没沒無无未别別非勿莫ぬ")
"""An edit of one of these changes what is said."""


class _Word(NamedTuple):
    text: str
    """As it is compared."""
    start: int
    end: int
    """Where it stands in the text as it was written."""
    fixed: bool
    """Whether no edit may change it."""


class _Message:
    """The words of a message, and a text of them in which many can be looked for at once."""

    def __init__(self, text: str) -> None:
        self.words = _words(text)
        # a blank on both sides: no part of a word is taken for a word
        self._text = "".join(f" {word.text}" for word in self.words) + " "
        self._starts = [0, *accumulate(len(word.text) + 1 for word in self.words)]

    def places(self, copied: Sequence[_Word], start: int) -> Iterator[int]:
        """Where these words stand one after the other, from word number `start` on."""
        wanted = "".join(f" {word.text}" for word in copied) + " "
        at = self._text.find(wanted, self._starts[start])
        while at >= 0:
            yield bisect_left(self._starts, at)
            at = self._text.find(wanted, at + 1)


def is_one_word(passage: str) -> bool:
    """Whether no part of the passage has more than one word."""
    parts = (_words(part) for part in _ELLIPSIS.split(passage[:LONGEST]))
    return all(_size(part) < 2 for part in parts)


def why_not_found(passage: str) -> str:
    """Why a passage is not found in any message, for people."""
    return "one word is no quote" if is_one_word(passage) else "not found in the transcript"


def contains(message: str, passage: str) -> bool:
    return bool(find_passage(message, passage))


def find_passage(message: str, passage: str) -> tuple[Span, ...]:
    """The span of each part of the passage in the message; empty where it is not found."""
    if len(passage) > LONGEST:
        return ()
    said = _message(message)
    words = said.words
    if not words:
        alike = bool(message.strip()) and message.strip() == passage.strip()
        return ((0, len(message)),) if alike else ()
    for copied in dict.fromkeys(_possible_readings(passage)):
        if spans := _find(said, copied):
            found = [(words[start].start, words[end - 1].end) for start, end in spans]
            return _with_punctuation(message, copied, found)
    return ()


def _with_punctuation(message: str, copied: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans, with the punctuation before the first and after the last word of the message where
    the copy has some too, in whatever form."""
    words = _words_of_copy(copied)
    before, after = copied[: words[0].start].strip(), copied[words[-1].end :].strip()
    places = [place for span in spans for place in span]
    left = message[max(0, places[0] - len(before)) : places[0]]
    right = message[places[-1] : places[-1] + len(after)]
    places[0] -= len(left) - len(left.rstrip(_MARKS))
    places[-1] += len(right) - len(right.lstrip(_MARKS))
    return tuple(zip(places[::2], places[1::2], strict=True))


def _possible_readings(passage: str) -> Iterator[str]:
    """Yield the passage as it is, without what was added in copying, and with its JSON escapes
    decoded."""
    yield passage
    bare = _LABEL.sub(" ", passage)
    bare = _INSERTED.sub(lambda remark: remark[0] if _is_fixed(remark[0]) else " ", bare)
    yield bare
    yield _ESCAPES.sub(lambda escapes: str(json.loads(f'"{escapes[0]}"')), bare)


def _is_fixed(remark: str) -> bool:
    return any(word.text in _NEGATIONS or word.text.isdecimal() for word in _words(remark))


def _find(said: _Message, passage: str) -> list[Span]:
    """The spans in words; those of a passage with ellipses are in order."""
    wanted = _words_of_copy(passage)
    if wanted and [word.text for word in wanted] == [word.text for word in said.words]:
        return [(0, len(wanted))]
    if is_one_word(passage):
        return []
    if span := _span(said, wanted, 0):
        return [span]
    parts = [part for piece in _ELLIPSIS.split(passage) if (part := _words(piece))]
    if not 1 < len(parts) <= MOST_PARTS:
        return []
    spans: list[Span] = []
    for part in parts:
        span = _span(said, part, spans[-1][1] if spans else 0)
        if span is None:
            return []
        spans.append(span)
    return spans


def _span(said: _Message, wanted: Sequence[_Word], start: int) -> Span | None:
    """The first span of these words from `start` on: as they are, or with a few edits."""
    place = next(said.places(wanted, start), None)
    size = len(wanted)
    if place is not None:
        return place, place + size
    edits = int(size * _EDITS)
    # in units of a word that is spelt differently by one letter
    budget = max(2 * edits, int(size >= _ONE_LETTER))
    if not budget or size > _LONGEST_EDITED:
        return None
    # of one piece more than there are edits, at least one has none
    pieces = max(edits, 1) + 1
    tried: set[int] = set()
    for piece in range(pieces):
        begin, end = size * piece // pieces, size * (piece + 1) // pieces
        for found in islice(said.places(wanted[begin:end], start), _MOST_PLACES):
            first = max(found - begin, start)
            if first not in tried and len(tried) < _MOST_PLACES:
                tried.add(first)
                if span := _edited(said.words, wanted, first, start, budget):
                    return span
    return None


def _edited(
    said: Sequence[_Word], wanted: Sequence[_Word], first: int, start: int, budget: int
) -> Span | None:
    """The span around `first` that differs from these words by no more than `budget`: two for each
    word changed, left out or put in, one for each spelt differently (Sellers 1980, in a band)."""
    band = budget // 2 + 1
    low = max(first - band, start)
    window = said[low : first + len(wanted) + band]
    infinite = budget + 1
    # for each end in the window: what it costs to get there, and where that began
    costs, begins = [0] * (len(window) + 1), list(range(len(window) + 1))
    for row, word in enumerate(wanted):
        leave_out = infinite if word.fixed else 2
        next_costs, next_begins = [costs[0] + leave_out], [0]
        for column, other in enumerate(window, start=1):
            if abs(column - row - 1 - (first - low)) > band:
                next_costs.append(infinite)
                next_begins.append(column)
                continue
            put_in = infinite if other.fixed else 2
            next_costs.append(infinite)
            next_begins.append(column)
            for cost, begin in (
                (costs[column - 1] + _difference(word, other), begins[column - 1]),
                (costs[column] + leave_out, begins[column]),
                (next_costs[column - 1] + put_in, next_begins[column - 1]),
            ):
                if cost < next_costs[column]:
                    next_costs[column], next_begins[column] = cost, begin
        costs, begins = next_costs, next_begins
        if min(costs) > budget:
            return None
    end = min(range(len(costs)), key=costs.__getitem__)
    if costs[end] > budget or begins[end] == end:
        return None
    return low + begins[end], low + end


def _difference(word: _Word, other: _Word) -> int:
    if word.text == other.text:
        return 0
    if word.fixed or other.fixed:
        return 1_000_000
    return 1 if _differ_by_a_letter(word.text, other.text) else 2


def _differ_by_a_letter(one: str, other: str) -> bool:
    """Whether two words of some length differ by one letter that is not among the first three:
    there it often makes the opposite of a word."""
    short, long = sorted((one, other), key=len)
    if len(short) < _ONE_LETTER or len(long) - len(short) > 1 or short[:3] != long[:3]:
        return False
    pairs = enumerate(zip(short, long, strict=False))
    same = next((place for place, (left, right) in pairs if left != right), len(short))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def _size(words: Sequence[_Word]) -> float:
    """The number of words; a character of a script without spaces counts as half of one."""
    alone = sum(_ALONE.match(word.text) is not None for word in words)
    return len(words) - alone + (alone + 1) // 2


def _words(text: str) -> list[_Word]:
    """The words of a text, and where each of them stands."""
    found: list[_Word] = []
    begun: list[tuple[str, int, int]] = []
    ends_sentence, joined = True, False

    def end_word() -> None:
        nonlocal ends_sentence
        if begun and (word := _finished_word(begun, first=ends_sentence)) is not None:
            found.append(word)
            ends_sentence = False
        begun.clear()

    for token in _TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[0]
        if kind == "word" or kind == "number":
            begun.append((piece, token.start(), token.end()))
            joined = False
            continue
        if kind == "apostrophe" or piece in _APOSTROPHES:
            # within a word it is dropped, and at its edge it is a quotation mark
            ends_word = not begun or joined
            joined = True
        elif kind == "other":
            category = unicodedata.category(piece)
            if category == "Cf":
                continue
            is_letter = category[0] in "LMN" or piece == "×"
            is_alone = is_letter and _ALONE.match(unicodedata.normalize("NFKC", piece)) is not None
            if is_letter and (not is_alone or piece in "\uff9e\uff9f"):
                begun.append(("x" if piece == "×" else piece, token.start(), token.end()))
                joined = False
                continue
            ends_word = True
            if is_alone:
                end_word()
                begun.append((piece, token.start(), token.end()))
                continue
        else:
            ends_word = True
            if kind == "markup" and unescape(piece) in _APOSTROPHES:
                continue
        if ends_word:
            end_word()
            joined = False
        ends_sentence |= piece[-1] in _ENDS or kind == "mark"
    end_word()
    return found


def _finished_word(pieces: Sequence[tuple[str, int, int]], *, first: bool) -> _Word | None:
    """The word of these pieces, unless nothing is left of it. A capital letter of the first word of
    a sentence makes no name of it."""
    plain = pieces[0][0] if len(pieces) == 1 else "".join(piece for piece, _, _ in pieces)
    text, fixed = _compared(plain, first=first)
    return _Word(text, pieces[0][1], pieces[-1][2], fixed) if text else None


@lru_cache(maxsize=4096)
def _compared(plain: str, *, first: bool) -> tuple[str, bool]:
    """A word as it is compared, which may be empty, and whether no edit may change it."""
    folded = plain.lower()
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)
        folded = _DROPPED.sub("", unicodedata.normalize("NFKC", plain.casefold()))
    if not folded:
        return "", False
    folded = _NUMBERS.get(folded, folded)
    capital = plain[0].isupper() and not first and plain not in _I
    return folded, capital or folded in _NEGATIONS or any(map(str.isdecimal, folded))


_words_of_copy = lru_cache(maxsize=32)(_words)
"""Cached, because the words of a passage are looked at several times, and in each message."""
_message = lru_cache(maxsize=32)(_Message)
"""Cached, because several passages are looked for in each message of a conversation. No more: a
message of 2.6 kB takes 75 kB, so that a cache of hundreds grows for half an hour of a run."""
