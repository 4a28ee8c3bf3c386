"""A run without the app, and `crosswind watch` without it: progress to stderr, as bars on a
terminal or as lines for a log."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from engine.cli.commands.at_work import WatchCommand
from engine.cli.console import do_without_stdout, says_yes, tell
from engine.cli.lines import BarPrinter, FailureNews, LinePrinter, bars
from engine.cli.session import open_session
from engine.facts import Fact, Noted, NoteKind
from engine.host import EngineThread
from engine.link import Command, PauseNews, Request
from engine.pipeline.order import Order
from engine.pipeline.run import RunResult
from engine.service.hosting import hosted_engine, serve
from engine.service.spawning import EngineSettings
from engine.watch import BenchmarkInfo, Watch

POLL_SECONDS: Final = 0.2


Printer = LinePrinter | BarPrinter


def run_headless(
    place: EngineSettings,
    store: Path,
    order: Order,
    infos: list[BenchmarkInfo],
    *,
    plain: bool,
) -> RunResult:
    """Run to the end in the foreground. The
    first Ctrl-C finishes the messages being written, the second stops at once. On a terminal it
    asks before it costs more than its quote. Raises what the run raises."""
    do_without_stdout()
    began = datetime.now(UTC)
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    news = FailureNews()
    with (
        _printer(plain=plain) as printer,
        ExitStack() as when_closed,
        hosted_engine(place, linger=0.0) as served,
    ):
        served.attended = lambda: asks
        engine = EngineThread(served, partial(serve, served, place, order, _do_nothing))
        watch = Watch.open(store, infos, engine)
        # what a run says last may not be in the store before that is closed
        when_closed.callback(_print_last, watch, news, printer)
        for noted in watch.progress.notes:
            if noted.at >= began:  # what was found when the store was opened
                _pass_on(noted, news)
        _print_until_end(engine, watch, news, printer)
        if engine.error is not None:
            raise engine.error
        return engine.result or RunResult(failed=0, stopped=True)


def _print_last(watch: Watch, news: FailureNews, printer: Printer) -> None:
    with closing(watch):
        for fact in watch.poll():
            _pass_on(fact, news)
        printer.show(watch, last=True)


def answer_on_terminal(engine: EngineThread) -> None:
    """Answer the engine's question, which was printed as a note, unless it is answered elsewhere
    first."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed before is no answer to it
    tell("go on? [y/N]")
    while engine.board().question is not None:
        ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
        if ready:
            command = Command.RESUME if says_yes() else Command.STOP
            tell(engine.ask(Request(command)).text)
            return
    tell("it was answered elsewhere")


def _pass_on(fact: Fact, news: FailureNews) -> None:
    """Print warnings and failures of the run."""
    if isinstance(fact, Noted) and fact.kind is NoteKind.WARNING:
        tell(f"note: {fact.text}")
    failed = news.hear(fact)
    if failed is not None:
        tell(failed)


def _do_nothing() -> None:
    pass


def _print_until_end(
    engine: EngineThread, watch: Watch, news: FailureNews, printer: Printer
) -> None:
    pauses = PauseNews(questions=False)
    with _stop_on_signals(engine):
        engine.start()
        asked: str | None = None
        # the engine has its own thread: a blocked terminal holds up this loop, but no call
        while not engine.join(POLL_SECONDS):
            for fact in watch.poll():
                _pass_on(fact, news)
            printer.show(watch)
            board = engine.board()
            for line in pauses.hear(board, time.monotonic()):
                tell(line)
            question = board.question
            if question is None:
                asked = None
            elif question != asked and any(question == note.text for note in watch.progress.notes):
                with printer.aside():
                    answer_on_terminal(engine)
                asked = question


@contextmanager
def _stop_on_signals(engine: EngineThread) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP drain the run; a second signal stops it at once."""
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
    with bars() as printer:
        yield printer


def watch(arguments: WatchCommand) -> int:
    """Print progress while an engine is at work; on a terminal the app does this instead."""
    session = open_session(arguments.workspace)
    session.handle.require_holder()
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watched,
    ):
        printer, news = LinePrinter(), FailureNews()
        try:
            while session.holder() is not None:
                _tell_failures(watched, news)
                printer.show(watched)
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:  # leaving is no failure
            tell("the run goes on; `crosswind watch` shows it again")
            return 0
        _tell_failures(watched, news)
        printer.show(watched, last=True)
    return 0


def _tell_failures(watched: Watch, news: FailureNews) -> None:
    for fact in watched.poll():
        failed = news.hear(fact)
        if failed is not None:
            tell(failed)
