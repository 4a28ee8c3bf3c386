"""When an app under a Pilot has done all that it was given to do. Textual's own way is to sleep for
20 ms and ask whether the process was busy: where it was given no turn meanwhile, it was not. Only
then is the screen drawn: half of the work of these tests went into frames that nobody looks at.

Nor is a timer waited for where nothing else is to come: the time of the app and of its event loop
is ahead of the machine's by what would have been slept."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, TypeVar
from unittest.mock import patch
from weakref import WeakKeyDictionary

from textual._context import active_app
from textual._wait import SLEEP_GRANULARITY, wait_for_idle
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from tests.waiting import PATIENCE_S

T = TypeVar("T")

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


class InThreads:
    """What the event loops of this process have threads do."""

    def __init__(self) -> None:
        self._given = WeakKeyDictionary[Any, set[asyncio.Future[Any]]]()
        self._run = asyncio.BaseEventLoop.run_in_executor

    def run(
        self, loop: Any, executor: Any, work: Callable[..., Any], *given: Any
    ) -> asyncio.Future[Any]:
        future = self._run(loop, executor, work, *given)
        running = self.of(loop)
        running.add(future)
        future.add_done_callback(running.discard)
        return future

    def of(self, loop: Any) -> set[asyncio.Future[Any]]:
        return self._given.setdefault(loop, set())

    def busy(self, loop: Any) -> bool:
        return len(self.of(loop)) > Gate.held


_IN_THREADS: Final = InThreads()


async def done_by_threads(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it, with no time going by until then: threads that the loop does not know, as
    that of a store, carry it out, and the app would be drawn again and again meanwhile."""
    task = asyncio.ensure_future(work)
    running = _IN_THREADS.of(asyncio.get_running_loop())
    running.add(task)
    task.add_done_callback(running.discard)
    return await task


class Hurry:
    """By how much the time of what runs in a `HurriedLoop` is ahead of the machine's."""

    ahead_s = 0.0


def hurried_time() -> float:
    return monotonic() + Hurry.ahead_s


class HurriedSelector(selectors.DefaultSelector):
    """Lets time go by at once, unless something may come before the next timer."""

    loop: HurriedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0 or self.loop.waits():
            return super().select(timeout)
        found = super().select(0)
        if not found:
            Hurry.ahead_s += timeout
        return found


class HurriedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = HurriedSelector()
        selector.loop = self
        super().__init__(selector)
        self._children: list[asyncio.SubprocessTransport] = []

    def time(self) -> float:
        return hurried_time()

    async def subprocess_exec(self, *given: Any, **named: Any) -> Any:
        made = await super().subprocess_exec(*given, **named)
        self._children.append(made[0])
        return made

    def waits(self) -> bool:
        """For a thread or a process."""
        running = (child.get_returncode() is None for child in self._children)
        return _IN_THREADS.busy(self) or any(running)


def hurried(work: Coroutine[Any, Any, T]) -> T:
    """Carry it out in a loop that waits for no timer."""
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        return runner.run(work)


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
            if not _IN_THREADS.busy(loop):
                return
            running = _IN_THREADS.of(loop)
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


class ParsedOnce:
    """The rules of each style sheet, parsed for the first app that has these colours."""

    def __init__(self) -> None:
        self._parse = Stylesheet._parse_rules
        self._parsed = dict[object, list[RuleSet]]()

    def rules(self, sheet: Stylesheet, css: str, **given: Any) -> list[RuleSet]:
        key = (css, *given.values(), frozenset(sheet._variables.items()))
        if key not in self._parsed:
            self._parsed[key] = self._parse(sheet, css, **given)
        return self._parsed[key]


@contextmanager
def waiting_for_idleness() -> Iterator[None]:
    drawing = LateDrawing()
    idleness = Idleness(drawing)
    parsed = ParsedOnce()

    def put_off(screen: Screen[Any]) -> None:
        drawing.put_off(screen)

    def run_in_executor(loop: Any, executor: Any, work: Any, *given: Any) -> Any:
        return _IN_THREADS.run(loop, executor, work, *given)

    def rules(sheet: Stylesheet, css: str, **given: Any) -> list[RuleSet]:
        return parsed.rules(sheet, css, **given)

    with (
        patch.object(asyncio.BaseEventLoop, "run_in_executor", run_in_executor),
        patch.object(Screen, "_compositor_refresh", put_off),
        patch("textual._time.get_time", hurried_time),
        patch("textual.pilot.wait_for_idle", idleness.wait),
        patch("textual.app.wait_for_idle", idleness.wait),
        patch.object(Stylesheet, "_parse_rules", rules),
        patch("textual.strip.FIFOCache", lambda _size: _NO_CACHE),
    ):
        yield
