"""Takes away what nothing rests on any more.

What was spent stays, and so does every take that counts or may be continued.
"""

# ruff: noqa: S608  (SQL is put together from constants of this module, never from values)

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Final

from engine.facts import NoteKind
from engine.store.database import Store
from engine.store.replaced import PrunePlan
from engine.store.rows import NoteRow

_AT_ONCE: Final = 200
"""Takes in one transaction, so that nobody who watches waits long."""


def prune(store: Store, plan: PrunePlan) -> None:
    """Take away what was planned. Cut off, it has taken some away, and the rest is there whole.

    Raises `StoreError` and `sqlite3.Error`.
    """
    # its `seq` is the highest from now on: none that was given is given again
    text = f"pruning: taking away {plan}"
    store.tell(NoteRow(kind=NoteKind.WARNING, benchmark="", text=text))
    for begin in range(0, len(plan.takes), _AT_ONCE):
        store.alone(partial(_take_away, takes=plan.takes[begin : begin + _AT_ONCE]))
    store.alone(partial(_delete, rows={"note": plan.notes, "run": plan.runs}))


def shrink(store: Store) -> int | None:
    """Write the file anew, without what is free in it; by how many bytes it is smaller. None where
    the disk has no room to do so. Raises `StoreError` and `sqlite3.Error`."""
    store.alone(_fold_in)
    before = store.path.stat().st_size
    if shutil.disk_usage(store.path.parent).free < 2 * before:
        return None
    store.alone(lambda connection: connection.execute("VACUUM").close())
    store.alone(_fold_in)
    return before - store.path.stat().st_size


def _fold_in(connection: sqlite3.Connection) -> None:
    """What is in the log."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _take_away(connection: sqlite3.Connection, takes: Sequence[int]) -> None:
    marks = ", ".join("?" * len(takes))
    connection.execute("BEGIN IMMEDIATE")
    try:
        for part in ("verdict", "message", "take_end"):
            connection.execute(f"DELETE FROM {part} WHERE take IN ({marks})", takes)
        connection.execute(f"DELETE FROM take WHERE seq IN ({marks})", takes)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _delete(connection: sqlite3.Connection, rows: dict[str, Sequence[int]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table, seqs in rows.items():
            connection.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq in seqs])
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
