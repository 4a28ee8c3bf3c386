"""Draws the pictures of README and manual from the app on the running demo: `make pictures`."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from textual.pilot import Pilot

from engine.benchmark import Track
from engine.cli.running import prepare_demo
from engine.cli.session import Session
from engine.host import EngineThread
from engine.link import Command, Request
from engine.pipeline.order import Order
from engine.pipeline.report import Report, added_up
from engine.service.hosting import hosted, serve
from engine.watch import Watch
from tui.app import CrosswindApp
from tui.services.engine_control import Backend

DOCS = Path(__file__).parent
SIZE = (120, 40)
THEME = "crosswind-dark"
PATIENCE_SECONDS = 180
_FONT_ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Where to fetch the font from: whoever looks at a picture tells nobody so. Where it is installed,
it is taken by its name."""
SETTLED_SECONDS = 2.0
"""After a key: what is read from the store in the background is on the screen by then."""


async def until(pilot: Pilot[None], met: Callable[[], bool]) -> None:
    for _ in range(PATIENCE_SECONDS * 5):
        if met():
            return
        await pilot.pause(0.2)
    raise TimeoutError("the demo did not come to what the picture is to show")


def verdicts(watch: Watch) -> int:
    targets = watch.progress.targets.values()
    return sum(one.scores[track].scored for one in targets for track in Track)


def speaking_late(watch: Watch) -> bool:
    """Whether the conversation that is shown, the longest running one, is well under way."""
    board = watch.link.board() if watch.link is not None else None
    return board is not None and bool(board.speaking) and board.speaking[0].turn >= 3


async def draw_running(watch: Watch) -> None:
    app = CrosswindApp(watch, theme=THEME)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: verdicts(watch) >= 24 and speaking_late(watch))
        save(app, "live")


async def draw_finished(session: Session, watch: Watch) -> None:
    """Every other screen, on the way that a person takes."""

    def report(benchmark: str) -> Report:
        return added_up(session.workspace, session.config, session.store_path, benchmark)

    app = CrosswindApp(watch, place="Benchmarks", theme=THEME, backend=Backend(report=report))
    async with app.run_test(size=SIZE) as pilot:

        async def press(*keys: str) -> None:
            await pilot.press(*keys)
            await pilot.pause(SETTLED_SECONDS)

        await press()
        save(app, "benchmarks")
        await press("3")
        await press("F", *"outcome:fail target:pushover", "enter")
        save(app, "verdicts")
        await press("enter")
        await press("c")
        save(app, "conversation")
        await press("v")
        save(app, "scenario")
        await press("q")
        await press("C")
        save(app, "compare")
        await press("q", "q")
        await press("4")
        save(app, "results")
        await press("5")
        save(app, "problems")


def save(app: CrosswindApp, name: str) -> None:
    path = DOCS / f"{name}.svg"
    path.write_text(_FONT_ELSEWHERE.sub("", app.export_screenshot()), "utf-8")
    sys.stderr.write(f"{path}\n")


def _nothing() -> None:
    pass


def main() -> None:
    with TemporaryDirectory() as folder:
        prepared = prepare_demo(argparse.Namespace(dir=Path(folder) / "demo"))
        with at_work(prepared.session, prepared.order) as (_, watch):
            asyncio.run(draw_running(watch))
        session = prepared.session.paced("instant")
        with at_work(session, prepared.order) as (engine, watch):
            engine.join()
            asyncio.run(draw_finished(session, watch))


@contextmanager
def at_work(session: Session, order: Order) -> Iterator[tuple[EngineThread, Watch]]:
    """An engine in this process, and a watch on it."""
    with hosted(session.place, linger=0.0) as served:
        engine = EngineThread(served, partial(serve, served, session.place, order, _nothing))
        watch = Watch.open(session.store_path, session.watched(), engine)
        engine.start()
        try:
            yield engine, watch
        finally:
            engine.ask(Request(Command.STOP_NOW))
            engine.join()
            watch.close()


if __name__ == "__main__":
    main()
