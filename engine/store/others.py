"""Who else spoke: what came of other models than those that were asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.benchmark import Speaker
from engine.progress import others_in_words
from engine.store.records import StoredMessage, StoredTake

_SPEAKERS: Final = {
    Speaker.TARGET: "replies of the target",
    Speaker.USER: "messages of the user model",
}


def others_of(messages: Iterable[StoredMessage], speaker: Speaker) -> dict[str, int]:
    """How many messages of one side came from which other model."""
    said = (one.served_by for one in messages if one.speaker is speaker)
    return dict(Counter(name for name in said if name is not None))


def others_who_spoke(messages: Sequence[StoredMessage], take: StoredTake) -> Iterator[str]:
    """A sentence for each side of a conversation for which another model spoke."""
    asked = {Speaker.TARGET: take.model, Speaker.USER: take.user_model}
    for speaker, what in _SPEAKERS.items():
        total = sum(one.speaker is speaker for one in messages)
        words = others_in_words(others_of(messages, speaker), total, what)
        if words is not None:
            yield f"{words}, not from {asked[speaker]}"
