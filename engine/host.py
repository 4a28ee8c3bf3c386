"""Runs an engine on its own thread and event loop, so that a stalled screen cannot stall it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from engine.benchmark import ConversationKey
from engine.errors import CrosswindError
from engine.facts import LiveText
from engine.link import Board, EngineState, Request, Response
from engine.pipeline.run import RunResult
from engine.service.engine import Engine

ANSWER_SECONDS: Final = 5.0


class EngineThread:
    """Runs `serve`, which runs `engine`, on a thread. Call `start`, watch it as an `EngineLink`,
    and `join` it at the end."""

    def __init__(self, engine: Engine, serve: Callable[[], Awaitable[RunResult]]) -> None:
        self._engine = engine
        self._serve = serve
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        # not a daemon thread: the process waits until the engine has closed its store
        self._thread = threading.Thread(target=self._main, name="engine", daemon=False)
        self._ended = False
        self.result: RunResult | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start the thread; return when the engine accepts requests."""
        self._thread.start()
        self._ready.wait()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the engine to end, at most `timeout` seconds; return whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001  (the edge of this thread: kept for whoever joins it)
            self.error = error
        finally:
            self._ended = True
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        self.result = await self._serve()

    # EngineLink, callable from any thread

    def board(self) -> Board:
        """As `EngineLink`. After the thread has ended: a stopped board with the error, if any."""
        if not self._ended:
            return self._engine.board()
        return Board(EngineState.STOPPED, (), self._problem())

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        return self._engine.text(benchmark, key, cursor)

    def ask(self, request: Request) -> Response:
        """As `EngineLink`; waits at most `ANSWER_SECONDS`."""
        loop = self._loop
        over = Response(accepted=False, text="the engine has ended")
        if self._ended or loop is None:
            return over
        answering = self._engine.answer(request)
        try:
            future = asyncio.run_coroutine_threadsafe(answering, loop)
        except RuntimeError:  # the loop was closed meanwhile
            # avoids the warning about a coroutine that was never awaited
            answering.close()
            return over
        try:
            return future.result(ANSWER_SECONDS)
        except (TimeoutError, concurrent.futures.CancelledError):
            return Response(accepted=False, text="the engine does not answer")

    def close(self) -> None:
        """Do nothing: the run goes on until it is joined."""

    def _problem(self) -> str | None:
        if self.error is None:
            return None
        if isinstance(self.error, CrosswindError):
            return str(self.error)
        return f"the engine failed: {type(self.error).__name__}"
