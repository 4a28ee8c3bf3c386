"""What a watcher has heard of an engine, what it is to ask next, and what is known of one that
cannot be heard. No input, no output."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState, Identity
from engine.service.protocol import (
    BoardAsked,
    CommandAsked,
    EngineLine,
    Hello,
    HelloAsked,
    MessageError,
    NumberedBoard,
    SomeText,
    TextAsked,
    WatcherMessage,
    read,
)

BOARD_HERTZ: Final = 5.0
INTEREST_SECONDS: Final = 2.0
"""What was not asked for in so long is pulled no more."""

ConversationId = tuple[str, ConversationKey]
"""The benchmark, and which of its conversations."""


@dataclass(slots=True)
class _Interest:
    """Something that a watcher looks at."""

    wanted: float
    """When it was last asked for."""
    due: float
    """When it is to be pulled next."""
    waiting: bool = False
    """Whether it was pulled, and is not answered yet."""

    def alive(self, now: float) -> bool:
        return now - self.wanted < INTEREST_SECONDS


@dataclass(slots=True)
class _Mirror:
    """A copy of a message that is being spoken, as far as it was heard."""

    interest: _Interest
    speech: Speech | None = None
    said: str = ""
    cursor: int = 0
    """The engine's; not the length of what is held where halves of a character were joined."""

    def forget(self) -> None:
        self.speech, self.said, self.cursor = None, "", 0


@dataclass(slots=True)
class LinkState:
    """All times are of one monotonic clock."""

    hertz: float
    board: Board | None = None
    """The last that was heard."""
    engine: Identity | None = None
    parted: bool = False
    """Whether the engine took its leave."""
    _number: int = 0
    _board_interest: _Interest | None = None
    _mirrors: dict[ConversationId, _Mirror] = field(default_factory=dict)

    # From the watcher

    def want_board(self, now: float) -> bool:
        """Whether this is news, so that somebody must see to it."""
        known = self._board_interest
        if known is not None and known.alive(now):
            known.wanted = now
            return False
        self._board_interest = _Interest(now, now, known is not None and known.waiting)
        return True

    def want_text(self, conversation: ConversationId, now: float) -> bool:
        """Whether this is news, so that somebody must see to it."""
        mirror = self._mirrors.get(conversation)
        if mirror is not None and mirror.interest.alive(now):
            mirror.interest.wanted = now
            return False
        waiting = mirror is not None and mirror.interest.waiting
        # begun anew: what was held is of a time that nobody looked at, and may be of another
        # message
        self._mirrors[conversation] = _Mirror(_Interest(now, now, waiting))
        return True

    def text(self, conversation: ConversationId, cursor: int) -> LiveText | None:
        """What was heard of a message from `cursor` on; None where it is not being said, or was not
        asked for yet."""
        mirror = self._mirrors.get(conversation)
        if mirror is None or mirror.speech is None:
            return None
        return LiveText.since(cursor, mirror.speech, mirror.said)

    # From whoever pulls

    def interested(self, now: float) -> bool:
        """Whether anybody has looked lately, so that it is worth being connected."""
        return any(interest.alive(now) for interest in self._interests())

    def next_due(self, now: float) -> float | None:
        """When to ask again; None where nobody looks, or all that was asked is not answered."""
        return min(
            (each.due for each in self._interests() if each.alive(now) and not each.waiting),
            default=None,
        )

    def due(self, now: float) -> list[WatcherMessage]:
        """What to ask now. Each counts as asked."""
        asks: list[WatcherMessage] = []
        if _falls_due(self._board_interest, now, 1 / min(self.hertz, BOARD_HERTZ)):
            asks.append(BoardAsked(self._number))
        for conversation, mirror in list(self._mirrors.items()):
            if not mirror.interest.alive(now):
                # one that is waited for stays until its answer has come: it would be taken for news
                if not mirror.interest.waiting:
                    del self._mirrors[conversation]
            elif _falls_due(mirror.interest, now, 1 / self.hertz):
                asks.append(TextAsked(*conversation, mirror.cursor, mirror.speech))
        return asks

    def hear(self, asked: WatcherMessage, said: EngineLine, now: float) -> None:
        """Take in what was answered. Raises `MessageError`."""
        match asked:
            case HelloAsked():
                self.engine = read(said.ok, Hello).engine
            case BoardAsked():
                self._hear_board(said.ok)
            case TextAsked():
                self._hear_text(asked, said.ok, now)
            case CommandAsked():
                self.refresh_board(now)

    def hear_goodbye(self, board: Board) -> None:
        """The engine ends of itself, and this is its last board."""
        self.board, self.parted = board, True

    def refresh_board(self, now: float) -> None:
        """Something happened that should show at once."""
        if self._board_interest is not None:
            self._board_interest.due = now

    def begin_anew(self, now: float) -> None:
        """Another connection, perhaps to another engine. The last board stays until one comes."""
        # another engine numbers its boards from the begin
        self._number, self.parted, self.engine = 0, False, None
        self.want_board(now)
        for interest in self._interests():
            interest.waiting, interest.due = False, now
        self.fall_silent()

    def fall_silent(self) -> None:
        """Nobody can be heard: nothing that is held is being said."""
        for mirror in self._mirrors.values():
            mirror.forget()

    def _interests(self) -> Iterator[_Interest]:
        if self._board_interest is not None:
            yield self._board_interest
        for mirror in self._mirrors.values():
            yield mirror.interest

    def _hear_board(self, value: object) -> None:
        if self._board_interest is not None:
            self._board_interest.waiting = False
        found = read(value, NumberedBoard)
        if found.board is not None:
            self._number, self.board = found.number, found.board
        elif found.number != self._number:
            raise MessageError(f"board {found.number} is said to be known, and is not")

    def _hear_text(self, asked: TextAsked, value: object, now: float) -> None:
        mirror = self._mirrors.get((asked.benchmark, asked.key))
        if mirror is None:
            return
        mirror.interest.waiting = False
        if value is None:
            mirror.forget()
            return
        found = read(value, SomeText)
        heard = found.heard
        follows = heard.speech == mirror.speech and found.start == mirror.cursor
        # a part from the middle of something that is not held here: it is asked for from its
        # beginning
        if not follows and found.start:
            mirror.forget()
            mirror.interest.due = now
            return
        mirror.said = mirror.said + heard.text if follows else heard.text
        mirror.speech, mirror.cursor = heard.speech, heard.cursor
        # at once and not in a period: a long message that was begun before anybody looked comes in
        # as fast as it is taken
        if found.more:
            mirror.interest.due = now


