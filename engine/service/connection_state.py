"""What is known of an engine when it cannot be heard. No input, no output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from engine.link import Board, EngineState

LOST: Final = (
    "the engine ended without a word: it was killed, or its machine went down; everything that was "
    "finished is kept, and `crosswind run` does the rest"
)
NOBODY: Final = "no engine runs in this workspace: `crosswind run` starts one"

_ORDERLY: Final = frozenset({EngineState.DRAINING, EngineState.IDLE, EngineState.STOPPED})
"""An engine that was last seen so has not been lost."""


class Holding(Protocol):
    """Who holds the workspace, as its lock file says. Equal where it is the same one."""

    @property
    def socket(self) -> str | os.PathLike[str] | None:
        """Where it says that it is reached."""
        ...


@dataclass(frozen=True, slots=True)
class LinkTimeouts:
    """How long is waited for what, in seconds."""

    answer: float = 5.0
    """For the answer to a command."""
    frozen: float = 3.0
    """Without any answer, until a watcher is told."""
    reach: float = 1.0
    """For the socket of an engine that is just starting, or ending."""
    first_look: float = 0.01
    """Between two looks for an engine, at first; then ever longer."""
    longest_look: float = 0.5


@dataclass(slots=True)
class ConnectionState:
    """All times are of one monotonic clock."""

    timeouts: LinkTimeouts
    silent_since: float | None
    """Since when no board was heard; None while boards are heard."""
    connected: bool = False
    looked: bool = False
    """Whether anybody looked for an engine since the connection was lost."""
    holder: Holding | None = None
    """Who holds the workspace, when it was last looked; None for nobody."""
    parted: Holding | None = None
    """Who said goodbye."""
    why: str | None = None
    """Why there is no connection."""

    def connect(self, holder: Holding | None) -> None:
        """The engine was reached."""
        self.connected, self.looked, self.holder = True, True, holder

    def part(self) -> None:
        """It said goodbye: what is silent from now on has not been lost."""
        self.parted = self.holder

    def lose(self, why: str, now: float) -> None:
        """It cannot be heard any more, and why."""
        self.connected, self.why = False, why
        if self.silent_since is None:
            self.silent_since, self.looked = now, False

    def find(self, holder: Holding | None, why: str | None, now: float) -> None:
        """Somebody looked and could not connect."""
        if holder is not None and self.looked and self.holder is None:
            self.silent_since = now  # one that has just started
        self.looked, self.holder = True, holder
        self.why = why if holder is not None else None

    def hopeless(self, now: float) -> str | None:
        """Why nobody will answer; None while somebody does, or still may."""
        if self.silent_since is None or not self.looked:
            return None
        if self.holder is None:
            return None if self.connected else NOBODY
        if self.connected or now - self.silent_since < self.timeouts.reach:
            return None
        return f"the engine cannot be reached: {self.why}"

    def board(self, last: Board | None, waited: float, now: float, *, parted: bool) -> Board:
        """`last` is the last that was heard, `waited` since when an answer is due."""
        if self.silent_since is None:
            return _noted(last or Board(EngineState.STARTING, ()), self._frozen(waited))
        if self.looked and self.holder is None and not self.connected:
            return _ended(last, parted=parted)
        leaving = parted and self.holder == self.parted
        if not self.looked or leaving or now - self.silent_since < self.timeouts.reach:
            return last or Board(EngineState.STARTING, ())
        known = None if last is None or parted else last
        shown = replace(known, speaking=()) if known else Board(EngineState.RUNNING, ())
        why = self.why or "the engine has not answered yet"
        return _noted(shown, (f"live text is not available: {why}", *self._frozen(waited)))

    def _frozen(self, waited: float) -> Sequence[str]:
        if waited < self.timeouts.frozen:
            return ()
        return (f"the engine has not answered for {waited:.0f} s",)


def _noted(board: Board, notices: Sequence[str]) -> Board:
    return replace(board, notices=(*board.notices, *notices)) if notices else board


def _ended(last: Board | None, *, parted: bool) -> Board:
    """What is left to say of an engine that is not there any more."""
    if last is None:
        return Board(EngineState.STOPPED, ())
    over = replace(last, state=EngineState.STOPPED, speaking=(), waits=())
    if parted or last.state in _ORDERLY:
        return over
    return replace(over, state=EngineState.LOST, problem=LOST)
