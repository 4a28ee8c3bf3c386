"""The watcher's end of the link: one thread that asks the engine for what is being watched.

`board` and `text` return at once with what is known, and record the interest. The thread asks for
what was looked at within the last two seconds, one question after the other, so the engine is never
asked for what nobody looks at. Each command has a connection of its own. If the engine cannot be
reached, the board says what is known about it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState, Request, Response
from engine.service.protocol import (
    LONGEST_LINE,
    BoardAsked,
    CommandAsked,
    EngineLine,
    MessageError,
    NumberedBoard,
    SomeText,
    TextAsked,
    WatcherMessage,
    encode_asked,
    read,
    read_said,
)
from engine.service.socket import Socket, is_trusted, peer_uid, socket_path

HERTZ: Final = 10.0
BOARD_HERTZ: Final = 5.0
INTEREST_SECONDS: Final = 2.0
"""What was not asked for during this time is no longer polled."""

LOST: Final = (
    "the engine ended without a word: it was killed, or its machine went down; everything that was "
    "stored is kept, and `crosswind run` does the rest"
)
NOBODY: Final = "no engine runs in this workspace: `crosswind run` starts one"
_LET_GO: Final = "this watcher has let go of the engine"
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


class BrokenLineError(Exception):
    """The engine cannot be reached or has gone. Says why, in words that follow a name."""


class _Line:
    """A connection to an engine of this user. Raises `BrokenLineError` once the engine has gone."""

    def __init__(
        self,
        path: Path | None,
        uid_of: Callable[[Socket], int | None],
        longest_s: float | None = None,
    ) -> None:
        """`longest_s` is the most that an answer may take: then `TimeoutError` is raised."""
        if path is None:
            raise BrokenLineError("its lock file does not say where its socket is")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # a full backlog fails at once (EAGAIN)
            self._socket.settimeout(0)
            self._socket.connect(os.fspath(path))
        except OSError as error:
            self._socket.close()
            raise BrokenLineError(_connect_fault(error, path)) from error
        # the folder is private, but may have been opened since: the kernel says who the peer is
        if not is_trusted(uid_of(self._socket)):
            self._socket.close()
            raise BrokenLineError(f"{path} belongs to another user")
        self._socket.settimeout(longest_s)
        self._heard = self._socket.makefile("rb")

    def say(self, line: bytes) -> None:
        # a peer that has gone is noticed when it is heard: what it said last is still there
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(line)

    def hear(self) -> EngineLine:
        """Wait for the next line. Raises `MessageError`, too."""
        try:
            line = self._heard.readline(LONGEST_LINE + 1)
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:  # ValueError: closed by another thread
            raise BrokenLineError("the connection broke") from error
        if len(line) > LONGEST_LINE:
            raise BrokenLineError(f"a line of it is longer than {LONGEST_LINE} bytes")
        if not line.endswith(b"\n"):
            raise BrokenLineError("the connection was closed")
        return read_said(line)

    def hang_up(self) -> None:
        """Wake whoever waits for a line."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._heard.close()
        self._socket.close()


def _connect_fault(error: OSError, path: Path) -> str:
    match error:
        case FileNotFoundError():
            return f"there is no socket at {path}"
        case ConnectionRefusedError():
            return f"nobody listens at {path}"
        case PermissionError():
            return f"{path} belongs to another user"
        case BlockingIOError():
            return "too many wait for it to answer"
        case _:
            return f"{path}: {error.strerror or error}"


ConversationId = tuple[str, ConversationKey]
"""The benchmark and the conversation's key."""


