"""What plans for a session, and what does its work."""

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
    """A pipeline that may write: it holds the workspace and its store.

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
    """It reads the store that is there, or where there is none an empty one that nobody sees."""
    with session.reader_or_empty() as reader:
        yield Planner(session.workspace, session.config, reader)
