"""Draws the pictures of the README from the real app on the running demo: `make pictures`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from textual.pilot import Pilot

from engine.benchmark import Track
from engine.cli.running import prepare_demo
from engine.host import EngineThread
from engine.link import Command, Request
from engine.service.hosting import hosted, serve
from engine.watch import Watch
from tui.app import CrosswindApp

DOCS = Path(__file__).parent
SIZE = (120, 40)
PATIENCE_SECONDS = 90


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


async def draw(watch: Watch) -> None:
    app = CrosswindApp(watch)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: verdicts(watch) >= 24 and speaking_late(watch))
        save(app, "live")
        await pilot.press("tab", "enter")
        await pilot.pause(1)
        save(app, "conversation")


def save(app: CrosswindApp, name: str) -> None:
    path = DOCS / f"{name}.svg"
    path.write_text(app.export_screenshot(), "utf-8")
    sys.stderr.write(f"{path}\n")


def _nothing() -> None:
    pass


def main() -> None:
    with TemporaryDirectory() as folder:
        arguments = argparse.Namespace(dir=Path(folder) / "demo")
        prepared = prepare_demo(arguments)
        session, order = prepared.session, prepared.order
        with hosted(session.place, linger=0.0) as served:
            engine = EngineThread(served, partial(serve, served, session.place, order, _nothing))
            infos = session.infos(order.benchmarks)
            watch = Watch.open(session.store_path, infos, engine)
            engine.start()
            try:
                asyncio.run(draw(watch))
            finally:
                engine.ask(Request(Command.STOP_NOW))
                engine.join()
                watch.close()


if __name__ == "__main__":
    main()
