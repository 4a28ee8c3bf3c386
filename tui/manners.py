"""What a terminal is told beside the picture: its title, and a word when the run has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.benchmark import Stage
from engine.display import one_line
from engine.link import Board
from engine.watch import Watch
from tui.situation import Situation, current_benchmark, situation

KEEP_TITLE: Final = "\x1b[22;0t"
GIVE_TITLE_BACK: Final = "\x1b[23;0t"
EVERY: Final = 1.0
"""Seconds between two titles."""


class Manners:
    """Looks at each tick, and speaks seldom."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        """To the terminal, as it is."""
        self._title = ""
        self._titled_at = float("-inf")
        self._was_on = False

    def begin(self) -> None:
        self._write(KEEP_TITLE)

    def end(self) -> None:
        self._write(GIVE_TITLE_BACK)

    def look(self, watch: Watch, board: Board | None, seconds: float) -> Situation | None:
        """Where the run stands, where it has ended since the last look."""
        where = situation(watch.progress, board, current_benchmark(watch))
        ended = self._was_on and where.phase.over
        self._was_on = not where.phase.over
        if ended or seconds - self._titled_at >= EVERY:
            self._titled_at = seconds
            self._show_title(title(watch, where))
        if ended:
            self._write(f"\x07\x1b]9;Crosswind: {one_line(where.words)}\x1b\\")
        return where if ended else None

    def _show_title(self, text: str) -> None:
        if text != self._title:
            self._title = text
            self._write(f"\x1b]0;{one_line(text)}\x1b\\")


def title(watch: Watch, where: Situation) -> str:
    """`crosswind 41 % ✗12`, with a word for what is not plain running."""
    tallies = [
        watch.progress.stage_tally(info.name, stage)
        for info in watch.benchmarks
        for stage in (Stage.SIMULATE, Stage.EVALUATE)
    ]
    total = sum(tally.total for tally in tallies)
    failed = sum(tally.failed for tally in tallies)
    words = ["crosswind"]
    if total:
        words.append(f"{100 * sum(tally.done for tally in tallies) // total} %")
    if failed:
        words.append(f"✗{failed}")
    words.append(where.phase.glyph)
    return " ".join(words)
