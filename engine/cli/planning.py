"""Opens the planner of a session, which only reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.cli.session import Session
from engine.pipeline.planner import Planner, RemainingWork
from engine.store.reader import Reader


@contextmanager
def planning(session: Session) -> Iterator[Planner]:
    """A planner that reads the store, or a temporary empty one where there is none."""
    with session.reader_or_empty() as reader:
        yield Planner(session.workspace, session.config, reader)


def ahead_of(session: Session, name: str, reader: Reader) -> RemainingWork:
    """What remains to be done in a benchmark, reviews included. Raises `InputError` and
    `StoreError`."""
    return Planner(session.workspace, session.config, reader).remaining(name)
