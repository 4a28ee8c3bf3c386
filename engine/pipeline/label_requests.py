"""What people who label ask to have stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SAMPLE_SIZE: Final = 60
SAMPLE_SEED: Final = "7"
LONGEST_PERSON: Final = 80
"""Characters of the name by which somebody labels or reviews."""
LABELS_AT_ONCE: Final = 40
"""Labels in one request that goes over a link, where the longest notes of so many have room."""


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


@dataclass(frozen=True, slots=True)
class SampleDraw:
    """A sample is to be drawn for a person."""

    size: int
    seed: str
    person: str
    account: str
    """`user@host`."""


@dataclass(frozen=True, slots=True)
class NumberedLabel:
    """What is said of one number of a sample."""

    number: int
    said: GivenLabel | None
    """None takes back what was said before."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to count where people disagreed."""

    conversation: str
    """Its id."""
    present: bool | None
    """None takes back what the same person decided."""
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """One of the three is asked for; asked again, labels and decisions are as they are."""

    benchmark: str
    draw: SampleDraw | None = None
    sample: int | None = None
    """The `seq` of the one that the labels are of."""
    labels: tuple[NumberedLabel, ...] = ()
    decision: Decision | None = None
