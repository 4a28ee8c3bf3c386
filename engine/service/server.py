"""Serves watchers on the engine's own event loop, at little cost to it.

Watchers receive only what they ask for, and one that does not read its answers is disconnected. So
no watcher, slow, stopped or hostile, can hold the engine up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, cast

from engine.benchmark import ConversationKey
from engine.errors import CrosswindError
from engine.facts import LiveText
from engine.kill_points import KillPoint, reached
from engine.link import Board, Request, Response
from engine.service.protocol import (
    LONGEST_LINE,
    BoardAsked,
    CommandAsked,
    MessageError,
    SomeText,
    TextAsked,
    encode_error,
    encode_goodbye,
    encode_ok,
    encode_ok_of,
    encode_value,
    read_question,
)
from engine.service.socket import (
    LONGEST_PATH,
    Socket,
    UnsafeFolderError,
    is_trusted,
    peer_uid,
    private_folder,
)

MOST_UNREAD: Final = 4 * 1024 * 1024
"""Bytes of answers that a watcher may leave unread before it is disconnected."""
AT_ONCE: Final = 32
"""Lines of one watcher that are answered before other work on the loop gets its turn."""
BOARD_SECONDS: Final = 0.05
"""How long a board is reused for all watchers that ask."""
PARTING_SECONDS: Final = 1.0
"""How long to wait, when closing, for commands at work and for last messages to be read."""
LOOK_SECONDS: Final = 1.0
"""The interval between checks that the socket is still at its path."""
_TURNS_TO_ATTACH: Final = 3

_log = logging.getLogger(__name__)


class ServedEngine(Protocol):
    """The engine as its watchers see it; called on its own loop."""

    def board(self) -> Board: ...

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None: ...

    async def answer(self, request: Request) -> Response: ...


class Server:
    """Listens for watchers. The caller must hold the workspace: then any existing socket file is
    one that a dead engine left."""

    def __init__(
        self,
        engine: ServedEngine,
        path: Path,
        *,
        uid_of: Callable[[Socket], int | None] = peer_uid,
    ) -> None:
        self.path = path
        self._engine = engine
        self._uid_of = uid_of
        self._listening: socket.socket | None = None
        self._serving: asyncio.Server | None = None
        self._inode: int | None = None
        self._checking: asyncio.Task[None] | None = None
        self._watchers: set[_Watcher] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._board = _CurrentBoard(engine)

    async def start(self) -> None:
        """Begin to listen. Raises `UnsafeFolderError` where the socket cannot be private to its
        user. If the socket fails or disappears later, it is opened again within `LOOK_SECONDS`."""
        try:
            await self._listen()
        finally:
            self._checking = asyncio.create_task(self._keep_listening())

    async def _listen(self) -> None:
        private_folder(self.path.parent)
        reached(KillPoint.BINDING)
        self._listening, self._inode = _listening_at(self.path)
        reached(KillPoint.BOUND)
        loop = asyncio.get_running_loop()
        self._serving = await loop.create_unix_server(self._new_watcher, sock=self._listening)

    async def _keep_listening(self) -> None:
        """Listen again if the socket's file is gone, so that new watchers can connect."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._is_at_path():
                await self.stop_listening()
                with contextlib.suppress(UnsafeFolderError, OSError):
                    await self._listen()
                    _log.info("listens again at %s", self.path)

    def _is_at_path(self) -> bool:
        try:
            status = self.path.lstat()
        except OSError:
            return False
        return self._serving is not None and status.st_ino == self._inode

    async def close(self) -> None:
        """Finish commands at work, send the last board as goodbye, and remove the socket."""
        if self._checking is not None:
            self._checking.cancel()
        if self._is_at_path():
            with contextlib.suppress(OSError):
                # before the goodbyes, so that nobody new connects to a closing server
                self.path.unlink()
        await self.stop_listening()
        if self._work:
            await asyncio.wait(self._work, timeout=PARTING_SECONDS)
        # last, so that its board includes what was just carried out
        await self._close_watchers(encode_goodbye(self._engine.board()))
        for task in self._work:
            task.cancel()

    @property
    def watchers(self) -> int:
        """The number of connected watchers."""
        return sum(watcher.attends for watcher in self._watchers)

    async def _close_watchers(self, goodbye: bytes) -> None:
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.part(goodbye)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTING_SECONDS):
                for watcher in watchers:
                    await watcher.gone.wait()
        for watcher in list(self._watchers):
            watcher.drop()
        await asyncio.sleep(0)  # lets the aborted connections close

    async def stop_listening(self) -> None:
        """Let nobody else in; whoever was let in stays."""
        if self._serving is not None and self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            # a closed server drops what it has accepted and not attached yet, who would wait for an
            # answer that nobody gives: that takes asyncio two turns of the loop
            for _ in range(_TURNS_TO_ATTACH):
                await asyncio.sleep(0)
            self._serving.close()
            self._serving = self._listening = None

    def _new_watcher(self) -> asyncio.Protocol:
        watcher = _Watcher(self._respond, self._uid_of, self._watchers)
        self._watchers.add(watcher)
        return watcher

    def _respond(self, line: bytes, watcher: _Watcher) -> None:
        number = 0
        try:
            question = read_question(line)
            number = question.id
            match asked := question.read():
                case BoardAsked():
                    watcher.say(encode_ok_of(number, self._board.if_newer(asked.seen)))
                case TextAsked():
                    live_text = self._text(asked)
                    text = None if live_text is None else SomeText.of(live_text)
                    watcher.say(encode_ok(number, text))
                case CommandAsked():
                    task = asyncio.create_task(self._carry_out(number, asked.request, watcher))
                    self._work.add(task)
                    task.add_done_callback(self._work.discard)
        except MessageError as error:
            watcher.say(encode_error(number, str(error)))

    def _text(self, asked: TextAsked) -> LiveText | None:
        live_text = self._engine.text(asked.benchmark, asked.key, asked.cursor)
        # the cursor belongs to another message: send this one from the beginning
        if live_text is not None and asked.cursor and live_text.speech != asked.speech:
            return self._engine.text(asked.benchmark, asked.key)
        return live_text

    async def _carry_out(self, number: int, request: Request, watcher: _Watcher) -> None:
        try:
            answer = await self._engine.answer(request)
        except CrosswindError as error:
            answer = Response(accepted=False, text=str(error))
        except Exception as error:  # noqa: BLE001  (the edge of a request: a fault in it is told, never silent)
            _log.exception("a request failed")
            watcher.say(encode_error(number, f"the engine failed at it: {type(error).__name__}"))
            return
        # the requester will look next whether it happened
        self._board.forget()
        watcher.say(encode_ok(number, answer))


