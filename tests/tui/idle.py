"""When an app under a Pilot has done all that it was given to do. Textual's own way is to sleep for
20 ms and ask whether the process was busy: where it was given no turn meanwhile, it was not."""

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


class Idleness:
    """Of all event loops of this process."""

    def __init__(self) -> None:
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


@contextmanager
def waiting_for_idleness() -> Iterator[None]:
    idleness = Idleness()

    def run_in_executor(loop: Any, executor: Any, work: Any, *given: Any) -> Any:
        return idleness.run_in_executor(loop, executor, work, *given)

    with (
        patch.object(asyncio.BaseEventLoop, "run_in_executor", run_in_executor),
        patch("textual.pilot.wait_for_idle", idleness.wait),
        patch("textual.app.wait_for_idle", idleness.wait),
    ):
        yield