def _falls_due(interest: _Interest | None, now: float, period: float) -> bool:
    """Whether it is to be asked for now; then it is not again for a while."""
    if interest is None or interest.waiting or not interest.alive(now) or now < interest.due:
        return False
    interest.waiting = True
    interest.due = now + period
    return True


LOST: Final = (
    "the engine ended without a word: it was killed, or its machine went down; everything that was "
    "finished is kept, and `crosswind run` does the rest"
)
NOBODY: Final = "no engine runs in this workspace: `crosswind run` starts one"

_ORDERLY: Final = frozenset({EngineState.DRAINING, EngineState.IDLE, EngineState.STOPPED})
"""An engine that was last seen so has not been lost."""


class LockRecord(Protocol):
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
    holder: LockRecord | None = None
    """Who holds the workspace, when it was last looked; None for nobody."""
    parted: LockRecord | None = None
    """Who said goodbye."""
    why: str | None = None
    """Why there is no connection."""

    def connect(self, holder: LockRecord | None) -> None:
        """Note that the engine was reached."""
        self.connected, self.looked, self.holder = True, True, holder

    def part(self) -> None:
        """It said goodbye: what is silent from now on has not been lost."""
        self.parted = self.holder

    def lose(self, why: str, now: float) -> None:
        """It cannot be heard any more, and why."""
        self.connected, self.why = False, why
        if self.silent_since is None:
            self.silent_since, self.looked = now, False

    def find(self, holder: LockRecord | None, why: str | None, now: float) -> None:
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
    # nobody speaks and nothing waits in an engine that is gone
    over = replace(last, state=EngineState.STOPPED, speaking=(), waits=())
    if parted or last.state in _ORDERLY:
        return over
    return replace(over, state=EngineState.LOST, problem=LOST)
