"""Opens the planner of a session, which only reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from engine.cli.session import Session
from engine.config.schema import ModelSpec
from engine.doctor.preflight import missing_values
from engine.errors import Problem
from engine.pipeline.planner import Planner, RemainingWork
from engine.store.reader import Reader


@contextmanager
def planning(session: Session) -> Iterator[Planner]:
    """A planner that reads the store, or a temporary empty one where there is none."""
    with session.reader_or_empty() as reader:
        yield Planner(session.workspace, session.config, reader)


STOPS: Final = "note: this would stop the run before it begins: "


def missing_for(session: Session, called: Sequence[ModelSpec]) -> Sequence[Problem]:
    """What these models lack to be called, as far as that can be told without asking a server."""
    root, path = session.workspace.root, session.config.path
    return missing_values(called_from_here(session, called), path, root, os.environ)


def called_from_here(session: Session, called: Sequence[ModelSpec]) -> Sequence[ModelSpec]:
    if session.config.cluster is not None and not session.workers:
        # the workers have the keys and reach the servers: this machine may be unable to
        return [spec for spec in called if not spec.is_remote]
    return called


def ahead_of(session: Session, name: str, reader: Reader) -> RemainingWork:
    """What remains to be done in a benchmark, reviews included. Raises `InputError` and
    `StoreError`."""
    return Planner(session.workspace, session.config, reader).remaining(name)
