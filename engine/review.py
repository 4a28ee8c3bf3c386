"""Requests of a person in a review, as commands, the app and the link pass them on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
