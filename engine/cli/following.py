"""Asks the engine that holds a workspace, and follows what comes of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from engine.benchmark import Stage, State
from engine.cli.console import out, tell
from engine.cli.session import Session
from engine.errors import CrosswindError
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import Answer, EngineLink, EngineState, Request, Row
from engine.watch import Watch

POLL_SECONDS: Final = 0.1
GONE: Final = frozenset({EngineState.STOPPED, EngineState.LOST})


class RefusedError(CrosswindError):
    """An engine does not do what it was asked, and why."""


def ask(session: Session, request: Request) -> Answer:
    """What the engine of a workspace says. Raises `RefusedError` with its reason."""
    with closing(session.link()) as link:
        return _accepted(link.ask(request))


def ask_and_follow(session: Session, request: Request, *, wait: bool) -> int:
    """Ask, say the answer, and print what comes of the rows: 0 where all came through, 1 where
    some failed, 3 where the engine went. Raises `RefusedError`."""
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watch,
    ):
        tell(_accepted(link.ask(request)).text)
        return _follow(watch, link, request.rows) if wait else 0


def _accepted(answer: Answer) -> Answer:
    if not answer.accepted:
        raise RefusedError(answer.text)
    return answer


def _follow(watch: Watch, link: EngineLink, rows: Sequence[Row]) -> int:
    at_work = {(row.benchmark, row.unit) for row in rows}
    failed = 0
    while at_work:
        gone = link.board().state in GONE  # asked before the facts: what it did last is not missed
        for fact in watch.poll():
            settled = _settled(fact)
            if settled is not None and (fact.benchmark, settled.unit) in at_work:
                at_work.discard((fact.benchmark, settled.unit))
                failed += settled.state is State.FAILED
                if settled.state is State.FAILED:
                    tell(f"{settled.unit}: failed: {settled.reason}")
            elif isinstance(fact, VerdictGiven) and (fact.benchmark, str(fact.key)) in at_work:
                out(f"{fact.key}: {_verdict(fact)}")
        if at_work and gone:
            tell("the engine ended before all was done; `crosswind run` goes on from here")
            return 3
        time.sleep(POLL_SECONDS)
    return 1 if failed else 0


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
