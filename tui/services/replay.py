"""Replay a conversation at the pace at which it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState, Request, Response
from engine.store.tables import MessageRow, StoredTake

SPEEDS: Final = (1, 10)
"""The speeds in turn, as multiples of the original."""
LONGEST: Final = 20.0
"""The longest duration of a message in seconds: long waits are not repeated."""
READING: Final = 80.0
"""Characters per second for messages without a recorded duration."""
SHORTEST: Final = 0.05
"""The shortest measured duration in seconds; imported messages often share one time."""


class Replay:
    """An `EngineLink` that only provides messages. Times are on the watcher's clock."""

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
        """Switch to the next speed. Returns whether there was one."""
        place = SPEEDS.index(self._speed) + 1
        if place == len(SPEEDS):
            return False
        self._speed = SPEEDS[place]
        return True

    def look(self, now: float, *, held: bool = False) -> Sequence[MessageRow] | None:
        """The messages completed by now; None at the end. No time passes while it is `held`."""
        if not held:
            self._at += (now - self._looked) * self._speed
        self._looked = now
        if self._at >= self._ends[-1]:
            return None
        return self._messages[: self._message_index]

    @property
    def _message_index(self) -> int:
        """The index of the message in progress."""
        return sum(end <= self._at for end in self._ends[1:])

    # The link

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """Like `EngineLink.text`: the text so far of the message in progress. None at the end and
        for any other conversation."""
        place = self._message_index
        if (benchmark, key) != (self._take.benchmark, self._take.key) or place >= len(
            self._messages
        ):
            return None
        message = self._messages[place]
        began, ended = self._ends[place : place + 2]
        spoken = message.text[: int(len(message.text) * (self._at - began) / (ended - began))]
        speech = Speech(
            benchmark,
            key,
            self._take.number,
            message.turn,
            message.speaker,
            message.landmark,
            began,
        )
        return LiveText.since(cursor, speech, spoken)

    def board(self) -> Board:
        return Board(EngineState.RUNNING, ())

    def ask(self, request: Request) -> Response:
        del request
        return Response(accepted=False, text="this is a replay")

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _lengths(take: StoredTake, messages: Sequence[MessageRow]) -> list[float]:
    """The duration of each message in seconds."""
    times = [take.when, *(message.when for message in messages)]
    lengths = [(after - before).total_seconds() for before, after in pairwise(times)]
    return [
        min(length, LONGEST) if length >= SHORTEST else max(len(message.text), 1) / READING
        for length, message in zip(lengths, messages, strict=True)
    ]