@dataclass(slots=True)
class _Look:
    """What a watcher looks at: the board, or a message as far as it was received."""

    wanted: float
    """When the watcher last asked for it."""
    due: float
    """When to poll it next."""
    speech: Speech | None = None
    said: str = ""
    cursor: int = 0
    """The engine's cursor; it differs from the length held where surrogate halves were joined."""

    def is_alive(self, now: float) -> bool:
        return now - self.wanted < INTEREST_SECONDS

    def forget(self) -> None:
        self.speech, self.said, self.cursor = None, "", 0

    def hear(self, news: SomeText, now: float) -> None:
        live_text = news.heard
        follows = live_text.speech == self.speech and news.start == self.cursor
        # a part from the middle of a message that is not held here: ask for it from the beginning
        if not follows and news.start:
            self.forget()
            self.due = now
            return
        self.said = self.said + live_text.text if follows else live_text.text
        self.speech, self.cursor = live_text.speech, live_text.cursor
        # a long message that had begun before anybody looked is loaded as fast as possible
        if news.more:
            self.due = now


class SocketLink:
    """An `EngineLink` over a socket. Any thread may use it.

    `holder` returns who holds the workspace, if anybody; it is called on several threads and must
    not raise. The engine is reached at the socket that the holder names, or else at `path`.
    """

    def __init__(
        self,
        path: Path | None,
        holder: Callable[[], LockRecord | None],
        *,
        hertz: float = HERTZ,
        timeouts: LinkTimeouts | None = None,
        uid_of: Callable[[Socket], int | None] = peer_uid,
    ) -> None:
        self._path = path
        self._holder = holder
        self._hertz = hertz
        self._timeouts = timeouts or LinkTimeouts()
        self._uid_of = uid_of
        self._numbers = count(1)
        self._lock = threading.Lock()
        """Guards the following attributes; held only briefly."""
        self._looks: dict[ConversationId | None, _Look] = {}
        """None stands for the board."""
        self._line: _Line | None = None
        self._board: Board | None = None
        """The last one received."""
        self._number = 0
        self._asked_at: float | None = None
        """When the question was sent that is not answered yet."""
        self._silent_since: float | None = time.monotonic()
        """Since when no board was received; None while boards are."""
        self._looked = False
        """Whether an engine was looked for since the connection was lost."""
        self._found: LockRecord | None = None
        """Who held the workspace at the last look; None for nobody."""
        self._parted: LockRecord | None = None
        """The holder that said goodbye; None if it did not."""
        self._why: str | None = None
        """Why there is no connection."""
        self._next_look = 0.0
        self._pause = self._timeouts.first_look
        self._closing = False
        self.is_connected = False
        """Whether the last attempt to reach the engine succeeded."""
        self.is_silent = False
        """Whether the engine received a command and did not answer it in time."""
        self._woken = threading.Event()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="link", daemon=True)
        self._thread.start()

    # EngineLink, callable from any thread

    def board(self) -> Board:
        """The last board received, or what the engine's silence means. Never waits."""
        with self._lock:
            self._want(None, now := time.monotonic())
            return self._shown_board(now)

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """The received text of a message from `cursor` on. Never waits."""
        with self._lock:
            look = self._want((benchmark, key), time.monotonic())
            return None if look.speech is None else LiveText.since(cursor, look.speech, look.said)

    def ask(self, request: Request) -> Response:
        """Send a command and wait for its answer, at most `LinkTimeouts.answer` seconds."""
        encoded = encode_asked(1, CommandAsked(request))
        if len(encoded) > LONGEST_LINE:
            return _refused("this names more rows than fit into one command: name fewer")
        try:
            line = self._line_for_command()
        except BrokenLineError as error:
            self.is_connected = False
            return _refused(str(error))
        self.is_connected, self.is_silent = True, False
        with contextlib.closing(line):
            answer = self._carry_out(line, encoded)
        with self._lock:
            # something happened that should show
            self._want(None, time.monotonic()).due = 0.0
        self._woken.set()
        return answer

    def close(self) -> None:
        """Close the connection; the engine goes on."""
        with self._lock:
            self._closing = True
            if self._line is not None:
                self._line.hang_up()
        self._woken.set()
        # `holder` runs on the link's thread and may itself call this
        if threading.current_thread() is not self._thread:
            self._thread.join(self._timeouts.reach)

    def wait_until_settled(self, seconds: float) -> bool:
        """Wait until a board was received, or it is certain that none will be; return whether."""
        self.board()
        return self._settled.wait(seconds)

    def _want(self, what: ConversationId | None, now: float) -> _Look:
        look = self._looks.get(what)
        if look is None or not look.is_alive(now):
            # begun again: the held text is old and may belong to another message
            look = self._looks[what] = _Look(now, now)
            self._woken.set()
        look.wanted = now
        return look

    # Commands

    def _line_for_command(self) -> _Line:
        began, pause = time.monotonic(), self._timeouts.first_look
        patience = min(self._timeouts.answer, self._timeouts.reach)
        while not self._closing:
            holder = self._holder()
            if holder is None:
                raise BrokenLineError(NOBODY)
            try:
                return self._line_to(holder, self._timeouts.answer)
            except BrokenLineError as error:
                if time.monotonic() - began >= patience:
                    raise BrokenLineError(f"the engine cannot be reached: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, self._timeouts.longest_look)
        raise BrokenLineError(_LET_GO)

    def _carry_out(self, line: _Line, encoded: bytes) -> Response:
        try:
            line.say(encoded)
            while (heard := line.hear()).goodbye is not None:
                pass
            return _refused(heard.error) if heard.error is not None else read(heard.ok, Response)
        except TimeoutError:
            self.is_silent = True
            waited = f"waited {self._timeouts.answer:.0f} s"
            return _refused(
                f"the engine does not answer ({waited}); it may still do it when it comes back"
            )
        # neither repeated nor dropped silently: nobody knows whether it was carried out
        except BrokenLineError as error:
            return _refused(f"{error} before the engine had answered; it may be done")
        except MessageError as error:
            return _refused(f"what the engine answered is not understood: {error}")

    # The thread

    def _serve(self) -> None:
        while not self._closing:
            try:
                self._turn()
            except BrokenLineError as error:
                self._drop_connection(str(error))
            except MessageError as error:
                self._drop_connection(f"what the engine says is not understood: {error}")
        self._drop_connection(_LET_GO)

    def _turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            self._looks = {what: one for what, one in self._looks.items() if one.is_alive(now)}
            first = min(self._looks.items(), key=lambda item: item[1].due, default=None)
            line = self._line
            due = None if first is None else self._next_look if line is None else first[1].due
        # with nothing to ask or expect it sleeps until woken, so an idle app costs nothing
        if first is None or due is None or due > now:
            self._woken.wait(None if due is None else due - now)
            self._woken.clear()
        elif line is None:
            self._try_to_connect()
        else:
            self._poll(line, *first)

    def _poll(self, line: _Line, what: ConversationId | None, look: _Look) -> None:
        if what is None:
            answer = self._answer(line, BoardAsked(self._number))
        else:
            answer = self._answer(line, TextAsked(*what, look.cursor, look.speech))
        with self._lock:
            now, self._asked_at = time.monotonic(), None
            look.due = now + 1 / (min(self._hertz, BOARD_HERTZ) if what is None else self._hertz)
            if what is None:
                self._take_board(read(answer, NumberedBoard))
            elif answer is None:
                look.forget()
            else:
                look.hear(read(answer, SomeText), now)

    def _answer(self, line: _Line, question: WatcherMessage) -> object:
        number, self._asked_at = next(self._numbers), time.monotonic()
        line.say(encode_asked(number, question))
        while True:
            heard = line.hear()
            if heard.goodbye is not None:
                with self._lock:
                    self._board, self._parted = heard.goodbye, self._found
            elif heard.error is not None:
                raise BrokenLineError(heard.error)
            elif heard.id == number:
                return heard.ok

    def _take_board(self, news: NumberedBoard) -> None:
        if news.board is not None:
            self._number, self._board = news.number, news.board
        elif news.number != self._number:
            raise MessageError(f"board {news.number} is said to be known, and is not")
        self._silent_since, self._pause = None, self._timeouts.first_look
        self._settled.set()

    # Looking for an engine

    def _line_to(self, holder: LockRecord, longest_s: float | None = None) -> _Line:
        path = self._path if holder.socket is None else Path(holder.socket)
        return _Line(path, self._uid_of, longest_s)

    def _try_to_connect(self) -> None:
        """Try to connect, or record why that failed."""
        holder = self._holder()
        line, why = None, None
        if holder is not None:
            try:
                line = self._line_to(holder)
            except BrokenLineError as error:
                why = str(error)
        now = time.monotonic()
        with self._lock:
            if self._looked and self._found is None and holder is not None and line is None:
                self._silent_since = now  # an engine that has just started
            self._looked, self._found, self._why = True, holder, why
            self._line, self.is_connected = line, line is not None
            if line is not None:
                # another engine numbers its boards from the beginning
                self._number, self._parted = 0, None
                for look in self._looks.values():
                    look.forget()
                    look.due = now
                self._want(None, now)
                return
            is_hopeless = holder is None or now - (self._silent_since or now) >= (
                self._timeouts.reach
            )
            if is_hopeless:
                self._settled.set()
            self._look_later(now)

    def _drop_connection(self, why: str) -> None:
        now = time.monotonic()
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line, self.is_connected, self._why, self._asked_at = None, False, why, None
            if self._silent_since is None:
                self._silent_since, self._looked = now, False
            # without a connection, nothing held is being spoken
            for look in self._looks.values():
                look.forget()
            self._look_later(now)

    def _look_later(self, now: float) -> None:
        self._next_look = now + self._pause
        # fast at first, to find a starting engine soon; then ever slower
        self._pause = min(self._pause * 2, self._timeouts.longest_look)

    # What is shown

    def _shown_board(self, now: float) -> Board:
        waited = 0.0 if self._asked_at is None else now - self._asked_at
        is_frozen = waited >= self._timeouts.frozen
        notices = [f"the engine has not answered for {waited:.0f} s"] if is_frozen else []
        known = self._board or Board(EngineState.STARTING, ())
        if self._silent_since is None:
            return _with_notices(known, notices)
        has_parted = self._parted is not None
        if self._looked and self._found is None and self._line is None:
            return _board_after_end(self._board, has_parted=has_parted)
        is_leaving = has_parted and self._found == self._parted
        if not self._looked or is_leaving or now - self._silent_since < self._timeouts.reach:
            return known
        shown = Board(EngineState.RUNNING, ())
        if self._board is not None and not has_parted:
            shown = replace(self._board, speaking=(), writing=(), waiting_messages=0)
        why = self._why or "the engine has not answered yet"
        return _with_notices(shown, [f"live text is not available: {why}", *notices])


def _refused(why: str) -> Response:
    return Response(accepted=False, text=why)


def _with_notices(board: Board, notices: Sequence[str]) -> Board:
    return replace(board, notices=(*board.notices, *notices)) if notices else board


def _board_after_end(last: Board | None, *, has_parted: bool) -> Board:
    """The last state of an engine that no longer runs."""
    if last is None:
        return Board(EngineState.STOPPED, ())
    # in an engine that has gone, nobody speaks and nothing waits
    over = replace(
        last, state=EngineState.STOPPED, speaking=(), writing=(), waiting_messages=0, waits=()
    )
    if has_parted or last.state in _ORDERLY:
        return over
    return replace(over, state=EngineState.LOST, problem=LOST)


def connect(
    path: Path | None,
    holder: Callable[[], LockRecord | None],
    *,
    hertz: float = HERTZ,
    settle: float = 1.5,
) -> SocketLink:
    """Connect to the engine that `holder` knows of, now or as soon as there is one.

    Waits up to `settle` seconds for a certain state, so that the first board is true.
    """
    link = SocketLink(path, holder, hertz=hertz)
    link.wait_until_settled(settle)
    return link


def connect_to(workspace_root: Path, holder: Callable[[], LockRecord | None]) -> SocketLink:
    """Connect to the engine of a workspace, as `connect` does."""
    return connect(socket_path(workspace_root), holder)
