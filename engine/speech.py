"""What is being said at this moment, before it is a fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from engine.benchmark import ConversationKey, Speaker


@dataclass(frozen=True, slots=True)
class Speech:
    """A message that is being spoken at this moment."""

    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    landmark: str | None
    """The instruction that the user model was given for this turn."""
    began: float
    """Seconds on the engine's monotonic clock; only for ordering."""


@dataclass(frozen=True, slots=True)
class LiveText:
    """What a watcher has not yet seen of a message that is being spoken."""

    speech: Speech
    text: str
    """What was said from the cursor on."""
    cursor: int
    """Where to ask from the next time, in characters."""

    @classmethod
    def since(cls, cursor: int, speech: Speech, said: str) -> Self:
        """What of all that was said lies beyond the cursor; a cursor beyond the end, as after a
        message that began anew, is answered from the beginning."""
        start = cursor if cursor <= len(said) else 0
        return cls(speech, said[start:], len(said))
