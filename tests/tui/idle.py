"""When an app under a Pilot has done all that it was given to do. Textual's own way is to sleep for
20 ms and ask whether the process was busy: where it was given no turn meanwhile, it was not. Only
then is the screen drawn: half of the work of these tests went into frames that nobody looks at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch
from weakref import WeakKeyDictionary

from textual._context import active_app
from textual._wait import SLEEP_GRANULARITY, wait_for_idle
from textual.screen import Screen

from tests.waiting import PATIENCE_S

_MOST_FRAMES: Final = 100
"""That are waited for: something that is drawn again and again is never idle."""
_LOOK_S: Final = 0.01
"""Between two looks at threads, which may come to a gate."""


class Gate(threading.Event):
    """Where a test holds threads up, which are then not waited for."""

    held = 0

    def wait(self, timeout: float | None = PATIENCE_S) -> bool:
        Gate.held += 1
        try:
            return super().wait(timeout)
        finally:
            Gate.held -= 1


class LateDrawing:
    """Draws what is shown when nothing else is left to do, as if the terminal read slowly."""

    def __init__(self) -> None:
        self._draw = Screen._compositor_refresh
        self._owed: Screen[Any] | None = None

    def put_off(self, screen: Screen[Any]) -> None:
        if screen is screen.app.screen:
            self._owed = screen
            screen._dirty_widgets.clear()  # or it would ask for a frame again and again
        else:
            self._draw(screen)

    def catch_up(self) -> None:
        screen, self._owed = self._owed, None
        app = active_app.get(None)
        if screen is not None and app is not None and app._running and screen is app.screen:
            self._draw(screen)


class Idleness:
    """Of all event loops of this process."""

    def __init__(self, drawing: LateDrawing) -> None:
        self._drawing = drawing
        self._in_threads = WeakKeyDictionary[Any, set[asyncio.Future[Any]]]()
        self._run_in_executor = asyncio.BaseEventLoop.run_in_executor

    def run_in_executor(
        self, loop: Any, executor: Any, work: Callable[..., Any], *given: Any
    ) -> asyncio.Future[Any]:
        future = self._run_in_executor(loop, executor, work, *given)
        running = self._in_threads.setdefault(loop, set())
        running.add(future)
        future.add_done_callback(running.discard)
        return future

    async def wait(self, min_sleep: float = SLEEP_GRANULARITY, max_sleep: float = 1.0) -> None:
        """Until nothing is left to be done, neither now nor with the next frame, and then as
        Textual does it: what is drawn some frames later is on the screen by then, too."""
        await self._frames()
        self._drawing.catch_up()
        await wait_for_idle(min_sleep, max_sleep)
        await self._frames()

    async def _frames(self) -> None:
        loop: Any = asyncio.get_running_loop()
        for _ in range(_MOST_FRAMES):
            await self._nothing_ready(loop)
            # from when nothing was left to do: what took longer than a frame may have asked for one
            frame = loop.time() + SLEEP_GRANULARITY
            due = min((one.when() for one in loop._scheduled if not one.cancelled()), default=frame)
            if due >= frame or _is_leaving():
                return
            await asyncio.sleep(max(due - loop.time(), 0))

    async def _nothing_ready(self, loop: Any) -> None:
        while True:
            await asyncio.sleep(0)
            if loop._ready:
                continue
            running = self._in_threads.get(loop, set())
            if len(running) <= Gate.held:
                return
            await asyncio.wait(running, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)


def _is_leaving() -> bool:
    """An app that is leaving asks for frames that it no longer draws."""
    app = active_app.get(None)
    return app is not None and app._exit


class NoCache:
    """In place of the seven caches of each strip of cells, which cost more to make than they save
    where a screen is drawn a few times."""

    def get(self, _key: object, default: None = None) -> None:
        return default

    def __setitem__(self, _key: object, _value: object) -> None:
        pass


_NO_CACHE: Final = NoCache()


@contextmanager
def waiting_for_idleness() -> Iterator[None]:
    drawing = LateDrawing()
    idleness = Idleness(drawing)

    def put_off(screen: Screen[Any]) -> None:
        drawing.put_off(screen)

    def run_in_executor(loop: Any, executor: Any, work: Any, *given: Any) -> Any:
        return idleness.run_in_executor(loop, executor, work, *given)

    with (
        patch.object(asyncio.BaseEventLoop, "run_in_executor", run_in_executor),
        patch.object(Screen, "_compositor_refresh", put_off),
        patch("textual.pilot.wait_for_idle", idleness.wait),
        patch("textual.app.wait_for_idle", idleness.wait),
        patch("textual.strip.FIFOCache", lambda _size: _NO_CACHE),
    ):
        yield
