"""What a person asks for in a review, as a command, the app or the link hands it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ReviewMode(StrEnum):
    """Whether metrics and scenarios that a model wrote wait for a person."""

    REQUIRED = "required"
    """No conversation is played from one that nobody approved."""
    OPTIONAL = "optional"
    """They may be reviewed, and nothing waits."""
    OFF = "off"
    """As optional, and nothing is said of it."""


class ReviewState(StrEnum):
    """How a metric or a scenario stands."""

    WAITS = "waits"
    APPROVED = "approved"
    REJECTED = "rejected"
    BY_HAND = "by hand"
    """A person wrote it, so that it needs no approval."""


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """One act of one person."""

    benchmark: str
    action: str
    """`approve`, `reject`, `edit` or `undo`."""
    person: str
    account: str
    """`user@host`."""
    ids: tuple[str, ...] = ()
    """Of metrics and scenarios; of an edit one."""
    reason: str = ""
    text: str | None = None
    """Of an edit: all of it, as YAML."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """By id, the digest of what the person had before them; where something else stands by now,
    nothing is done. Ids that are not here are not looked at."""
