"""Has done what a command asks: by the engine at work, which alone writes, and followed to its
end, or here without one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.benchmark import Stage, State
from engine.cli.console import out, tell
from engine.cli.engine_handle import RefusedError, accepted
from engine.cli.pipelines import writing
from engine.cli.session import Session
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.facts import Fact, StateChanged, VerdictGiven
from engine.link import Command, EngineLink, EngineState, Request, WorkRow
from engine.pipeline.label_requests import LABELS_AT_ONCE, LabelRequest
from engine.pipeline.label_storing import mirror_labels, store_labels
from engine.pipeline.run import Pipeline, RunResult
from engine.store.lock import Holder
from engine.watch import Watch

if TYPE_CHECKING:
    from engine.service.client import SocketLink


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


PATIENCE_SECONDS: Final = 5.0
"""For so long somebody else who stores a label, or an engine that begins or ends, is waited for."""
STEP_SECONDS: Final = 0.05


def write_labels(session: Session, request: LabelRequest, *, with_files: bool = True) -> None:
    """Returns when it is stored. An engine at work writes the files a moment later; without one
    that is done here, `with_files`. Raises `InputError` for what
    cannot be stored, and `RefusedError`, `StoreError` and `WorkspaceBusyError` where nothing can
    be now."""
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
    """What either says; None of an engine that is about to end. Raises what they raise, and
    `WorkspaceBusyError`."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        holder = session.holder()
        try:
            if holder is None:
                return here()
            if holder.socket is not None:
                with closing(session.link()) as link:
                    said = by_engine(link)
                if said is not None:
                    return said
        except WorkspaceBusyError:
            if time.monotonic() >= until:
                raise
        if holder is not None and time.monotonic() >= until:
            raise _busy(session, holder)
        time.sleep(STEP_SECONDS)


def _busy(session: Session, holder: Holder) -> WorkspaceBusyError:
    held = f"{session.workspace.root} is held by {holder}"
    return WorkspaceBusyError(f"{held}, which takes nothing in: try again later")


def _write_here(session: Session, request: LabelRequest, *, with_files: bool) -> str:
    with writing(session) as pipeline:
        return asyncio.run(_store(pipeline, request, with_files=with_files))


async def _store(pipeline: Pipeline, request: LabelRequest, *, with_files: bool) -> str:
    said = await store_labels(pipeline, request)
    if with_files:
        await mirror_labels(pipeline, request.benchmark)
    return said


def _write_by_engine(link: SocketLink, request: LabelRequest) -> str | None:
    """What was stored before is the same again."""
    said: str | None = ""
    for part in _parts(request):
        said = asked_of_engine(link, Request(Command.LABEL, labels=part))
        if said is None:
            break
    return said


def asked_of_engine(link: SocketLink, request: Request) -> str | None:
    """What it says; None where it is about to end. Raises `InputError` with why it does not, and
    `RefusedError` where it cannot be spoken to."""
    answer = link.ask(request)
    if answer.accepted:
        return answer.text
    if link.board().state in {EngineState.STOPPED, EngineState.LOST}:
        return None
    if link.is_connected:
        raise InputError(Problem(answer.text))
    raise RefusedError(answer.text)


def _parts(request: LabelRequest) -> Iterator[LabelRequest]:
    if not request.labels:
        yield request
    for first in range(0, len(request.labels), LABELS_AT_ONCE):
        yield replace(request, labels=request.labels[first : first + LABELS_AT_ONCE])
