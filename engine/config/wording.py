"""How a message quotes what is in a file, and guesses what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Final


def shown(text: str) -> str:
    """Text from a file as a message may quote it: short, and without invisible characters."""
    short = text if len(text) <= 40 else f"{text[:39]}…"
    return "".join(character if character.isprintable() else "�" for character in short)


SLIP_RATIO: Final = 0.8
"""From this likeness on, an unknown word is a slip of the finger and not a word of its own."""


def nearest(word: str, known: Iterable[str], *, ratio: float = 0.6) -> str | None:
    """The known word most like `word`, without regard to case; None where none is like it."""
    by_fold = {choice.casefold(): choice for choice in sorted(known)}
    found = get_close_matches(word.casefold()[:200], by_fold, n=1, cutoff=ratio)
    return by_fold[found[0]] if found else None


def slip_of(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is a slip of; None where it may well be meant as it stands."""
    meant = nearest(word, known, ratio=SLIP_RATIO)
    if meant is not None or len(word) < 3:
        return meant
    return next((choice for choice in known if _one_edit_apart(word.casefold(), choice)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the nearest known word, or all there are when none is near."""
    choices = sorted(known)
    meant = nearest(word, choices)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return f"known here: {', '.join(choices)}" if choices else "none is known here"


def _one_edit_apart(word: str, known: str) -> bool:
    """One letter wrong, missing, too many, or two neighbours swapped."""
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
