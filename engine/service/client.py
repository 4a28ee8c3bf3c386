"""The watcher's end of the link: one thread that asks the engine for what is being watched.

`board` and `text` return at once with what is known, and record the interest. The thread polls what
was asked for within the last two seconds, at its own pace, so the engine is never asked for what
nobody looks at. If the engine cannot be reached, the board says what is known about it.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey
from engine.facts import LiveText
from engine.link import Board, Request, Response
from engine.service.link_state import ConnectionState, LinkState, LinkTimeouts, LockRecord
from engine.service.protocol import (
    LONGEST_LINE,
    CommandAsked,
    EngineLine,
    HelloAsked,
    MessageError,
    WatcherMessage,
    encode_asked,
    read,
    read_said,
)
from engine.service.socket import BrokenLineError, LineSocket, Socket, peer_uid, socket_path

HERTZ: Final = 10.0


@dataclass(slots=True)
class _SentCommand:
    """A command, from being queued to being answered."""

    request: Request
    answered: threading.Event = field(default_factory=threading.Event)
    answer: Response | None = None
    sent: bool = False

    def settle(self, answer: Response) -> None:
        self.answer = answer
        self.answered.set()

    def refuse(self, why: str) -> None:
        self.settle(Response(accepted=False, text=why))


@dataclass(slots=True)
class _PendingRequests:
    """A message that was sent and not answered yet."""

    asked: WatcherMessage
    sent: float
    command: _SentCommand | None = None


class SocketLink:
    """An `EngineLink` over a socket. Any thread may use it.

    `holder` returns who holds the workspace, if anybody; it is called on the link's thread and must
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
        self._timeouts = timeouts or LinkTimeouts()
        self._uid_of = uid_of
        self._lock = threading.Lock()
        """Guards the following attributes; held only briefly."""
        self._link_state = LinkState(hertz)
        self._connection = ConnectionState(self._timeouts, time.monotonic())
        self._commands: deque[_SentCommand] = deque()
        """Commands that have not been sent yet."""
        self._pending: dict[int, _PendingRequests] = {}
        self._numbers = count(1)
        self._line: LineSocket | None = None
        self._next_look = 0.0
        self._pause = self._timeouts.first_look
        self._closing = False
        self.is_silent = False
        """Whether the engine received a command and did not answer it in time."""
        self._waker: int | None
        # a pipe, not a condition: the thread waits for the socket and for callers at once, and only
        # file descriptors can be polled together
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._serve_socket, name="link", daemon=True)
        self._thread.start()

    # EngineLink, callable from any thread

    def board(self) -> Board:
        """The last board received, or what the engine's silence means. Never waits."""
        now = time.monotonic()
        with self._lock:
            if self._link_state.want_board(now):
                self._wake()
            waited = now - min((call.sent for call in self._pending.values()), default=now)
            hearing = self._link_state
            return self._connection.board(hearing.board, waited, now, parted=hearing.parted)

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        """The received text of a message from `cursor` on. Never waits."""
        now, conversation = time.monotonic(), (benchmark, key)
        with self._lock:
            if self._link_state.want_text(conversation, now):
                self._wake()
            return self._link_state.text(conversation, cursor)

    def ask(self, request: Request) -> Response:
        """Send a command and wait for its answer, at most `LinkTimeouts.answer` seconds."""
        command = _SentCommand(request)
        with self._lock:
            if self._closing:
                return Response(accepted=False, text="this watcher has let go of the engine")
            self._commands.append(command)
            # at once: a command does not wait for the next poll
            self._next_look = 0.0
            self._wake()
        command.answered.wait(self._timeouts.answer)
        with self._lock:
            if command.answer is not None:
                return command.answer
            if command in self._commands:
                # the caller has given up, and a late command would be a surprise
                self._commands.remove(command)
            self.is_silent = command.sent
            return Response(accepted=False, text=self._silence(command))

    @property
    def is_connected(self) -> bool:
        """Whether the last attempt to reach the engine succeeded."""
        with self._lock:
            return self._connection.connected

    def close(self) -> None:
        """Close the connection; the engine goes on. Unsent commands are refused."""
        with self._lock:
            self._closing = True
            self._wake()
        # `holder` runs on the link's thread and may itself call this
        if threading.current_thread() is not self._thread:
            self._thread.join(self._timeouts.reach)

    def wait_until_settled(self, seconds: float) -> bool:
        """Wait until a board was received, or it is certain that none will be; return whether."""
        self.board()
        return self._settled.wait(seconds)

    def _silence(self, command: _SentCommand) -> str:
        waited = f"waited {self._timeouts.answer:.0f} s"
        if command.sent:
            return f"the engine does not answer ({waited}); it may still do it when it comes back"
        return (
            f"the engine cannot be reached ({waited}): {self._connection.why or 'it is starting'}"
        )

    def _wake(self) -> None:
        if self._waker is not None:
            with contextlib.suppress(BlockingIOError):  # a full pipe wakes the thread too
                os.write(self._waker, b"\0")

    # The thread

    def _serve_socket(self) -> None:
        while not self._closing:
            try:
                self._turn()
            except BrokenLineError as error:
                self._drop_connection(str(error))
            except MessageError as error:
                self._drop_connection(f"what the engine says is not understood: {error}")
        self._drop_connection("this watcher has let go of the engine")
        with self._lock:
            ends, self._waker = (self._woken, self._waker), None
            while self._commands:
                self._commands.popleft().refuse("this watcher has let go of the engine")
        for end in ends:
            if end is not None:
                os.close(end)

    def _turn(self) -> None:
        if self._line is None and self._is_time_to_look():
            self._try_to_connect()
        with self._lock:
            now = time.monotonic()
            due = self._next_look_due(now) if self._line is None else self._talk(self._line, now)
        line = self._line
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if line is not None:
            poll.register(line, select.POLLIN | (select.POLLOUT if line.has_unsent else 0))
        # with nothing to ask or expect it sleeps until woken, so an idle app costs nothing
        timeout = None if due is None else max(0.0, due - time.monotonic()) * 1000
        for end, event in poll.poll(timeout):
            if end == self._woken:
                # drained: one turn serves all who woke it
                os.read(self._woken, 4096)
            elif line is not None:
                self._on_socket_event(line, event)

    def _on_socket_event(self, line: LineSocket, event: int) -> None:
        if event & select.POLLOUT:
            line.send()
        if event & ~select.POLLOUT:
            for answer in map(read_said, line.hear()):
                with self._lock:
                    self._take_in(answer, time.monotonic())

    def _talk(self, line: LineSocket, now: float) -> float | None:
        """Send what is due; return the time of the next request, None where nothing is awaited."""
        for asked in self._link_state.due(now):
            self._send(line, _PendingRequests(asked, now))
        while self._commands:
            command = self._commands.popleft()
            self._send(line, _PendingRequests(CommandAsked(command.request), now, command))
        return self._link_state.next_due(now)

    def _send(self, line: LineSocket, pending: _PendingRequests) -> None:
        number = next(self._numbers)
        encoded = encode_asked(number, pending.asked)
        if pending.command is not None:
            if len(encoded) > LONGEST_LINE:
                pending.command.refuse("this names more rows than fit into one command: name fewer")
                return
            pending.command.sent = True
        self._pending[number] = pending
        line.say(encoded)

    def _take_in(self, answer: EngineLine, now: float) -> None:
        if answer.goodbye is not None:
            self._link_state.hear_goodbye(answer.goodbye)
            self._connection.say_goodbye()
            return
        pending = self._pending.pop(answer.id, None)
        if pending is not None and pending.command is not None:
            _deliver(answer, pending.command)
        elif answer.error is not None:
            raise BrokenLineError(answer.error)
        if pending is None:
            return
        self._link_state.hear(pending.asked, answer, now)
        if self._link_state.board is not None and not isinstance(pending.asked, HelloAsked):
            self._connection.silent_since = None
            self._pause = self._timeouts.first_look
            self._settled.set()

    # Looking for an engine

    def _is_time_to_look(self) -> bool:
        now = time.monotonic()
        with self._lock:
            due = self._next_look_due(now)
            return due is not None and now >= due

    def _next_look_due(self, now: float) -> float | None:
        wanted = self._commands or self._link_state.interested(now)
        return self._next_look if wanted else None

    def _try_to_connect(self) -> None:
        """Try to connect, or record why that failed."""
        holder = self._holder()
        line, why = None, None
        if holder is not None:
            path = self._path if holder.socket is None else Path(holder.socket)
            try:
                line = _line_to(path, self._uid_of)
            except BrokenLineError as error:
                why = str(error)
        now = time.monotonic()
        with self._lock:
            if line is not None:
                self._line = line
                self._connection.connect(holder)
                self._link_state.reset(now)
                self._send(line, _PendingRequests(HelloAsked(), now))
                return
            self._connection.find(holder, why, now)
            hopeless = self._connection.why_nobody_answers(now)
            if hopeless is not None:
                self._settled.set()
                while self._commands:
                    self._commands.popleft().refuse(hopeless)
            self._look_later(now)

    def _drop_connection(self, why: str) -> None:
        now = time.monotonic()
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line = None
            self._connection.lose(why, now)
            self._link_state.fall_silent()
            # neither repeated nor dropped silently: nobody knows whether they were carried out
            lost, self._pending = list(self._pending.values()), {}
            for pending in lost:
                if pending.command is not None:
                    pending.command.refuse(f"{why} before the engine had answered; it may be done")
            self._look_later(now)

    def _look_later(self, now: float) -> None:
        self._next_look = now + self._pause
        # fast at first, to find a starting engine soon; then ever slower
        self._pause = min(self._pause * 2, self._timeouts.longest_look)


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


def _line_to(path: Path | None, uid_of: Callable[[Socket], int | None]) -> LineSocket:
    if path is None:
        raise BrokenLineError("its lock file does not say where its socket is")
    return LineSocket.to(path, uid_of)


def _deliver(answer: EngineLine, command: _SentCommand) -> None:
    if answer.error is not None:
        command.refuse(answer.error)
        return
    try:
        command.settle(read(answer.ok, Response))
    except MessageError as error:
        command.refuse(f"what the engine answered is not understood: {error}")
        raise
