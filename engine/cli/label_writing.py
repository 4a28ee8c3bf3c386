"""Has stored what people say: by the engine at work, which alone writes, or here without one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

from engine.cli.engine_handle import RefusedError
from engine.cli.pipelines import writing
from engine.cli.session import Session
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.link import Command, EngineState, Request
from engine.pipeline.label_requests import LABELS_AT_ONCE, LabelRequest
from engine.pipeline.label_storing import mirror_labels, store_labels
from engine.pipeline.run import Pipeline
from engine.store.lock import Holder

PATIENCE_SECONDS: Final = 5.0
"""For so long somebody else who stores a label, or an engine that begins or ends, is waited for."""
STEP_SECONDS: Final = 0.05


def write_labels(session: Session, request: LabelRequest, *, with_files: bool = True) -> None:
    """Returns when it is stored. An engine at work writes the files a moment later; without one
    that is done here, `with_files`. Raises `InputError` for what
    cannot be stored, and `RefusedError`, `StoreError` and `WorkspaceBusyError` where nothing can
    be now."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        holder = session.holder()
        try:
            if holder is None:
                _write_here(session, request, with_files=with_files)
                return
            if holder.socket is not None and _write_by_engine(session, request):
                return
        except WorkspaceBusyError:
            if time.monotonic() >= until:
                raise
        if holder is not None and time.monotonic() >= until:
            raise _busy(session, holder)
        time.sleep(STEP_SECONDS)


def _busy(session: Session, holder: Holder) -> WorkspaceBusyError:
    root = session.workspace.root
    return WorkspaceBusyError(f"{root} is held by {holder}, which takes no labels: try again later")


def _write_here(session: Session, request: LabelRequest, *, with_files: bool) -> None:
    with writing(session) as pipeline:
        asyncio.run(_store(pipeline, request, with_files=with_files))


async def _store(pipeline: Pipeline, request: LabelRequest, *, with_files: bool) -> None:
    await store_labels(pipeline, request)
    if with_files:
        await mirror_labels(pipeline, request.benchmark)


def _write_by_engine(session: Session, request: LabelRequest) -> bool:
    """Whether the engine did; it may be about to end. What was stored before is the same again."""
    with closing(session.link()) as link:
        for part in _parts(request):
            answer = link.ask(Request(Command.LABEL, labels=part))
            if answer.accepted:
                continue
            if link.board().state in {EngineState.STOPPED, EngineState.LOST}:
                return False
            if link.is_connected:
                raise InputError(Problem(answer.text))
            raise RefusedError(answer.text)
    return True


def _parts(request: LabelRequest) -> Iterator[LabelRequest]:
    if not request.labels:
        yield request
    for first in range(0, len(request.labels), LABELS_AT_ONCE):
        yield replace(request, labels=request.labels[first : first + LABELS_AT_ONCE])
