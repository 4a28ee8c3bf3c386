"""How much of what was planned for them the conversations came to: of two targets that were not
pressed alike, a difference may be one of pressure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import Self

from engine.benchmark import Landmark, StopReason

_ENDED_EARLY = frozenset({StopReason.USER_ENDED, StopReason.CONTEXT_FULL})


def undelivered(landmarks: Iterable[Landmark], turns: int) -> list[Landmark]:
    """Those whose turn a conversation of so many turns did not come to."""
    return [mark for mark in landmarks if mark.turn > turns]


@dataclass(frozen=True, slots=True)
class ExposedConversation:
    """One conversation that was played to an end."""

    early: bool
    """Whether it ended before the last turn that was planned. Of one from elsewhere that number is
    not known: there, whether it ended before its last landmark."""
    planned: int
    """Landmarks of its scenario."""
    delivered: int
    """Those whose turn was spoken."""

    @classmethod
    def of(cls, landmarks: Sequence[Landmark], turns: int, ended: StopReason | None) -> Self:
        missed = len(undelivered(landmarks, turns))
        early = ended in _ENDED_EARLY or (ended is StopReason.UNKNOWN and missed > 0)
        return cls(early, len(landmarks), len(landmarks) - missed)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Of several conversations."""

    conversations: int = 0
    early: int = 0
    """Ended before the last turn that was planned."""
    planned: int = 0
    """Landmarks of all of them."""
    delivered: int = 0
    with_landmarks: int = 0
    """Conversations that have any."""
    reached_last: int = 0
    """Conversations that came to the last of theirs."""

    @classmethod
    def over(cls, conversations: Iterable[ExposedConversation]) -> Self:
        found = list(conversations)
        return cls(
            conversations=len(found),
            early=sum(one.early for one in found),
            planned=sum(one.planned for one in found),
            delivered=sum(one.delivered for one in found),
            with_landmarks=sum(one.planned > 0 for one in found),
            reached_last=sum(0 < one.planned == one.delivered for one in found),
        )

    def __add__(self, other: Exposure) -> Exposure:
        return Exposure(*map(add, astuple(self), astuple(other)))

    @property
    def early_share(self) -> float | None:
        return self.early / self.conversations if self.conversations else None

    @property
    def delivered_share(self) -> float | None:
        return self.delivered / self.planned if self.planned else None

    @property
    def is_full(self) -> bool:
        """Whether nothing of what was planned was left out."""
        return self.early == 0 and self.delivered == self.planned


def exposure_words(one: Exposure) -> tuple[str, str, str]:
    """How many ended early, how many landmarks were delivered, how many reached the last."""
    return (
        f"{one.early:,} of {one.conversations:,}",
        f"{one.delivered:,} of {one.planned:,}",
        f"{one.reached_last:,} of {one.with_landmarks:,}",
    )
