"""What the table of verdicts costs on a large store, in CPU seconds, medians of five:
`python -m tests.benchmarks.verdict_table DIR`, after
`python -m tests.benchmarks.synthetic DIR --store-only`.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
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

    def __str__(self) -> str:
        lines = [f"{what:32} {1000 * median(all_):7.1f} ms" for what, all_ in self.taken.items()]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return "\n".join([*lines, f"{'memory at most':32} {peak:7.1f} MB"])


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    workspace = find_workspace(parser.parse_args().workspace)
    config = load_config(workspace.config_path)
    infos = describe_benchmarks(workspace, config, workspace.benchmark_names())
    with closing(Watch.open(workspace.store_path(config), infos)) as watch:
        sys.stdout.write(f"{asyncio.run(measure(watch))}\n")


if __name__ == "__main__":
    main()
