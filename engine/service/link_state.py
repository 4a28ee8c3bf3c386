"""The state of a watcher's link: what was heard, what to ask next, and what to show while the
engine is silent. No input, no output."""

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
"""What was not asked for during this time is no longer polled."""

ConversationId = tuple[str, ConversationKey]
"""The benchmark and the conversation's key."""


@dataclass(slots=True)
class _Subscription:
    """Something that a watcher looks at."""

    wanted: float
    """When the watcher last asked for it."""
    due: float
    """When to poll it next."""
    waiting: bool = False
    """Whether a poll is unanswered."""

    def alive(self, now: float) -> bool:
        return now - self.wanted < INTEREST_SECONDS


@dataclass(slots=True)
class _MessageCopy:
    """A copy of a message being spoken, as far as it was received."""

    interest: _Subscription
    speech: Speech | None = None
    said: str = ""
    cursor: int = 0
    """The engine's cursor; it differs from the length held where surrogate halves were joined."""

    def forget(self) -> None:
        self.speech, self.said, self.cursor = None, "", 0


@dataclass(slots=True)
class LinkState:
    """What was heard, and what to ask next. All times are of one monotonic clock."""

    hertz: float
    board: Board | None = None
    """The last board received."""
    engine: Identity | None = None
    parted: bool = False
    """Whether the engine has said goodbye."""
    _number: int = 0
    _board_interest: _Subscription | None = None
    _mirrors: dict[ConversationId, _MessageCopy] = field(default_factory=dict)

    # From the watcher

    def want_board(self, now: float) -> bool:
        """Record interest in the board; return whether it is new and the poller must wake up."""
        known = self._board_interest
        if known is not None and known.alive(now):
            known.wanted = now
            return False
        self._board_interest = _Subscription(now, now, known is not None and known.waiting)
        return True

    def want_text(self, conversation: ConversationId, now: float) -> bool:
        """Record interest in a conversation; return whether it is new, as `want_board` does."""
        mirror = self._mirrors.get(conversation)
        if mirror is not None and mirror.interest.alive(now):
            mirror.interest.wanted = now
            return False
        waiting = mirror is not None and mirror.interest.waiting
        # begun again: the held text is old and may belong to another message
        self._mirrors[conversation] = _MessageCopy(_Subscription(now, now, waiting))
        return True

    def text(self, conversation: ConversationId, cursor: int) -> LiveText | None:
        """The received text of a message from `cursor` on; None where nothing is being spoken, or
        nothing was received yet."""
        mirror = self._mirrors.get(conversation)
        if mirror is None or mirror.speech is None:
            return None
        return LiveText.since(cursor, mirror.speech, mirror.said)

    # From the poller

    def interested(self, now: float) -> bool:
        """Whether anybody has looked lately, so that a connection is worth having."""
        return any(interest.alive(now) for interest in self._interests())

    def next_due(self, now: float) -> float | None:
        """When to poll next; None where nobody looks, or all polls are unanswered."""
        return min(
            (
                interest.due
                for interest in self._interests()
                if interest.alive(now) and not interest.waiting
            ),
            default=None,
        )

    def due(self, now: float) -> list[WatcherMessage]:
        """The requests to send now; each is marked as sent."""
        asks: list[WatcherMessage] = []
        if _falls_due(self._board_interest, now, 1 / min(self.hertz, BOARD_HERTZ)):
            asks.append(BoardAsked(self._number))
        for conversation, mirror in list(self._mirrors.items()):
            if not mirror.interest.alive(now):
                # kept until its poll is answered, or the answer would count as news
                if not mirror.interest.waiting:
                    del self._mirrors[conversation]
            elif _falls_due(mirror.interest, now, 1 / self.hertz):
                asks.append(TextAsked(*conversation, mirror.cursor, mirror.speech))
        return asks

    def hear(self, asked: WatcherMessage, answer: EngineLine, now: float) -> None:
        """Process an answer. Raises `MessageError`."""
        match asked:
            case HelloAsked():
                self.engine = read(answer.ok, Hello).engine
            case BoardAsked():
                self._hear_board(answer.ok)
            case TextAsked():
                self._hear_text(asked, answer.ok, now)
            case CommandAsked():
                self.refresh_board(now)

    def hear_goodbye(self, board: Board) -> None:
        """Store the last board of an engine that ends in an orderly way."""
        self.board, self.parted = board, True

    def refresh_board(self, now: float) -> None:
        """Poll the board at once, because something happened that should show."""
        if self._board_interest is not None:
            self._board_interest.due = now

    def reset(self, now: float) -> None:
        """Reset for a new connection, perhaps to another engine. The last board stays for now."""
        # another engine numbers its boards from the beginning
        self._number, self.parted, self.engine = 0, False, None
        self.want_board(now)
        for interest in self._interests():
            interest.waiting, interest.due = False, now
        self.fall_silent()

    def fall_silent(self) -> None:
        """Forget the texts: without a connection, nothing held is being spoken."""
        for mirror in self._mirrors.values():
            mirror.forget()

    def _interests(self) -> Iterator[_Subscription]:
        if self._board_interest is not None:
            yield self._board_interest
        for mirror in self._mirrors.values():
            yield mirror.interest

    def _hear_board(self, value: object) -> None:
        if self._board_interest is not None:
            self._board_interest.waiting = False
        news = read(value, NumberedBoard)
        if news.board is not None:
            self._number, self.board = news.number, news.board
        elif news.number != self._number:
            raise MessageError(f"board {news.number} is said to be known, and is not")

    def _hear_text(self, asked: TextAsked, value: object, now: float) -> None:
        mirror = self._mirrors.get((asked.benchmark, asked.key))
        if mirror is None:
            return
        mirror.interest.waiting = False
        if value is None:
            mirror.forget()
            return
        news = read(value, SomeText)
        live_text = news.heard
        follows = live_text.speech == mirror.speech and news.start == mirror.cursor
        # a part from the middle of a message that is not held here: ask for it from the beginning
        if not follows and news.start:
            mirror.forget()
            mirror.interest.due = now
            return
        mirror.said = mirror.said + live_text.text if follows else live_text.text
        mirror.speech, mirror.cursor = live_text.speech, live_text.cursor
        # at once, without waiting a period: a long message that had begun before anybody looked is
        # loaded as fast as possible
        if news.more:
            mirror.interest.due = now


