"""A run without the app: progress to stderr, as bars on a terminal or as lines for a log."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from engine.benchmark import Stage
from engine.cli.console import tell
from engine.cli.failures import FailureNews
from engine.facts import Fact, Noted, NoteKind
from engine.host import EngineThread
from engine.link import Command, Request
from engine.pipeline.order import Order
from engine.pipeline.run import RunResult
from engine.progress import Progress, Tally, TargetProgress
from engine.service.hosting import hosted, serve
from engine.service.spawning import Place
from engine.watch import BenchmarkInfo, Watch

LINE_SECONDS: Final = 5.0
_OF_PRICE: Final = ("this run will cost more", "`run.budget`", "`workspace_budget`")


class LinePrinter:
    """One line for each stage every few seconds, and whenever a stage ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._shown = 0.0
        self._last: dict[tuple[str, Stage], str] = {}

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, watch: Watch, *, last: bool = False) -> None:
        now = self._clock()
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


def stage_line(progress: Progress, name: str, stage: Stage, turns: int) -> str | None:
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
                mine_left = one.time_left(datetime.now(UTC), turns)
                left = max(left, 0.0 if mine_left is None else mine_left.likely)
    parts.append(f"{tally.failed} failed")
    if tally.settled < tally.total and rate:
        parts.append(f"{rate:.1f}/s")
        parts += [f"{_clock_text(left)} left"] if left else []
    return " · ".join(parts)


def tally_of(target: TargetProgress, stage: Stage) -> Tally:
    return target.simulate if stage is Stage.SIMULATE else target.evaluate


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


POLL_SECONDS: Final = 0.2


class Printer(Protocol):
    """Shows progress to whoever watches a run without the app."""

    def show(self, watch: Watch, *, last: bool = False) -> None: ...

    def aside(self) -> AbstractContextManager[None]:
        """While somebody is asked something on the same terminal."""
        ...


def run_headless(
    place: Place, store: Path, order: Order, infos: list[BenchmarkInfo], *, plain: bool
) -> RunResult:
    """Run to the end in the foreground. The first Ctrl-C finishes what is being spoken, the second
    stops now. On a terminal it asks before it costs more than it was quoted at. Raises what the run
    raises."""
    began = datetime.now(UTC)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    with hosted(place, linger=0.0) as served:
        served.attended = lambda: asks
        engine = EngineThread(served, partial(serve, served, place, order, _nothing))
        watch = Watch.open(store, infos, engine)
        for noted in watch.progress.notes:
            if noted.at >= began:  # what was found when the store was opened
                _pass_on(noted, FailureNews())
        return _watched(engine, watch, plain=plain)


def answer_on_terminal(engine: EngineThread) -> None:
    """What the engine asks was printed when it came up. Somebody may answer elsewhere meanwhile."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before is no answer to it
    tell("go on? [y/N]")
    while engine.board().question is not None:
        ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
        if ready:
            said = sys.stdin.readline().strip().lower() in {"y", "yes"}
            tell(engine.ask(Request(Command.RESUME if said else Command.STOP)).text)
            return
    tell("it was answered elsewhere")


def _pass_on(fact: Fact, news: FailureNews) -> None:
    """What a person should know of a run, whoever looks at it."""
    if isinstance(fact, Noted) and fact.kind is NoteKind.WARNING:
        tell(f"note: {fact.text}")
    failed = news.hear(fact)
    if failed is not None:
        tell(failed)


def _nothing() -> None:
    pass


def _watched(engine: EngineThread, watch: Watch, *, plain: bool) -> RunResult:
    news = FailureNews()
    with _printer(plain=plain) as printer, _signals(engine):
        engine.start()
        asked: str | None = None
        while not engine.join(POLL_SECONDS):
            for fact in watch.poll():
                _pass_on(fact, news)
            printer.show(watch)
            question = engine.board().question
            if question is not None and question != asked:
                with printer.aside():
                    answer_on_terminal(engine)
            asked = question
        for fact in watch.poll():
            _pass_on(fact, news)
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
