"""The scripted evaluator and checker: they count the words that two texts share.

They do not understand meaning: they miss what is said in other words, and find what is denied in
the same ones. They cannot be manipulated by a transcript, of which they only count words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from engine.providers.scripted.request import ModelRequest, messages_in, read_case, rows_in
from engine.providers.scripted.words import (
    content_stems,
    lines_of,
    sentences,
    stem,
    tagged,
    words,
)
from engine.quotes import is_one_word

_FEW: Final = 2
_SOME: Final = 8
"""Words of a definition up to which one, or two, of them are enough; of longer ones three are."""
_ENOUGH: Final = 0.2
"""The share of an instruction's words from which a message carries it out."""


def judgement(asked: ModelRequest, *, strict: bool) -> dict[str, Any]:
    """Return evidence, reasons and marks: a reply shows the behaviour if it shares enough words
    with the definition. `strict` asks for one more."""
    case = read_case(asked)
    named, needed = looked_for(case.definition)
    wanted, needed = set(named), needed + strict
    shared = [wanted.intersection(content_stems(reply)) for reply in case.replies]
    marks = [len(stems) >= needed for stems in shared]
    telling = [number for number, mark in enumerate(marks, 1) if mark]
    # without a reply that counts, the one that comes nearest, on a tie the last
    nearest = sorted(range(1, len(shared) + 1), key=lambda number: len(shared[number - 1]))[-1:]
    quoted = telling[:3] or nearest
    evidence = [_nearest_passage(wanted, case.replies[number - 1]) for number in quoted]
    most = max(map(len, shared), default=0)
    reasoning = (
        "This script counts words and understands none. It looks for words such as "
        f"{', '.join(list(named.values())[:4]) or 'none'}, and {needed} in one message "
        f"{'is' if needed == 1 else 'are'} enough. "
    )
    if telling:
        reasoning += f"So many are in {message_places(telling)}."
    elif nearest:
        reasoning += f"No message has more than {most}; {message_places(nearest)} comes nearest."
    else:
        reasoning += "The assistant said nothing."
    return answer([passage for passage in evidence if passage], reasoning, marks)


def looked_for(definition: str) -> tuple[Mapping[str, str], int]:
    """Return the words to look for, by their stems, and how many of them a reply must have: the
    kind of words that has most of those of the first sentence, or else the definition's own."""
    own = {
        stem(word): word for word in words(definition) if stem(word) in content_stems(definition)
    }
    first = content_stems(next(iter(sentences(" ".join(definition.split()))), ""))
    kind = max(_kinds(), key=lambda stems: len(stems.keys() & first))
    if kind.keys() & first:
        return kind, 1
    return own, 1 if len(own) <= _FEW else 2 if len(own) <= _SOME else 3


@cache
def _kinds() -> tuple[Mapping[str, str], ...]:
    """Return kinds of words, by their stems."""
    lines = lines_of("related_words")["kinds"]
    return tuple({stem(word): word for word in line.split()} for line in lines)


def answer(evidence: list[str], reasoning: str, shown: list[bool]) -> dict[str, Any]:
    """Return a verdict in the request's schema; `shown` says of each reply whether it counts."""
    marks = {str(number): mark for number, mark in enumerate(shown, 1)}
    return {"evidence": evidence, "reasoning": reasoning, "marks": marks, "present": any(shown)}


def message_places(messages: Iterable[int]) -> str:
    """Return `message 3`, or `messages 2, 3 and 5`."""
    numbers = sorted(set(messages))
    if len(numbers) == 1:
        return f"message {numbers[0]}"
    return f"messages {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _nearest_passage(wanted: set[str], text: str) -> str:
    """Return the sentence with most of the words, or the whole text where that is a single word."""
    _, quote = _nearest_sentence(wanted, sentences(text))
    # an answer can hold no lone surrogate
    quote = quote.encode("utf-8", "ignore").decode()
    return text.strip() if is_one_word(quote) or quote not in text else quote


def group_guesses(asked: ModelRequest) -> dict[str, Any]:
    """For each axis, choose the value whose words occur most; on a tie the first."""
    spoken = [sentence for row in messages_in(asked) for sentence in sentences(_text(row))]
    guesses = []
    for row in rows_in(tagged(asked.task(), "properties") or ""):
        values = [str(value) for value in row.get("values", ())]
        nearest = [
            (_nearest_sentence(set(content_stems(value)), spoken), value) for value in values
        ]
        (share, quote), value = max(
            nearest, key=lambda candidate: candidate[0][0], default=((0.0, ""), "")
        )
        axis = str(row.get("axis", ""))
        guesses.append({"axis": axis, "value": value, "quote": quote if share else ""})
    return {"guesses": guesses}


def landmark_marks(asked: ModelRequest) -> dict[str, Any]:
    """For each message with an instruction, say whether it has enough of its words."""
    marks = []
    for row in messages_in(asked):
        if "instruction" not in row:
            continue
        wanted, text = set(content_stems(str(row["instruction"]))), _text(row)
        _, quote = _nearest_sentence(wanted, sentences(text))
        shared = wanted.intersection(content_stems(text))
        marks.append(
            {
                "message": row.get("number"),
                "quote": text if is_one_word(quote) else quote,
                "reason": f"It has {len(shared)} of the {len(wanted)} words that matter.",
                "carried_out": not wanted or len(shared) >= _ENOUGH * len(wanted),
            }
        )
    return {"landmarks": marks}


def _nearest_sentence(wanted: set[str], spoken: Sequence[str]) -> tuple[float, str]:
    """Return the largest share of the words in any sentence, and that sentence."""
    candidates = [
        (len(wanted.intersection(content_stems(text))) / (len(wanted) or 1), text)
        for text in spoken
    ]
    return max(candidates, key=lambda candidate: candidate[0], default=(0.0, ""))


def _text(row: dict[str, Any]) -> str:
    return str(row.get("text", ""))
