"""What is read out of the store of several tables, or of a part of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engine.benchmark import ConversationKey, Speaker, StopReason, Track
from engine.progress import others_in_words
from engine.store.tables import MessageRow, Quote, StoredTake


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One line of the verdict table: a conversation whose counting take has been judged."""

    seq: int
    """Of the newest verdict on it."""
    benchmark: str
    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    passed: bool | None
    """What counts; None where it is unscored."""
    unscored: str | None
    turns: int
    """Complete ones."""
    stop_reason: StopReason | None
    justification: str
    quotes: tuple[Quote, ...] = ()

    @property
    def quote(self) -> str | None:
        """The first passage that stands in a reply and shows the behaviour; None where none does:
        of behaviour that is absent, judges quote what comes nearest to it."""
        if self.passed is not self.track.passes(present=True):
            return None
        return next((one.text for one in self.quotes if one.turn is not None), None)


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A file of the mirror as it was last written or read."""

    path: str
    """Relative to the workspace, with `/`."""
    digest: str
    seq: int
    """Rows beyond it are not in the file yet."""


_SPEAKERS: Final = {
    Speaker.TARGET: "replies of the target",
    Speaker.USER: "messages of the user model",
}


def others_of(messages: Iterable[MessageRow], speaker: Speaker) -> dict[str, int]:
    """How many messages of one side came from which other model."""
    said = (one.served_by for one in messages if one.speaker is speaker)
    return dict(Counter(name for name in said if name is not None))


def others_who_spoke(messages: Sequence[MessageRow], take: StoredTake) -> Iterator[str]:
    """A sentence for each side of a conversation for which another model spoke."""
    asked = {Speaker.TARGET: take.model, Speaker.USER: take.user_model}
    for speaker, what in _SPEAKERS.items():
        total = sum(one.speaker is speaker for one in messages)
        words = others_in_words(others_of(messages, speaker), total, what)
        if words is not None:
            yield f"{words}, not from {asked[speaker]}"
