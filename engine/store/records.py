"""Values that are read from several tables of the store, or from a part of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.benchmark import ConversationKey, Speaker, StopReason, Track
from engine.progress import others_in_words
from engine.store.tables import BatchRow, MessageRow, Quote, StoredTake


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A line of the verdict table: a conversation whose counting take has been judged."""

    seq: int
    """Of the newest verdict on the take."""
    benchmark: str
    key: ConversationKey
    take: int
    metric_id: str
    track: Track
    judge: str
    passed: bool | None
    """The result that counts; None if unscored."""
    unscored: str | None
    turns: int
    """The number of complete turns."""
    stop_reason: StopReason | None
    justification: str
    quotes: tuple[Quote, ...] = ()

    @property
    def quote(self) -> str | None:
        """The first passage from a reply that shows the behaviour. None if the behaviour is
        absent: judges then quote what comes nearest to it."""
        if self.passed is not self.track.passes(present=True):
            return None
        return next((quote.text for quote in self.quotes if quote.turn is not None), None)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch, and what became of it."""

    row: BatchRow
    provider_id: str | None
    """The provider's name for it; None if it is not known whether it is there."""
    until: int | None
    """When it ends at the latest, in milliseconds since 1970 (UTC)."""
    is_void: bool
    """Whether the provider does not have it."""
    taken: frozenset[int]
    """The places of the calls of which the outcome is stored."""

    @property
    def is_open(self) -> bool:
        return not self.is_void and len(self.taken) < len(self.row.asks)

    @property
    def most_usd(self) -> float:
        """The most that its calls may cost of which no outcome is stored."""
        return self.row.most_usd * (1 - len(self.taken) / len(self.row.asks))


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """The configuration of the newest run or import."""

    text: str
    """As JSON, without keys and headers."""
    when: datetime
    is_run: bool


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A file of the mirror, as it was last written or read."""

    path: str
    """Relative to the workspace, with `/`."""
    digest: str
    seq: int
    """The last row that is in the file."""


_SPEAKERS: Final = {
    Speaker.TARGET: "replies of the target",
    Speaker.USER: "messages of the user model",
}


def others_of(messages: Iterable[MessageRow], speaker: Speaker) -> dict[str, int]:
    """Count the messages of one side that were answered by other models, by their names."""
    models = (message.served_by for message in messages if message.speaker is speaker)
    return dict(Counter(name for name in models if name is not None))


def others_who_spoke(messages: Sequence[MessageRow], take: StoredTake) -> Iterator[str]:
    """Yield a sentence for each side of a conversation on which another model answered."""
    asked = {Speaker.TARGET: take.model, Speaker.USER: take.user_model}
    for speaker, what in _SPEAKERS.items():
        total = sum(message.speaker is speaker for message in messages)
        words = others_in_words(others_of(messages, speaker), total, what)
        if words is not None:
            yield f"{words}, not from {asked[speaker]}"
