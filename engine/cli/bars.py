"""Progress as bars, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.benchmark import Stage
from engine.cli.lines import tally_of
from engine.display import one_line
from engine.progress import StateCounts
from engine.watch import Watch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class BarPrinter:
    """Draws one bar for each stage, and below it one for each target."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[tuple[str, Stage, str | None], TaskID] = {}

    def show(self, watch: Watch, *, last: bool = False) -> None:
        for (name, stage), tally in list(watch.progress.stages.items()):
            if name != watch.progress.benchmark:
                self._hide(name)
                continue
            if (name, stage) not in watch.progress.begun:
                continue
            self._update(name, stage, None, tally)
            if stage in {Stage.SIMULATE, Stage.EVALUATE}:
                for target, target_progress in watch.progress.targets_of(name).items():
                    self._update(name, stage, target, tally_of(target_progress, stage))
        if last:
            self._progress.refresh()

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def _hide(self, name: str) -> None:
        """Remove the bars of a benchmark that is over, to make room for the next."""
        for key in [key for key in self._tasks if key[0] == name]:
            self._progress.remove_task(self._tasks.pop(key))

    def _update(self, name: str, stage: Stage, target: str | None, tally: StateCounts) -> None:
        if not tally.total:
            return
        key = (name, stage, target)
        if key not in self._tasks:
            label = one_line(f"{name} {stage}") if target is None else f"  {one_line(target)}"
            self._tasks[key] = self._progress.add_task(label, total=tally.total, failed="")
        failed = f"{tally.failed} failed" if tally.failed else ""
        self._progress.update(
            self._tasks[key], total=tally.total, completed=tally.settled, failed=failed
        )


def _progress(*, of_bytes: bool) -> Progress:
    """Bars that count bytes and vanish at the end, or rows, with those that failed."""
    # 23 ms to load rich, only where there are bars to draw
    from rich import console, progress

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=30),
        progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        *([] if of_bytes else [progress.TextColumn("{task.fields[failed]}", markup=False)]),
        console=console.Console(stderr=True, markup=False, highlight=False),
        refresh_per_second=5,
        transient=of_bytes,
    )


@contextmanager
def bars() -> Iterator[BarPrinter]:
    with _progress(of_bytes=False) as progress:
        yield BarPrinter(progress)


class ImportBar:
    """Draws one bar, for the benchmark that is being read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, benchmark: str, size: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(one_line(benchmark), total=size)

    def read(self, size: int) -> None:
        """Advance by `size` bytes. Safe to call from any thread."""
        if self._task is not None:
            self._progress.advance(self._task, size)


@contextmanager
def import_bar() -> Iterator[ImportBar]:
    with _progress(of_bytes=True) as progress:
        yield ImportBar(progress)
