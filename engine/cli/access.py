"""Opens the planner of a session, which only reads, or its pipeline for writing; and asks whether
the workspace may send, import and connect to what it names, before any of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from engine.cli.commands.typed import Spends
from engine.cli.console import says_yes, tell
from engine.cli.session import Session
from engine.config.schema import ModelSpec
from engine.doctor.preflight import missing_values
from engine.errors import Problem
from engine.pipeline.planner import Planner, RemainingWork
from engine.pipeline.run import Pipeline
from engine.store.database import Store, open_store
from engine.store.lock import hold_workspace
from engine.store.reader import Reader
from engine.trust import Permission, Trust, UntrustedError, screenful


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


@contextmanager
def open_to_write(session: Session) -> Iterator[Store]:
    """The store, while this process holds the workspace; an engine that is idle makes way. Raises
    `WorkspaceBusyError` and `StoreError`."""
    session.make_way()
    with (
        hold_workspace(session.workspace.root) as hold,
        open_store(session.store_path, engine=hold.engine) as store,
    ):
        yield store


@contextmanager
def writing(session: Session) -> Iterator[Pipeline]:
    """A pipeline that may write the store, as `open_to_write`."""
    with open_to_write(session) as store:
        yield Pipeline(session.workspace, session.config, store.reader, store)


def pass_gate(session: Session, arguments: Spends) -> None:
    """Allow it with `--trust`, and ask on a terminal. Raises `UntrustedError` for what nobody has
    allowed."""
    root, permissions = session.workspace.root, session.permissions
    if not allowed(root, permissions, trusts=arguments.trust):
        raise UntrustedError(root, permissions)


def allowed(root: Path, permissions: Sequence[Permission], *, trusts: bool) -> bool:
    """Whether these are allowed, by now."""
    trust = Trust(root)
    if trust.covers(permissions):
        return True
    if not trusts:
        if not sys.stdin.isatty():
            return False
        for line in screenful(root, permissions):
            tell(line)
        if not says_yes():
            return False
    trust.allow(permissions)
    return True