class _CurrentBoard:
    """The board, encoded once for all watchers that ask at about the same time."""

    def __init__(self, engine: ServedEngine) -> None:
        self._engine = engine
        self._number = 0
        self._encoded = b""
        self._good_until = 0.0

    def if_newer(self, seen: int) -> bytes:
        """The numbered board as JSON; null in place of the board that was seen."""
        now = asyncio.get_running_loop().time()
        if now >= self._good_until:
            encoded = encode_value(self._engine.board())
            if encoded != self._encoded:
                self._number += 1
                self._encoded = encoded
            self._good_until = now + BOARD_SECONDS
        board = b"null" if seen == self._number else self._encoded
        return b'{"number":%d,"board":%s}' % (self._number, board)

    def forget(self) -> None:
        """Encode a new board for the next request, because something has changed."""
        self._good_until = 0.0


class _Watcher(asyncio.Protocol):
    """The connection of one watcher."""

    def __init__(
        self,
        respond: Callable[[bytes, _Watcher], None],
        uid_of: Callable[[Socket], int | None],
        present: set[_Watcher],
    ) -> None:
        self.gone = asyncio.Event()
        self._respond = respond
        self._uid_of = uid_of
        self._present = present
        self._transport: asyncio.Transport | None = None
        self._unfinished = bytearray()
        self._lines: deque[bytes] = deque()
        self._parting = False

    # From asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not is_trusted(self._uid_of(transport.get_extra_info("socket"))):
            self.part(encode_error(0, "this engine belongs to another user"))

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._unfinished += data
        if b"\n" in data:
            *lines, rest = self._unfinished.split(b"\n")
            self._unfinished = bytearray(rest)
            # if lines are waiting, `_answer_some` is already scheduled, and must not run twice
            idle = not self._lines
            self._lines += [bytes(line) for line in lines]
            if idle:
                self._answer_some()
        if len(self._unfinished) > LONGEST_LINE:
            self.part(encode_error(0, f"a line has at most {LONGEST_LINE} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._present.discard(self)
        self._lines.clear()
        self.gone.set()

    # From the server

    @property
    def attends(self) -> bool:
        return self._transport is not None and not self._parting

    def say(self, line: bytes) -> None:
        """Send a line. A watcher that leaves too much unread is disconnected, because its answers
        would fill the engine's memory."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        # sent or buffered by asyncio, never awaited, so no watcher can delay the engine
        transport.write(line)
        if transport.get_write_buffer_size() > MOST_UNREAD:
            _log.info("a watcher does not read: let go of")
            self.drop()

    def part(self, last: bytes) -> None:
        """Send a last line, and close the connection once it is sent."""
        self._parting = True
        self._lines.clear()
        self.say(last)
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """Abort the connection, discarding unsent data."""
        if self._transport is not None:
            self._transport.abort()

    def _answer_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._lines))):
            line = self._lines.popleft()
            if len(line) > LONGEST_LINE:
                self.part(encode_error(0, f"a line has at most {LONGEST_LINE} bytes"))
            elif line.strip():
                self._respond(line, self)
            if not self._lines:
                break
        if self._transport is None or self._transport.is_closing():
            self._lines.clear()
        elif self._lines:
            # back-pressure: requests of a fast watcher wait in its socket, not in our memory
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._answer_some)
        else:
            self._transport.resume_reading()


def _listening_at(path: Path) -> tuple[socket.socket, int]:
    """A listening socket that appears at `path` only once it accepts connections, and the inode of
    its file. Raises `UnsafeFolderError`."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UnsafeFolderError(
            f"{path} is too long for a socket: at most {LONGEST_PATH} bytes; set TMPDIR to a "
            "folder with a shorter name"
        )
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UnsafeFolderError(f"{path} is there and is not a socket: remove it")
    # `bind` creates the file before `listen`: a watcher that connects in between would be refused,
    # and take the engine for dead. So it is bound under another name and renamed
    unfinished = path.with_suffix(".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unfinished.unlink(missing_ok=True)
        listening.bind(os.fspath(unfinished))
        # `bind` applies the umask; in addition, every watcher's uid is checked
        unfinished.chmod(0o600)
        inode = unfinished.lstat().st_ino
        # pending connections; systems reduce larger values to their limit (SOMAXCONN was 128)
        listening.listen(128)
        unfinished.rename(path)
    except OSError as error:
        listening.close()
        raise UnsafeFolderError(
            f"{path} cannot be listened at ({error.strerror}): watchers would reach the engine "
            "there; check the disk's space and who may write there"
        ) from error
    listening.settimeout(0)
    return listening, inode
