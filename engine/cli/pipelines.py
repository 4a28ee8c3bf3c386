"""Opens the pipeline of a session for writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.cli.session import Session
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
