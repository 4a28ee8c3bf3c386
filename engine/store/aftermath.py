"""What is looked at when the last engine did not end well: little, because a restart is not to be
kept waiting.

SQLite itself puts the log to rights when the store is opened. Beyond that, what was written last is
held against its digests, and the pages are looked at for a quarter of a second, in which a store of
some hundred megabytes is looked at whole. `crosswind doctor` takes more time for the pages, and
`crosswind repair` as much as it needs for both. Every message is held against its digest again each
time when it is read to be judged, shown or mirrored.
"""

# ruff: noqa: S608  (SQL is put together from constants, never from values)

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final

from engine.store.digest import message_digest
from engine.store.header import damaged

_NEWEST: Final = 200
_LONGEST_S: Final = 0.25
_STEPS: Final = 10_000


def check_newest(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` for a store that is damaged, and `sqlite3.Error`."""
    rows = connection.execute(
        f"SELECT seq, speaker, text, digest FROM message ORDER BY seq DESC LIMIT {_NEWEST}"
    )
    for seq, speaker, text, digest in rows.fetchall():
        if message_digest(speaker, text) != digest:
            raise damaged(path, f"the text of message {seq} is not the one that was stored")
    for found in _pages(connection):
        raise damaged(path, found)


def _pages(connection: sqlite3.Connection) -> list[str]:
    deadline = time.monotonic() + _LONGEST_S
    connection.set_progress_handler(lambda: time.monotonic() >= deadline, _STEPS)
    try:
        rows = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            return []
        raise
    finally:
        connection.set_progress_handler(None, 0)
    return [str(row[0]) for row in rows if row[0] != "ok"]
