"""What people who label ask to have stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LabelAnswer(StrEnum):
    """What a person says of one conversation."""

    PRESENT = "present"
    ABSENT = "absent"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """What a person says of one number."""

    answer: LabelAnswer
    replies: tuple[int, ...] = ()
    """Turns (1-based) of the replies that show the behaviour."""
    note: str = ""
    confidence: int | None = None
    """1 to 3."""
    seconds: float | None = None
