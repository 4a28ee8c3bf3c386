"""What people ask to be stored, as commands, the app and the link pass it on: acts of a review, and
labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class ReviewMode(StrEnum):
    """Whether metrics and scenarios that a model wrote must be approved by a person."""

    REQUIRED = "required"
    """No conversation is played from a metric or scenario that nobody has approved."""
    OPTIONAL = "optional"
    """A person may review them, and nothing waits for it."""
    OFF = "off"
    """As optional, and no message mentions reviews."""


class ReviewState(StrEnum):
    """The review state of a metric or scenario."""

    WAITS = "waits"
    APPROVED = "approved"
    REJECTED = "rejected"
    BY_HAND = "by hand"
    """Written by a person, so it needs no approval."""


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """One action of one person."""

    benchmark: str
    action: str
    """`approve`, `reject`, `edit` or `undo`."""
    person: str
    account: str
    """`user@host`."""
    ids: tuple[str, ...] = ()
    """The metrics and scenarios concerned; an edit has one."""
    reason: str = ""
    text: str | None = None
    """For an edit: the whole new text, as YAML."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """The digest of what the person saw, by id. Where the current one differs, nothing is done. Ids
    without a digest are not checked."""


SAMPLE_SIZE: Final = 60
SAMPLE_SEED: Final = "7"
LONGEST_PERSON: Final = 80
"""The most characters of the name of a person who labels or reviews."""
LABELS_AT_ONCE: Final = 40
"""Labels in one request over a link: so many fit even with the longest notes."""


class LabelAnswer(StrEnum):
    """A person's answer on one conversation."""

    PRESENT = "present"
    ABSENT = "absent"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """A person's answer on one numbered conversation of a sample."""

    answer: LabelAnswer
    replies: tuple[int, ...] = ()
    """Turns (1-based) of the replies that show the behaviour."""
    note: str = ""
    confidence: int | None = None
    """1 to 3."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SampleDraw:
    """A request to draw a sample for a person."""

    size: int
    seed: str
    person: str
    account: str
    """`user@host`."""


@dataclass(frozen=True, slots=True)
class NumberedLabel:
    """A label for one number of a sample."""

    number: int
    said: GivenLabel | None
    """None takes back the earlier label."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Settles what counts where people disagreed."""

    conversation: str
    """Its id."""
    present: bool | None
    """None takes back the same person's decision."""
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """Exactly one of draw, labels and decision. Labels and decisions may be sent twice safely."""

    benchmark: str
    draw: SampleDraw | None = None
    sample: int | None = None
    """The `seq` of the sample that the labels belong to."""
    labels: tuple[NumberedLabel, ...] = ()
    decision: Decision | None = None