def _falls_due(interest: _Subscription | None, now: float, period: float) -> bool:
    """Whether to poll it now; if so, it is marked as waiting and scheduled again."""
    if interest is None or interest.waiting or not interest.alive(now) or now < interest.due:
        return False
    interest.waiting = True
    interest.due = now + period
    return True


LOST: Final = (
    "the engine ended without a word: it was killed, or its machine went down; everything that was "
    "stored is kept, and `crosswind run` does the rest"
)
NOBODY: Final = "no engine runs in this workspace: `crosswind run` starts one"

_ORDERLY: Final = frozenset({EngineState.DRAINING, EngineState.IDLE, EngineState.STOPPED})
"""States after which an engine that has gone is not lost."""


class LockRecord(Protocol):
    """The holder of the workspace according to its lock file. Equal for the same holder."""

    @property
    def socket(self) -> str | os.PathLike[str] | None:
        """The path of its socket, if the lock file names one."""
        ...


@dataclass(frozen=True, slots=True)
class LinkTimeouts:
    """Time limits, in seconds."""

    answer: float = 5.0
    """For the answer to a command."""
    frozen: float = 3.0
    """Without any answer, before the watcher is told."""
    reach: float = 1.0
    """For the socket of an engine that is starting or ending."""
    first_look: float = 0.01
    """Between the first two attempts to connect; the pause doubles from then on."""
    longest_look: float = 0.5


@dataclass(slots=True)
class ConnectionState:
    """The state of the connection. All times are of one monotonic clock."""

    timeouts: LinkTimeouts
    silent_since: float | None
    """Since when no board was received; None while boards are."""
    connected: bool = False
    looked: bool = False
    """Whether an engine was looked for since the connection was lost."""
    holder: LockRecord | None = None
    """Who held the workspace at the last look; None for nobody."""
    parted: LockRecord | None = None
    """The holder that said goodbye."""
    why: str | None = None
    """Why there is no connection."""

    def connect(self, holder: LockRecord | None) -> None:
        """Record that the engine was reached."""
        self.connected, self.looked, self.holder = True, True, holder

    def say_goodbye(self) -> None:
        """Record its goodbye: later silence does not mean that it was lost."""
        self.parted = self.holder

    def lose(self, why: str, now: float) -> None:
        """Record that the connection was lost, and why."""
        self.connected, self.why = False, why
        if self.silent_since is None:
            self.silent_since, self.looked = now, False

    def find(self, holder: LockRecord | None, why: str | None, now: float) -> None:
        """Record a look that did not lead to a connection."""
        if holder is not None and self.looked and self.holder is None:
            self.silent_since = now  # an engine that has just started
        self.looked, self.holder = True, holder
        self.why = why if holder is not None else None

    def why_nobody_answers(self, now: float) -> str | None:
        """Why nobody will answer; None while somebody does, or still may."""
        if self.silent_since is None or not self.looked:
            return None
        if self.holder is None:
            return None if self.connected else NOBODY
        if self.connected or now - self.silent_since < self.timeouts.reach:
            return None
        return f"the engine cannot be reached: {self.why}"

    def board(self, last: Board | None, waited: float, now: float, *, parted: bool) -> Board:
        """The board to show: `last` is the last one received, `waited` the seconds for which the
        oldest request has been unanswered."""
        if self.silent_since is None:
            return _with_notices(
                last or Board(EngineState.STARTING, ()), self._silence_notice(waited)
            )
        if self.looked and self.holder is None and not self.connected:
            return _board_after_end(last, parted=parted)
        leaving = parted and self.holder == self.parted
        if not self.looked or leaving or now - self.silent_since < self.timeouts.reach:
            return last or Board(EngineState.STARTING, ())
        known = None if last is None or parted else last
        shown = (
            replace(known, speaking=(), writing=(), waiting_messages=0)
            if known
            else Board(EngineState.RUNNING, ())
        )
        why = self.why or "the engine has not answered yet"
        return _with_notices(
            shown, (f"live text is not available: {why}", *self._silence_notice(waited))
        )

    def _silence_notice(self, waited: float) -> Sequence[str]:
        if waited < self.timeouts.frozen:
            return ()
        return (f"the engine has not answered for {waited:.0f} s",)


def _with_notices(board: Board, notices: Sequence[str]) -> Board:
    return replace(board, notices=(*board.notices, *notices)) if notices else board


def _board_after_end(last: Board | None, *, parted: bool) -> Board:
    """The last state of an engine that no longer runs."""
    if last is None:
        return Board(EngineState.STOPPED, ())
    # in an engine that has gone, nobody speaks and nothing waits
    over = replace(
        last, state=EngineState.STOPPED, speaking=(), writing=(), waiting_messages=0, waits=()
    )
    if parted or last.state in _ORDERLY:
        return over
    return replace(over, state=EngineState.LOST, problem=LOST)
