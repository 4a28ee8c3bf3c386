"""Carries out a command: through the engine at work, which alone may write, and follows it to its
end; or in this process where no engine is at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.benchmark import Stage, State
from engine.cli.access import writing
from engine.cli.console import out, tell
from engine.cli.engine_handle import RefusedError, accepted
from engine.cli.lines import NOT_REDONE
from engine.cli.session import Session
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import Command, EngineLink, Request, WorkRow
from engine.people import LABELS_AT_ONCE, LabelRequest
from engine.pipeline.labelling.storing import mirror_labels, store_labels
from engine.pipeline.run import Pipeline, RunResult
from engine.store.lock import Holder
from engine.watch import Watch

if TYPE_CHECKING:
    from engine.service.client import SocketLink


POLL_SECONDS: Final = 0.1


_ENGINE_GOES_ON: Final = "the engine goes on with it; `crosswind status` says how far it is"


def ask_and_follow(
    session: Session, request: Request, *, wait: bool, as_json: bool
) -> RunResult | None:
    """Send a request, print the answer, and, with `wait`, print the outcome of each row.

    Returns None without `wait`. Raises `RefusedError`.
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
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_ENGINE_GOES_ON) from interrupt


def _follow(
    watch: Watch, link: EngineLink, rows: Sequence[WorkRow], say: Callable[[str], None]
) -> RunResult:
    at_work = {(row.benchmark, row.unit) for row in rows}
    failed, asked = 0, None
    while at_work:
        board = link.board()  # read before the facts, so that the engine's last ones are not missed
        is_gone = board.state.is_over
        if board.question is not None and board.question != asked:
            tell(board.question)
        # asked once, and again only if another comes after it
        asked = board.question
        for fact in watch.poll():
            settled = _finished_row(fact)
            if settled is not None and (fact.benchmark, settled.unit) in at_work:
                at_work.discard((fact.benchmark, settled.unit))
                failed += settled.state is State.FAILED
                if settled.state is State.FAILED:
                    tell(f"{settled.unit}: failed: {settled.reason}")
            elif isinstance(fact, VerdictGiven) and (fact.benchmark, str(fact.key)) in at_work:
                say(f"{fact.key}: {_verdict(fact)}")
        if at_work and is_gone:
            tell(f"the engine ended before all was done; {NOT_REDONE}")
            return RunResult(failed, stopped=True)
        time.sleep(POLL_SECONDS)
    return RunResult(failed, stopped=False)


def _finished_row(fact: Fact) -> StateChanged | None:
    """The fact, if it ends a row of work. One that is only played still has to be judged."""
    if not isinstance(fact, StateChanged):
        return None
    # one that is done without having been at work was only put back to what it was before
    if fact.state is State.DONE and fact.stage is not Stage.SIMULATE:
        return fact if fact.was is State.RUNNING else None
    return fact if fact.state in {State.FAILED, State.DROPPED} else None


def _verdict(fact: VerdictGiven) -> str:
    words = {True: "passed", False: "failed", None: "unscored"}
    return f"{words[fact.passed]} by {fact.judge}"


PATIENCE_SECONDS: Final = 5.0
"""How long to wait for another writer, or for an engine that starts or ends."""
STEP_SECONDS: Final = 0.05


def write_labels(session: Session, request: LabelRequest, *, with_files: bool = True) -> None:
    """Store labels; returns when they are stored. An engine at work writes the files a moment
    later; without one, this process does so if `with_files`. Raises `InputError` for labels that
    cannot be stored, and `RefusedError`, `StoreError` and `WorkspaceBusyError` where nothing can
    be stored now."""
    by_engine_or_here(
        session,
        lambda: _write_here(session, request, with_files=with_files),
        lambda link: _write_by_engine(link, request),
    )


def by_engine_or_here(
    session: Session,
    here: Callable[[], str],
    by_engine: Callable[[SocketLink], str | None],
) -> str:
    """Call `here` where no engine is at work, else `by_engine`, which returns None where the
    engine is about to end: then it tries again, for `PATIENCE_SECONDS`. Raises what they raise,
    and `WorkspaceBusyError`."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        holder = session.holder()
        try:
            if holder is None:
                return here()
            # an engine that is only starting, or ending, has none
            if holder.socket is not None:
                with closing(session.link()) as link:
                    answer = by_engine(link)
                if answer is not None:
                    return answer
        except WorkspaceBusyError:
            if time.monotonic() >= until:
                raise
        if holder is not None and time.monotonic() >= until:
            raise _busy_error(session, holder)
        time.sleep(STEP_SECONDS)


def _busy_error(session: Session, holder: Holder) -> WorkspaceBusyError:
    what = f"{session.workspace.root} is held by {holder}"
    return WorkspaceBusyError(f"{what}, which takes nothing in: try again later")


def _write_here(session: Session, request: LabelRequest, *, with_files: bool) -> str:
    with writing(session) as pipeline:
        return asyncio.run(_store(pipeline, request, with_files=with_files))


async def _store(pipeline: Pipeline, request: LabelRequest, *, with_files: bool) -> str:
    answer = await store_labels(pipeline, request)
    if with_files:
        await mirror_labels(pipeline, request.benchmark)
    return answer


def _write_by_engine(link: SocketLink, request: LabelRequest) -> str | None:
    """Labels that are stored already are accepted again, so a request may be repeated."""
    answer: str | None = ""
    for part in _split_request(request):
        answer = asked_of_engine(link, Request(Command.LABEL, labels=part))
        if answer is None:
            break
    return answer


def asked_of_engine(link: SocketLink, request: Request) -> str | None:
    """The engine's answer; None where it is about to end. Raises `InputError` where it refuses, and
    `RefusedError` where it cannot be reached."""
    answer = link.ask(request)
    if answer.accepted:
        return answer.text
    if link.board().state.is_over:
        return None
    if link.is_connected:
        raise InputError(Problem(answer.text))
    raise RefusedError(answer.text)


def _split_request(request: LabelRequest) -> Iterator[LabelRequest]:
    # one without labels draws a sample or decides a dispute
    if not request.labels:
        yield request
    for first in range(0, len(request.labels), LABELS_AT_ONCE):
        yield replace(request, labels=request.labels[first : first + LABELS_AT_ONCE])
