"""The engine on a thread and an event loop of its own, so that a stalled screen never stalls it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from engine.benchmark import ConversationKey
from engine.errors import CrosswindError
from engine.link import Answer, Board, Command, EngineState, Request
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.speech import LiveText, Speech


class EngineThread:
    """Runs one order. `start` it, watch it through the link that it is, `join` it at the end."""

    def __init__(self, pipeline: Pipeline, order: Order) -> None:
        self._pipeline = pipeline
        self._order = order
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[RunResult] | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="engine", daemon=False)
        self._ended = False
        self.result: RunResult | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def join(self, timeout: float | None = None) -> bool:
        """Whether it has ended."""
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
        self._task = asyncio.create_task(self._pipeline.run(self._order))
        self._ready.set()
        try:
            self.result = await self._task
        except asyncio.CancelledError:
            self.result = RunResult(failed=0, stopped=True)

    # The link, from any thread

    def board(self) -> Board:
        return Board(self._state(), self._speaking(), self._problem())

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        return self._pipeline.live.text(benchmark, key, cursor)

    def ask(self, request: Request) -> Answer:
        if self._ended or self._loop is None or self._task is None:
            return Answer(accepted=False, text="the run has ended")
        control, loop = self._pipeline.control, self._loop
        match request.command:
            case Command.PAUSE:
                if control.draining:
                    return Answer(accepted=False, text="the run is stopping")
                return _do(loop, self._pipeline.pause, "paused after what is being spoken")
            case Command.RESUME:
                return _do(loop, self._pipeline.resume, "running")
            case Command.STOP:
                return _do(loop, self._pipeline.drain, "stopping after what is being spoken")
            case Command.STOP_NOW:
                control.draining = True
                return _do(loop, self._task.cancel, "stopping now")
            case _:
                return Answer(accepted=False, text="this engine does one run and no more")

    def close(self) -> None:
        """The run goes on; `join` it."""

    def _speaking(self) -> Sequence[Speech]:
        return () if self._ended else self._pipeline.live.speaking()

    def _state(self) -> EngineState:
        control = self._pipeline.control
        if self._ended:
            return EngineState.STOPPED
        if self._task is None:
            return EngineState.STARTING
        if control.draining:
            return EngineState.DRAINING
        return EngineState.PAUSED if control.paused else EngineState.RUNNING

    def _problem(self) -> str | None:
        if self.error is None:
            return None
        if isinstance(self.error, CrosswindError):
            return str(self.error)
        return f"the engine failed: {type(self.error).__name__}"


def _do(loop: asyncio.AbstractEventLoop, act: Callable[[], object], text: str) -> Answer:
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:  # the loop closed since it was looked at
        return Answer(accepted=False, text="the run has ended")
    return Answer(accepted=True, text=text)
