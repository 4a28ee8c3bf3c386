"""Draws the pictures of README and manual from the app on the running demo: `make pictures`."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from textual.pilot import Pilot

from engine.benchmark import Track
from engine.cli.commands.upkeep import DemoCommand
from engine.cli.person_labels import PersonSample
from engine.cli.piloting import pilot_page
from engine.cli.reviewing import PersonReview
from engine.cli.running import prepare_demo
from engine.cli.session import Session, open_session
from engine.host import EngineThread
from engine.link import Command, Request
from engine.people import GivenLabel, LabelAnswer, NumberedLabel
from engine.pipeline.order import Order
from engine.pipeline.report import Report, build_report
from engine.service.hosting import hosted_engine, serve
from engine.watch import Watch
from tests.protocol_server.faults import Fault, always, rate
from tests.protocol_server.server import ProtocolServer
from tests.tui.theatre import on_screen
from tools.manual.pages import PICTURES
from tui.app import CrosswindApp
from tui.navigation import OpenedScreen
from tui.services.engine_control import Backend
from tui.services.label_queue import wait_for_files

SIZE = (120, 36)
THEMES = {"": "crosswind-dark", "-light": "crosswind-light"}
"""What stands behind a picture's name, and how it is then drawn."""
FAILING = """\
user_model: {{model: user, source: offline, params: {{pace: instant, seed: 7}}}}
generator_model: {{model: generator, source: offline, params: {{pace: instant, seed: 9}}}}
evaluator_model: {{model: evaluator, source: mine, base_url: {url}}}
generation: {{scenarios_per_metric: 3, turns: 4}}
targets:
  - {{id: steadfast, model: steadfast, source: mine, base_url: {url}}}
  - {{id: pushover, model: pushover, source: mine, base_url: {url}}}
  - {{id: unpaid, model: erratic, source: mine, base_url: {url}}}
"""
FAULTS = (
    (Fault.PAYMENT_REQUIRED, "erratic", always),
    (Fault.CONTENT_FILTER, "evaluator", rate(0.15, 3)),
    (Fault.CONTEXT_FULL, "pushover", rate(0.05, 5)),
    (Fault.BAD_REQUEST, "steadfast", rate(0.03, 7)),
)
"""What goes wrong, with whom and how often, for the picture of what failed."""
PATIENCE_SECONDS = 180
MOST_PRESSES = 12
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
    app = CrosswindApp(watch, theme=THEMES[""])
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: verdicts(watch) >= 24 and speaking_late(watch))
        await save(pilot, "live")


async def draw_finished(session: Session, watch: Watch) -> None:
    """Every other screen, on the way that a person takes."""
    async with opened(session, watch) as pilot:
        await press(pilot)
        await save(pilot, "benchmarks")
        await press(pilot, "3")
        await press(pilot, "right_curly_bracket")
        await press(pilot, "F", *"outcome:fail target:pushover", "enter")
        await save(pilot, "verdicts")
        await press(pilot, "enter")
        await press(pilot, "c")
        await save(pilot, "conversation")
        await press(pilot, "v")
        await save(pilot, "scenario")
        await press(pilot, "q")
        await press(pilot, "C")
        await save(pilot, "compare")
        await press(pilot, "q", "q")
        await press(pilot, "4")
        await save(pilot, "results")
        await press(pilot, "5")
        await press(pilot, "j", "j")  # to a variant: what became of its base
        await save(pilot, "review")


async def draw_label(session: Session, watch: Watch) -> None:
    """When no engine is at work any more: a sample is stored when it is drawn."""
    opened = partial(PersonSample.open, session, "sycophancy", "Ann", 60, "7", new=False)
    sample = await asyncio.to_thread(opened)
    app = CrosswindApp(watch, theme=THEMES[""], first=OpenedScreen("label", (sample,)))
    async with app.run_test(size=SIZE) as pilot:
        await press(pilot, *["enter"] * 10, "right_curly_bracket", "space", "3")
        await save(pilot, "label")


