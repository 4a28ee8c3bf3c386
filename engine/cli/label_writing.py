"""Has done what people say: by the engine at work, which alone writes, or here without one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.cli.engine_handle import RefusedError
from engine.cli.pipelines import writing
from engine.cli.session import Session
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.link import Command, EngineState, Request
from engine.pipeline.label_requests import LABELS_AT_ONCE, LabelRequest
from engine.pipeline.label_storing import mirror_labels, store_labels
from engine.pipeline.run import Pipeline
from engine.store.lock import Holder

if TYPE_CHECKING:
    from engine.service.client import SocketLink

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
