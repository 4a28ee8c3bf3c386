"""Everything about one target of a report, over the results it was opened from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from engine.analysis.sections import VerdictScope
from engine.analysis.target_sections import target_sections
from engine.display import one_line
from tui.results.sections import onset_rows, section_rows, title
from tui.screens.base import Shell, WatchingScreen
from tui.text import plot
from tui.text.ink import Ink, Piece
from tui.widgets.lines import Sheet, SheetRow

if TYPE_CHECKING:
    from engine.pipeline.report import Report


class TargetScreen(WatchingScreen, inherit_bindings=False):
    """Its rates, missing verdicts, samples and groups, then the pass rate by the end of each turn.
    Enter opens the verdicts behind a row."""

    def __init__(
        self, shell: Shell, report: Report, target: str, show: Callable[[VerdictScope], None]
    ) -> None:
        super().__init__(shell)
        self._report = report
        self._target = target
        self._show = show
        self._sheet = Sheet(id="section")

    def parts(self) -> Sequence[Widget]:
        return [self._sheet]

    def on_mount(self) -> None:
        name = self._report.analysis.benchmark
        words = [
            Piece(one_line(name) + "  ", Ink.ACCENT),
            Piece(one_line(self._target), Ink.STRONG),
        ]
        self.show_heading("Results", words)
        self._sheet.show(self._rows)
        self._sheet.focus()
        self.run_worker(self._load_plots(), group="load")

    async def _load_plots(self) -> None:
        await asyncio.to_thread(plot.load)
        self._sheet.show(self._rows)

    def _rows(self, width: int) -> list[SheetRow]:
        report = self._report
        result = report.analysis.target(self._target)
        if result is None:
            return []
        own = title(one_line(self._target), width, one_line(result.model))
        rows = [own._replace(key=VerdictScope((self._target,)))]
        for section in target_sections(report.analysis, result):
            rows += section_rows(section, width)
        if report.courses:
            rows += onset_rows(report.courses, self._target, width)
        return rows

    def on_cursor_view_opened(self) -> None:
        behind = self._sheet.cursor
        if isinstance(behind, VerdictScope):
            self._show(behind)
