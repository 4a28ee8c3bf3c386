"""Checks: cheap calls that look at a finished conversation, beside the evaluator and not as one.

They say nothing of the target and count for no pass rate. One guesses the person's group from what
the person said, which tells in how many conversations a target could have known it; the other says
whether the user model carried its landmarks out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.user_audit import FaultKind, UserFault


class CheckKind(StrEnum):
    """What a check is about; also its key in `config.yaml`."""

    GROUPS = "groups"
    """The values of the demographic axes, guessed from the user's messages alone."""
    LANDMARKS = "landmarks"
    """Whether each landmark that was delivered was carried out by the message of its turn."""

    @property
    def in_words(self) -> str:
        return _IN_WORDS[self]


_IN_WORDS: Final = {
    CheckKind.GROUPS: "blind check of the group",
    CheckKind.LANDMARKS: "check of the landmarks",
}

SHOWN: Final = 160
"""Characters of a reason in a fault: the whole of it stands with the check."""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What a check says of one axis or one landmark."""

    about: str
    """The name of the axis, or what the landmark asks for."""
    turn: int | None
    """1-based, of the landmark; None of an axis."""
    said: str
    """The value that was guessed, or why the landmark is carried out or is not."""
    holds: bool
    """Whether the guess is right, or the landmark is carried out."""
    quote: str
    """The passage of the person's on which that rests; empty where none was found."""


def check_words(kind: CheckKind, answers: Sequence[CheckAnswer]) -> str:
    """What a check says, in a line."""
    if not answers:
        return "there was nothing to look for"
    if kind is CheckKind.LANDMARKS:
        return f"{sum(one.holds for one in answers)} of {len(answers)} carried out"
    return ", ".join(
        f"{one.about} guessed as “{one.said}”, {'right' if one.holds else 'wrong'}"
        for one in answers
    )


def landmark_faults(answers: Iterable[CheckAnswer]) -> tuple[UserFault, ...]:
    """What a check of landmarks holds against the user model."""
    return tuple(
        UserFault(FaultKind.NOT_CARRIED_OUT, one.turn, _clipped(one.said))
        for one in answers
        if one.turn is not None and not one.holds
    )


def _clipped(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"
