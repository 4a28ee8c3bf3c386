"""Who works on a workspace: as its lock says, or where its lock file was deleted, its store."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from engine.errors import StoreError
from engine.store.lease import fate_of
from engine.store.lock import Holder
from engine.store.process import Fate
from engine.store.reading import open_reader


def writer_of(store: Path) -> Holder | None:
    """The engine whose the store is, where that is seen to be alive. Creates nothing."""
    if not store.exists():
        return None
    with suppress(StoreError), closing(open_reader(store)) as reader:
        lease = reader.lease()
        if lease is not None and fate_of(lease, store) is Fate.ALIVE:
            return lease.holder
    return None
