"""Progress as plain lines, for a log or a terminal that can do no more."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Final

from engine.benchmark import Stage
from engine.cli.console import tell
from engine.facts import NoteKind
from engine.progress import Progress, StateCounts, TargetProgress
from engine.watch import Watch

LINE_SECONDS: Final = 5.0
_OF_PRICE: Final = ("this run will cost more", "`run.budget`", "`workspace_budget`")


class LinePrinter:
    """One line for each stage every few seconds, and whenever a stage ends."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = 0.0
        self._last: dict[tuple[str, Stage], str] = {}

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, watch: Watch, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        turns = {info.name: info.turns for info in watch.benchmarks}
        for name, stage in list(watch.progress.stages):
            if name not in turns:
                continue
            line = stage_line(watch.progress, name, stage, turns[name])
            if line is not None and self._last.get((name, stage)) != line:
                self._last[name, stage] = line
                tell(f"[{_clock_text(now - self._began)}] {line}")


def price_stop(progress: Progress) -> str | None:
    """Why the last run stopped, where that was for its price."""
    found = None
    for note in progress.notes:
        if note.kind is NoteKind.RUN_STARTED:
            found = None
        elif note.kind is NoteKind.WARNING and note.text.startswith(_OF_PRICE):
            found = note.text
    return found


_COUNTED: Final = {Stage.GEN_SCENARIOS: " metrics and variants"}
"""What the rows of a stage are, where one would take them for something else: here one is all base
scenarios of a metric, or one rewrite."""


def stage_line(progress: Progress, name: str, stage: Stage, turns: int) -> str | None:
    """`sycophancy simulate 24/64 · a 8/32 · b 16/32 · 1 failed · 3.2/s · 12 s left`; None where
    there was nothing to do."""
    tally = progress.stages[name, stage]
    if not tally.total:
        return None
    parts = [f"{name} {stage} {tally.settled}/{tally.total}{_COUNTED.get(stage, '')}"]
    rate, left = 0.0, 0.0
    if stage in {Stage.SIMULATE, Stage.EVALUATE}:
        for target, one in progress.targets_of(name).items():
            mine = tally_of(one, stage)
            parts.append(f"{target} {mine.settled}/{mine.total}")
            if stage is Stage.SIMULATE:
                rate += one.settled.per_second(datetime.now(UTC))
                mine_left = one.time_left(datetime.now(UTC), turns)
                left = max(left, 0.0 if mine_left is None else mine_left.likely)
    parts.append(f"{tally.failed} failed")
    if tally.settled < tally.total and rate:
        parts.append(f"{rate:.1f}/s")
        parts += [f"{_clock_text(left)} left"] if left else []
    return " · ".join(parts)


def tally_of(target: TargetProgress, stage: Stage) -> StateCounts:
    return target.simulate if stage is Stage.SIMULATE else target.evaluate


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
