"""Plays what a store holds once more, at its own pace or faster: for demos, pictures and tests."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey
from engine.link import Answer, Board, Command, EngineState, Request
from engine.service.timeline import Timeline
from engine.speech import LiveText, Speech
from engine.store.reader import Reader
from engine.store.replaying import ReplayReader, open_replay

REFUSED: Final = "this is a replay of what happened: it can be paused, resumed and watched"
TEXTS_KEPT: Final = 512


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """A message, from when it begins to be spoken until it is a fact."""

    began: float
    ended: float
    seq: int
    speech: Speech = field(compare=False)


class Replay:
    """An `EngineLink` to an engine of the past. What it shows of the store is in `reader`: watch it
    with `Watch(replay.reader, benchmarks, replay)`.

    What happened up to the fact `begin` is there from the start; `speed` is how much faster than
    then it goes; a time in which nothing happened takes `longest_gap` seconds at most. Time only
    moves on.
    """

    def __init__(
        self,
        reader: ReplayReader,
        *,
        begin: int = 0,
        speed: float = 1.0,
        longest_gap: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeline = Timeline(reader.beats(), begin, longest_gap)
        self._reader = reader
        self._speed = speed
        self._clock = clock
        self._said = lru_cache(TEXTS_KEPT)(reader.said)
        self._coming = self._spans(reader)
        self._speaking: dict[tuple[str, ConversationKey], _Span] = {}
        self._lock = threading.RLock()
        """Guards what follows, and what is speaking."""
        self._begun = clock()
        self._before = 0.0
        """Seconds that were played before `_begun`."""
        self._paused = False
        reader.until = self._until
        reader.show(self._until())

    @classmethod
    def open(
        cls,
        store: Path,
        *,
        begin: int = 0,
        speed: float = 1.0,
        longest_gap: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Replay:
        """Raises `StoreError`."""
        reader = open_replay(store)
        return cls(reader, begin=begin, speed=speed, longest_gap=longest_gap, clock=clock)

    @property
    def reader(self) -> Reader:
        return self._reader

    @property
    def seconds(self) -> float:
        """How long all of it takes at the pace of then."""
        return self._timeline.seconds

    @property
    def played(self) -> float:
        """Seconds of these that have passed."""
        with self._lock:
            now = self._before
            if not self._paused:
                now += (self._clock() - self._begun) * self._speed
            return min(now, self.seconds)

    def skip(self, seconds: float) -> None:
        """Let so much more of it have passed."""
        with self._lock:
            self._before += max(0.0, seconds)

    # The link

    def board(self) -> Board:
        with self._lock:
            self._move_on()
            return Board(self._state(), self._speeches())

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        with self._lock:
            now = self._move_on()
            span = self._speaking.get((benchmark, key))
        if span is None:
            return None
        text = self._said(span.seq)
        part = (now - span.began) / (span.ended - span.began)
        return LiveText.since(cursor, span.speech, text[: int(len(text) * part)])

    def ask(self, request: Request) -> Answer:
        match request.command:
            case Command.PAUSE:
                self._set_paused(paused=True)
                return Answer(accepted=True, text="the replay is paused")
            case Command.RESUME:
                self._set_paused(paused=False)
                return Answer(accepted=True, text="the replay goes on")
            case _:
                return Answer(accepted=False, text=REFUSED)

    def close(self) -> None:
        """The reader belongs to whoever watches."""

    # Under the lock

    def _set_paused(self, *, paused: bool) -> None:
        with self._lock:
            self._before, self._begun = self.played, self._clock()
            self._paused = paused

    def _state(self) -> EngineState:
        if self.played >= self.seconds:
            return EngineState.STOPPED
        return EngineState.PAUSED if self._paused else EngineState.RUNNING

    def _speeches(self) -> Sequence[Speech]:
        return sorted(
            (span.speech for span in self._speaking.values()), key=lambda each: each.began
        )

    def _move_on(self) -> float:
        """Who has begun to speak and who has ended by now."""
        now = self.played
        while self._coming and self._coming[0].began <= now:
            span = heapq.heappop(self._coming)
            if span.ended > now:
                self._speaking[span.speech.benchmark, span.speech.key] = span
        for conversation in [
            conversation for conversation, span in self._speaking.items() if span.ended <= now
        ]:
            del self._speaking[conversation]
        return now

    def _until(self) -> int:
        return self._timeline.until(self.played)

    def _spans(self, reader: ReplayReader) -> list[_Span]:
        spans = []
        for spoken in reader.spoken():
            began, ended = self._timeline.of(spoken.after), self._timeline.of(spoken.seq)
            if ended > began:
                speech = Speech(
                    benchmark=spoken.benchmark,
                    key=spoken.key,
                    take=spoken.take,
                    turn=spoken.turn,
                    speaker=spoken.speaker,
                    landmark=spoken.landmark,
                    began=began,
                )
                spans.append(_Span(began, ended, spoken.seq, speech))
        heapq.heapify(spans)
        return spans
