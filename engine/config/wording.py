"""How messages quote text from a file, and suggest what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Final


def quotable(text: str) -> str:
    """Text from a file as messages quote it: shortened, and without invisible characters."""
    short = text if len(text) <= 40 else f"{text[:39]}…"
    return "".join(character if character.isprintable() else "�" for character in short)


SLIP_RATIO: Final = 0.8
"""From this similarity on, an unknown word counts as a typo of a known one."""


def either_of(words: Iterable[str]) -> str:
    """`a`, `b` or `c`, each in back quotes."""
    *others, last = (f"`{word}`" for word in words)
    return f"{', '.join(others)} or {last}"


def nearest_word(word: str, known: Iterable[str], *, ratio: float = 0.6) -> str | None:
    """The known word most similar to `word`, ignoring case; None where none is similar."""
    by_fold = {choice.casefold(): choice for choice in sorted(known)}
    matches = get_close_matches(word.casefold()[:200], by_fold, n=1, cutoff=ratio)
    return by_fold[matches[0]] if matches else None


def slip_of(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is a typo of; None where it may be intended as it is."""
    meant = nearest_word(word, known, ratio=SLIP_RATIO)
    if meant is not None or len(word) < 3:
        return meant
    return next((choice for choice in known if _one_edit_apart(word.casefold(), choice)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the most similar known word, or a list of all where none is similar."""
    choices = sorted(known)
    meant = nearest_word(word, choices)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return f"known here: {', '.join(choices)}" if choices else "none is known here"


def _one_edit_apart(word: str, known: str) -> bool:
    """Whether one letter is wrong, missing or added, or two are swapped."""
    if abs(len(word) - len(known)) > 1:
        return False
    edits = [
        (tag, end - start, to - since)
        for tag, start, end, since, to in SequenceMatcher(a=word, b=known).get_opcodes()
        if tag != "equal"
    ]
    if len(edits) == 1:
        _, removed, added = edits[0]
        return max(removed, added) == 1
    return (
        sorted(word) == sorted(known)
        and sum(a != b for a, b in zip(word, known, strict=False)) == 2
    )
