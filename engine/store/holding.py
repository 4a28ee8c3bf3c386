"""Who works on a workspace: as its lock says, or where its lock file was deleted, its store."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from engine.errors import StoreError
from engine.store.acknowledged import rows_missing
from engine.store.connection import HEADER, log_of
from engine.store.lease import fate_of, lease_of
from engine.store.lock import Holder
from engine.store.process import Fate
from engine.store.reading import connect, open_reader


def writer_of(store: Path) -> Holder | None:
    """The engine whose the store is, where that is seen to be alive. Creates nothing."""
    if not store.exists():
        return None
    with suppress(StoreError), closing(open_reader(store)) as reader:
        lease = reader.lease()
        if lease is not None and fate_of(lease, store) is Fate.ALIVE:
            return lease.holder
    return None


def came_without_its_log(store: Path) -> bool:
    """Whether the last engine did not end well, and what it wrote last is not there. Creates
    nothing."""
    log = log_of(store)
    if (log.exists() and log.stat().st_size >= HEADER) or rows_missing(store) == 0:
        return False
    # SQLite would leave two files beside a store that it reads in the usual way
    with (
        suppress(StoreError, sqlite3.Error),
        closing(connect(store, "immutable=1")) as connection,
    ):
        lease = lease_of(connection)
        return lease is not None and fate_of(lease, store) is Fate.GONE
    return False
