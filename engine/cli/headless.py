"""A run without the app: progress to stderr, as bars on a terminal or as lines for a log."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from engine.benchmark import Stage
from engine.cli.console import tell
from engine.facts import Noted, NoteKind
from engine.host import EngineThread
from engine.link import Command, Request
from engine.pipeline.order import Order
from engine.pipeline.run import RunResult
from engine.progress import Progress, Tally, TargetProgress
from engine.service.hosting import Place, hosted, serve
from engine.watch import BenchmarkInfo, Watch

POLL_SECONDS: Final = 0.2
LINE_SECONDS: Final = 5.0


class Printer(Protocol):
    """Shows progress to whoever watches a run without the app."""

    def show(self, watch: Watch, *, last: bool = False) -> None: ...


def run_headless(
    place: Place, store: Path, order: Order, infos: list[BenchmarkInfo], *, plain: bool
) -> RunResult:
    """Run to the end in the foreground. The first Ctrl-C finishes what is being spoken, the second
    stops now. Raises what the run raises."""
    with hosted(place, linger=0.0) as served:
        engine = EngineThread(served, partial(serve, served, place, order, _nothing))
        return _watched(engine, Watch.open(store, infos, engine), plain=plain)


def _nothing() -> None:
    pass


def _watched(engine: EngineThread, watch: Watch, *, plain: bool) -> RunResult:
    with _printer(plain=plain) as printer, _signals(engine):
        engine.start()
        while not engine.join(POLL_SECONDS):
            for fact in watch.poll():
                if isinstance(fact, Noted) and fact.kind is NoteKind.WARNING:
                    tell(f"note: {fact.text}")
            printer.show(watch)
        watch.poll()
        printer.show(watch, last=True)
    watch.close()
    if engine.error is not None:
        raise engine.error
    return engine.result or RunResult(failed=0, stopped=True)


@contextmanager
def _signals(engine: EngineThread) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP drain the run; a second one stops it now."""
    asked = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            engine.ask(Request(Command.STOP))
            tell("finishing what is being spoken; once more to stop now")
        else:
            engine.ask(Request(Command.STOP_NOW))

    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _printer(*, plain: bool) -> Iterator[Printer]:
    poor = os.environ.get("TERM", "dumb") == "dumb" or "NO_COLOR" in os.environ
    if plain or poor or not sys.stderr.isatty():
        yield LinePrinter()
        return
    from engine.cli.bars import bars

    with bars() as printer:
        yield printer


class LinePrinter:
    """One line for each stage every few seconds, and whenever a stage ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._shown = 0.0
        self._last: dict[tuple[str, Stage], str] = {}

    def show(self, watch: Watch, *, last: bool = False) -> None:
        now = self._clock()
        if not last and now - self._shown < LINE_SECONDS:
            return
        self._shown = now
        named = {info.name for info in watch.benchmarks}
        for name, stage in list(watch.progress.stages):
            if name not in named:
                continue
            line = stage_line(watch.progress, name, stage)
            if line is not None and self._last.get((name, stage)) != line:
                self._last[name, stage] = line
                tell(f"[{_clock_text(now - self._began)}] {line}")


def stage_line(progress: Progress, name: str, stage: Stage) -> str | None:
    """`sycophancy simulate 24/64 · a 8/32 · b 16/32 · 1 failed · 3.2/s · 12 s left`; None where
    there was nothing to do."""
    tally = progress.stages[name, stage]
    if not tally.total:
        return None
    parts = [f"{name} {stage} {tally.settled}/{tally.total}"]
    rate, left = 0.0, 0.0
    if stage in {Stage.SIMULATE, Stage.EVALUATE}:
        for target, one in progress.targets_of(name).items():
            mine = tally_of(one, stage)
            parts.append(f"{target} {mine.settled}/{mine.total}")
            if stage is Stage.SIMULATE:
                rate += one.settled.per_second(datetime.now(UTC))
                left = max(left, one.seconds_left(datetime.now(UTC)) or 0.0)
    parts.append(f"{tally.failed} failed")
    if tally.settled < tally.total and rate:
        parts.append(f"{rate:.1f}/s")
        parts.append(f"{_clock_text(left)} left")
    return " · ".join(parts)


def tally_of(target: TargetProgress, stage: Stage) -> Tally:
    return target.simulate if stage is Stage.SIMULATE else target.evaluate


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
