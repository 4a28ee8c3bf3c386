"""Replays a conversation at the pace at which it was spoken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState, Request, Response
from engine.store.tables import MessageRow, StoredTake

SPEEDS: Final = (1, 10)
"""Times as fast as it was, one after the other."""
LONGEST: Final = 20.0
"""Seconds that a message takes at most: long waits are not repeated."""
READING: Final = 80.0
"""Characters a second, where nobody wrote down how long it took."""
SHORTEST: Final = 0.05
"""Seconds; what took less, as messages of a file do that have all one time, was not timed."""


class Replay:
    """An `EngineLink` of which only what is said counts. Times are of the watcher's clock."""

    def __init__(self, take: StoredTake, messages: Sequence[MessageRow], now: float) -> None:
        self._take = take
        self._messages = messages
        self._ends = list(accumulate(_lengths(take, messages), initial=0.0))
        self._at = 0.0
        self._looked = now
        self._speed = SPEEDS[0]

    @property
    def words(self) -> str:
        return f"replay ×{self._speed}"

    def faster(self) -> bool:
        """Whether it can be told faster still, and now is."""
        place = SPEEDS.index(self._speed) + 1
        if place == len(SPEEDS):
            return False
        self._speed = SPEEDS[place]
        return True

    def look(self, now: float, *, held: bool = False) -> Sequence[MessageRow] | None:
        """The messages completed by now; None where that is all. No time passes while it is
        `held`."""
        if not held:
            self._at += (now - self._looked) * self._speed
        self._looked = now
        if self._at >= self._ends[-1]:
            return None
        return self._messages[: self._place]

    @property
    def _place(self) -> int:
        """The index of the message that is being told."""
        return sum(end <= self._at for end in self._ends[1:])

    # The link

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """As `EngineLink.text`: what was said by now of the message that is being told; None when
        all was told, and of any other conversation."""
        place = self._place
        if (benchmark, key) != (self._take.benchmark, self._take.key) or place >= len(
            self._messages
        ):
            return None
        message = self._messages[place]
        began, ended = self._ends[place : place + 2]
        said = message.text[: int(len(message.text) * (self._at - began) / (ended - began))]
        speech = Speech(
            benchmark,
            key,
            self._take.number,
            message.turn,
            message.speaker,
            message.landmark,
            began,
        )
        return LiveText.since(cursor, speech, said)

    def board(self) -> Board:
        return Board(EngineState.RUNNING, ())

    def ask(self, request: Request) -> Response:
        del request
        return Response(accepted=False, text="this is a replay")

    def close(self) -> None:
        """There is nothing to let go of."""


def _lengths(take: StoredTake, messages: Sequence[MessageRow]) -> list[float]:
    """How many seconds each message takes."""
    times = [take.when, *(message.when for message in messages)]
    lengths = [(after - before).total_seconds() for before, after in pairwise(times)]
    return [
        min(length, LONGEST) if length >= SHORTEST else max(len(message.text), 1) / READING
        for length, message in zip(lengths, messages, strict=True)
    ]
