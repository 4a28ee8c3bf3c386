"""What the table of verdicts costs on a large store."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from textual.pilot import Pilot

from engine.cli.session import describe_benchmarks
from engine.config.schema import load_config
from engine.config.workspace import find_workspace
from engine.store.browsing import Column
from engine.watch import Watch
from tests.benchmarks.frame import Row
from tests.benchmarks.measuring import peak_mb
from tests.benchmarks.synthetic import large_workspace
from tui.app import CrosswindApp
from tui.screens.base import Shell
from tui.screens.verdicts import VerdictsScreen
from tui.widgets.table import WideTable

ROUNDS: Final = 5
LINES: Final = ("out:fail target:push", "who:older -metric:m01", "does not do", "is:split")


@dataclass
class Figures:
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.taken[what].append(time.process_time() - began)


async def measure(watch: Watch) -> Figures:
    figures = Figures()
    app = CrosswindApp(watch, place="Benchmarks")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.app.workers.wait_for_complete()
        for _ in range(ROUNDS):
            await _one_round(pilot, app.shell, figures)
    return figures


async def _one_round(pilot: Pilot[None], shell: Shell, figures: Figures) -> None:
    screen = VerdictsScreen(shell)
    with figures.timed("open, all rows there"):
        pilot.app.push_screen(screen)
        await _until(lambda: screen.is_running and len(screen.query_one(WideTable).rows) > 0)
    for column in (Column.OUTCOME, Column.WHO, Column.BECAUSE, Column.ID):
        with figures.timed(f"sort by {column}"):
            screen.sort_by(column)
            await pilot.app.workers.wait_for_complete()
    for line in (*LINES, ""):
        with figures.timed(f"filter {line or 'cleared'}"):
            screen.show_only(line)
            await pilot.app.workers.wait_for_complete()
    table = screen.query_one(WideTable)
    for key in ("down", "pagedown", "G", "g"):
        with figures.timed(f"key {key}"):
            await pilot.press(key)
    with figures.timed("a row that changes"):
        table.renew([] if table.cursor is None else [table.cursor])
        await pilot.pause()
    pilot.app.pop_screen()
    await pilot.pause()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  (what a tick brings about has no event to wait for)
        await asyncio.sleep(0.01)


def verdicts(workspace: Path | None = None) -> Iterator[Row]:
    """What the table of verdicts costs on a store of 30,240 conversations, or on the one that is
    given, in CPU, medians of five."""
    with large_workspace(workspace) as root:
        place = find_workspace(root)
        config = load_config(place.config_path)
        infos = describe_benchmarks(place, config, place.benchmark_names())
        with closing(Watch.open(place.store_path(config), infos)) as watch:
            figures = asyncio.run(measure(watch))
    for what, taken in figures.taken.items():
        yield Row(what, f"{1000 * median(taken):.1f} ms of CPU")
    yield Row("peak memory", f"{peak_mb():.0f} MB")
