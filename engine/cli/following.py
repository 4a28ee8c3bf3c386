"""Asks the engine that holds a workspace, and follows what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from engine.benchmark import Stage, State
from engine.cli.console import out, tell
from engine.cli.engine_handle import accepted
from engine.cli.session import Session
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import EngineLink, EngineState, Request, WorkRow
from engine.pipeline.run import RunResult
from engine.watch import Watch

POLL_SECONDS: Final = 0.1
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
        time.sleep(POLL_SECONDS)
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
