"""How a watcher reaches a running engine: what is being said now, and commands.

Facts do not come this way; they are rows of the store. The link carries what is not worth a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from engine.benchmark import ConversationKey
from engine.speech import LiveText, Speech


class EngineState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Board:
    """What the engine is doing now, at a glance."""

    state: EngineState
    speaking: Sequence[Speech]
    """Longest running first."""
    problem: str | None = None
    """Why the engine stopped, where it did not stop by itself."""


class Command(StrEnum):
    """What a watcher may ask of the engine. Each is idempotent."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    """Finish what is being spoken, then end."""
    STOP_NOW = "stop_now"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine says to a command."""

    accepted: bool
    text: str


class EngineLink(Protocol):
    """One way to reach an engine. Every method returns at once."""

    def board(self) -> Board: ...

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """What is being said in a conversation; None where nothing is at this moment.

        A cursor belongs to one message: when the speech differs from the one it came from, ask
        again from 0.
        """
        ...

    def command(self, command: Command) -> Answer: ...