async def draw_judged(session: Session, watch: Watch) -> None:
    """What a pilot says, and what labels say of the judge: somebody who mostly agrees with it has
    labelled all of a sample."""
    opening = partial(PersonSample.open, session, "sycophancy", "Ann", 60, "7", new=False)
    sample = await asyncio.to_thread(opening)
    labels = [
        NumberedLabel(
            number,
            GivenLabel(LabelAnswer.PRESENT, (1,))
            if item.stratum.startswith("present") is (number % 9 != 0)
            else GivenLabel(LabelAnswer.ABSENT),
        )
        for number, item in enumerate(sample.labelling.sample.items, 1)
    ]
    await asyncio.to_thread(sample.store, labels)
    async with opened(session, watch) as pilot:
        await press(pilot, "end", "V")
        await save(pilot, "pilot")
        await press(pilot, "q", "4")
        await press_until(pilot, "greater_than_sign", "Results  sycophancy")
        await press_until(pilot, "left_curly_bracket", "[judges]")
        await press(pilot, "tab", "pagedown")
        await save(pilot, "calibrate")


async def draw_failed(session: Session, watch: Watch) -> None:
    async with opened(session, watch) as pilot:
        await press(pilot, "3", "X")
        await press(pilot, "enter", "down")
        await save(pilot, "failures")


@asynccontextmanager
async def opened(session: Session, watch: Watch) -> AsyncIterator[Pilot[None]]:
    def report(benchmark: str) -> Report:
        return build_report(session.workspace, session.config, session.store_path, benchmark)

    backend = Backend(
        report=report,
        review=lambda: PersonReview(session, lambda: "ann"),
        pilot=partial(pilot_page, session),
    )
    app = CrosswindApp(watch, place="Benchmarks", theme=THEMES[""], backend=backend)
    async with app.run_test(size=SIZE) as pilot:
        yield pilot


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause(SETTLED_SECONDS)


async def press_until(pilot: Pilot[None], key: str, words: str) -> None:
    """Press a key until these words are on the screen."""
    for _ in range(MOST_PRESSES):
        if words in on_screen(pilot):
            return
        await press(pilot, key)
    raise TimeoutError(f"{key} did not lead to {words}")


async def save(pilot: Pilot[None], name: str) -> None:
    """What is on the screen, once in each theme."""
    for suffix, theme in THEMES.items():
        pilot.app.theme = theme
        await pilot.pause()
        path = PICTURES / f"{name}{suffix}.svg"
        drawn = _FONT_ELSEWHERE.sub("", pilot.app.export_screenshot())
        path.write_text(drawn, "utf-8")
        sys.stderr.write(f"{path}\n")
    pilot.app.theme = THEMES[""]


def _nothing() -> None:
    pass


def main() -> None:
    with TemporaryDirectory() as folder:
        prepared = prepare_demo(DemoCommand(dir=Path(folder) / "demo"))
        with at_work(prepared.session, prepared.order) as (_, watch):
            asyncio.run(draw_running(watch))
        session = prepared.session.with_pace("instant")
        with at_work(session, prepared.order) as (engine, watch):
            engine.join()
            asyncio.run(draw_finished(session, watch))
        with closing(Watch.open(session.store_path, session.watched(), None)) as watch:
            asyncio.run(draw_label(session, watch))
            wait_for_files()
            asyncio.run(draw_judged(session, watch))
    with TemporaryDirectory() as folder, ProtocolServer() as server:
        session = failing(Path(folder) / "demo", server)
        order = Order(benchmarks=("own-judgement",))
        with at_work(session, order) as (engine, watch):
            engine.join()
            asyncio.run(draw_failed(session, watch))


def failing(folder: Path, server: ProtocolServer) -> Session:
    """A sample workspace whose models are reached over the wire, with faults."""
    for fault, match, when in FAULTS:
        server.plan(fault, match, when)
    prepare_demo(DemoCommand(dir=folder))
    config = folder / "config.yaml"
    config.write_text(FAILING.format(url=server.openai_url), "utf-8")
    return open_session(folder)


@contextmanager
def at_work(session: Session, order: Order) -> Iterator[tuple[EngineThread, Watch]]:
    """An engine in this process, and a watch on it."""
    with hosted_engine(session.engine_settings, linger=0.0) as served:
        engine = EngineThread(
            served, partial(serve, served, session.engine_settings, order, _nothing)
        )
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
