"""Opens the pipeline of a session for writing, or its planner for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.cli.session import Session
from engine.pipeline.planner import Planner
from engine.pipeline.run import Pipeline
from engine.store.database import open_store
from engine.store.lock import hold_workspace


@contextmanager
def writing(session: Session) -> Iterator[Pipeline]:
    """A pipeline that holds the workspace and may write its store.

    Raises `WorkspaceBusyError` and `StoreError`.
    """
    session.make_way()
    with hold_workspace(session.workspace.root):
        store = open_store(session.store_path)
        try:
            yield Pipeline(session.workspace, session.config, store.reader, store)
        finally:
            store.close()


@contextmanager
def planning(session: Session) -> Iterator[Planner]:
    """A planner that reads the store, or a temporary empty one where there is none."""
    with session.reader_or_empty() as reader:
        yield Planner(session.workspace, session.config, reader)
