"""How far an import is, as a bar for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from engine.display import one_line


class ImportBar:
    """One bar, for the benchmark that is being read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, benchmark: str, size: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(one_line(benchmark), total=size)

    def read(self, size: int) -> None:
        """From whichever thread reads."""
        if self._task is not None:
            self._progress.advance(self._task, size)


@contextmanager
def import_bar() -> Iterator[ImportBar]:
    console = Console(stderr=True, markup=False, highlight=False)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        refresh_per_second=5,
        transient=True,
    ) as progress:
        yield ImportBar(progress)
