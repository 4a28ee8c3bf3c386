"""Short words to the engine at work: pause, resume, stop; and requests that are followed to what
comes of them."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from engine.benchmark import Stage, State
from engine.cli.console import out, tell
from engine.cli.engine_handle import NOBODY, EngineHandle, RefusedError, accepted, handle_of
from engine.cli.failures import FailureNews
from engine.cli.lines import LinePrinter
from engine.cli.session import Session
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import Command, EngineLink, EngineState, Request, WorkRow
from engine.pipeline.run import RunResult
from engine.store.process import send
from engine.watch import Watch

POLL_SECONDS: Final = 0.1


def pause(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.PAUSE)


def resume(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.RESUME)


def _say(arguments: argparse.Namespace, command: Command) -> int:
    handle = handle_of(arguments)
    handle.require_holder()
    tell(handle.ask(Request(command)).text)
    return 0


def stop(arguments: argparse.Namespace) -> int:
    """Done, too, where there is nothing to stop."""
    handle = handle_of(arguments)
    if handle.holder() is None:
        tell(NOBODY.format(handle.workspace.root))
        return 0
    with closing(handle.link()) as link:
        answer = link.ask(Request(Command.STOP_NOW if arguments.now else Command.STOP))
        # asked while it is open: whether nobody listened, or somebody who did not take it
        reached = link.is_connected
    if answer.accepted or reached:
        tell(accepted(answer).text)
    else:
        _signal(handle, answer.text, now=arguments.now)
    while arguments.wait and handle.holder() is not None:
        time.sleep(POLL_SECONDS)
    return 0


def _signal(handle: EngineHandle, why: str, *, now: bool) -> None:
    """To an engine that holds the workspace and cannot be spoken to. Raises `RefusedError` where it
    is not sure which process that is."""
    holder = handle.holder()
    if holder is None:
        tell(NOBODY.format(handle.workspace.root))
        return
    # two that differ, of which none is taken for the other: the second one says at once
    signals = (signal.SIGTERM, signal.SIGINT) if now else (signal.SIGTERM,)
    for number in signals:
        if holder.process is None or not send(number, holder.process):
            raise RefusedError(f"{why}; {holder} is not this user's on this machine: stop it there")
    asked = "to stop at once" if now else "to finish what is being spoken and stop"
    tell(f"{why}: process {holder.pid} was asked by a signal {asked}")


def watch(arguments: argparse.Namespace) -> int:
    """Lines for as long as an engine is at work; the app does it where there is a terminal."""
    # 0.13 s to read the configuration, which the other commands of this module do without
    from engine.cli.session import open_session

    session = open_session(arguments)
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
        except KeyboardInterrupt:  # whoever watches may leave: that is no failure
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


_LOOK_SECONDS: Final = 0.1
GONE: Final = frozenset({EngineState.STOPPED, EngineState.LOST})


def ask_and_follow(
    session: Session, request: Request, *, wait: bool, as_json: bool = False
) -> RunResult | None:
    """Ask, say the answer, and print what comes of the rows; None where that is not waited for.

    Raises `RefusedError`.
    """
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watch,
    ):
        tell(accepted(link.ask(request)).text)
        if not wait:
            return None
        try:
            return _follow(watch, link, request.rows, tell if as_json else out)
        except KeyboardInterrupt:
            tell("the engine goes on with it; `crosswind status` says how far it is")
            raise


def _follow(
    watch: Watch, link: EngineLink, rows: Sequence[WorkRow], say: Callable[[str], None]
) -> RunResult:
    at_work = {(row.benchmark, row.unit) for row in rows}
    failed, asked = 0, None
    while at_work:
        board = link.board()  # asked before the facts: what it did last is not missed
        gone = board.state in GONE
        if board.question is not None and board.question != asked:
            tell(board.question)
        asked = board.question
        for fact in watch.poll():
            settled = _settled(fact)
            if settled is not None and (fact.benchmark, settled.unit) in at_work:
                at_work.discard((fact.benchmark, settled.unit))
                failed += settled.state is State.FAILED
                if settled.state is State.FAILED:
                    tell(f"{settled.unit}: failed: {settled.reason}")
            elif isinstance(fact, VerdictGiven) and (fact.benchmark, str(fact.key)) in at_work:
                say(f"{fact.key}: {_verdict(fact)}")
        if at_work and gone:
            tell("the engine ended before all was done; `crosswind run` goes on from here")
            return RunResult(failed, stopped=True)
        time.sleep(_LOOK_SECONDS)
    return RunResult(failed, stopped=False)


def _settled(fact: Fact) -> StateChanged | None:
    """A row of work that is over, for good or ill: what is played is still to be judged."""
    if not isinstance(fact, StateChanged):
        return None
    if fact.state is State.DONE and fact.stage is not Stage.SIMULATE:
        return fact
    return fact if fact.state in {State.FAILED, State.DROPPED} else None


def _verdict(fact: VerdictGiven) -> str:
    words = {True: "passed", False: "failed", None: "unscored"}
    return f"{words[fact.passed]} by {fact.judge}"
