"""An engine that says what it is told to say, behind a real socket, on a loop of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from engine.benchmark import ConversationKey, Speaker
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState, Identity, Request, Response
from engine.pipeline.context import LiveBoard, LiveMessage
from engine.service.client import LinkTimeouts, SocketLink
from engine.service.server import Server
from engine.service.socket import Socket, peer_uid
from tests.waiting import PATIENCE_S

T = TypeVar("T")

BENCHMARK = "steadiness"
KEY = ConversationKey("m01_s001_v01", "steadfast")
ENGINE = Identity(4711, "here", datetime(2026, 5, 1, 12, tzinfo=UTC))
PATIENCE = LinkTimeouts(answer=PATIENCE_S, frozen=PATIENCE_S, reach=0.15, longest_look=0.05)


def a_speech(
    number: int = 1, turn: int = 1, speaker: Speaker = Speaker.TARGET, began: float = 5.0
) -> Speech:
    key = ConversationKey(f"m01_s{number:03d}_v01", "steadfast")
    return Speech(BENCHMARK, key, 0, turn, speaker, "Brings up a friend, a nurse.", began)


@dataclass
class StagedEngine:
    """What `Server` asks."""

    state: EngineState = EngineState.RUNNING
    problem: str | None = None
    live: LiveBoard = field(default_factory=LiveBoard)
    requests: list[Request] = field(default_factory=list)
    reply: Callable[[Request], Coroutine[None, None, Response]] | None = None
    boards: int = 0

    def board(self) -> Board:
        self.boards += 1
        return Board(self.state, tuple(self.live.speaking()), self.problem, engine=ENGINE)

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        return self.live.text(benchmark, key, cursor)

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        if self.reply is not None:
            return await self.reply(request)
        return Response(accepted=True, text=f"{request.command} it is")

    def speak(self, text: str, speech: Speech | None = None) -> LiveMessage:
        voice = self.live.begin(speech or a_speech())
        voice.add(text)
        return voice


@dataclass(frozen=True)
class Holder:
    """What a workspace's lock file says."""

    socket: str | None
    pid: int = 4711


class Stage:
    """One workspace: whether an engine holds it, and a server for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = StagedEngine()
        self.holder: Holder | None = None
        self.going = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="staged engine")
        self._thread.start()
        self._server: Server | None = None
        self._links: list[SocketLink] = []

    @property
    def server(self) -> Server:
        assert self._server is not None
        return self._server

    def start(self, uid_of: Callable[[Socket], int | None] = peer_uid) -> None:
        self._server = Server(self.engine, self.path, uid_of=uid_of)
        self.run(self._server.start())
        self.holder = Holder(str(self.path))

    def stop(self) -> None:
        """In order."""
        self.run(self.server.close())
        self.holder = None

    def kill(self) -> None:
        """As far as a watcher can tell."""

        async def die() -> None:
            await self.server.stop_listening()
            await self.drop_watchers()

        self.holder = None
        self.run(die())

    async def drop_watchers(self) -> None:
        for watcher in list(self.server._watchers):
            watcher.drop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def freeze(self) -> Callable[[], None]:
        """Let the engine's loop stand still until what is returned is called."""
        thaw = threading.Event()
        frozen = threading.Event()

        def stand_still() -> None:
            frozen.set()
            thaw.wait(PATIENCE_S)

        self._loop.call_soon_threadsafe(stand_still)
        assert frozen.wait(PATIENCE_S)
        return thaw.set

    def link(self, timeouts: LinkTimeouts = PATIENCE, hertz: float = 50.0) -> SocketLink:
        link = SocketLink(self.path, lambda: self.holder, hertz=hertz, timeouts=timeouts)
        self._links.append(link)
        return link

    def go(self) -> None:
        """Let what waits for it be answered."""
        self._loop.call_soon_threadsafe(self.going.set)

    def close(self) -> None:
        self.go()
        for link in self._links:
            link.close()
        if self._server is not None:
            self.run(self._server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class Stranger:
    """A client that says and hears raw lines."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(str(path))
        except BaseException:
            self.socket.close()
            raise
        self._heard = self.socket.makefile("rb")

    def say(self, line: bytes) -> None:
        self.socket.sendall(line)

    def ask(self, **fields: object) -> None:
        self.say(json.dumps({"v": 2, "id": 1, **fields}).encode() + b"\n")

    def hear(self) -> Any:
        """None where the engine hung up."""
        try:
            line = self._heard.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def close(self) -> None:
        self._heard.close()
        self.socket.close()
