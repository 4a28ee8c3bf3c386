"""Which of the conversations that are being spoken is shown: the newest, but not every second one.

It stays with a conversation until that one ends, and a moment longer, so that its end can be read.
A pinned one stays until a person lets go of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from engine.benchmark import ConversationKey
from engine.speech import Speech

DWELL: Final = 1.5
"""Seconds for which the end of a conversation stays."""
SILENCE: Final = 10.0
"""Seconds after which one that says nothing is left for one that speaks."""


class Shown(NamedTuple):
    """One playing of one conversation."""

    benchmark: str
    key: ConversationKey
    take: int


def shown_by(speech: Speech) -> Shown:
    return Shown(speech.benchmark, speech.key, speech.take)


class Spotlight:
    """Decides on its own clock, which is given to it."""

    def __init__(self) -> None:
        self.shown: Shown | None = None
        self.pinned = False
        self._ended_at: float | None = None
        self._heard_at = 0.0

    def look(
        self, speaking: Sequence[Speech], ended: Collection[Shown], now: float
    ) -> Shown | None:
        """The conversation to show, after these have ended while those are being spoken."""
        if self.shown in ended and self._ended_at is None:
            self._ended_at = now
        if self.shown is None or any(shown_by(speech) == self.shown for speech in speaking):
            self._heard_at = now
        if speaking and not self.pinned and self._may_leave(now):
            self._turn_to(shown_by(max(speaking, key=lambda speech: speech.began)), now)
        return self.shown

    def step(self, speaking: Sequence[Speech], step: int, now: float) -> Shown | None:
        """The next conversation being spoken, or the one before; a pin goes with it."""
        order = sorted({shown_by(speech) for speech in speaking}, key=str)
        if order:
            before = [index for index, shown in enumerate(order) if shown == self.shown]
            index = before[0] + step if before else min(step, 0)
            self._turn_to(order[index % len(order)], now)
        return self.shown

    @property
    def ended(self) -> bool:
        return self._ended_at is not None

    def rested(self, now: float) -> bool:
        """Whether what is shown has ended, and long enough ago."""
        return self._ended_at is not None and now - self._ended_at >= DWELL

    def _may_leave(self, now: float) -> bool:
        return self.shown is None or self.rested(now) or now - self._heard_at >= SILENCE

    def _turn_to(self, shown: Shown, now: float) -> None:
        if shown != self.shown:
            self.shown = shown
            self._ended_at = None
        self._heard_at = now
