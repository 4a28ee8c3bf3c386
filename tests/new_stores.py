"""New stores as copies of one: what makes a schema step by step has tests of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from engine.store import database, migrations


def _now() -> str:
    """As sqlite-utils writes it."""
    return datetime.now(UTC).isoformat(" ")


@contextmanager
def copied_new_stores() -> Iterator[None]:
    step_by_step, names = database._migrate, migrations._NAMES
    whole: list[sqlite3.Connection] = []

    def migrate(connection: sqlite3.Connection, path: Path) -> None:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        if pages or migrations._NAMES is not names:
            step_by_step(connection, path)
            return
        if not whole:
            step_by_step(connection, path)
            whole.append(sqlite3.connect(":memory:", check_same_thread=False))
            connection.backup(whole[0])
            return
        whole[0].backup(connection)
        # which is what tells one store from another
        with connection:
            connection.execute("UPDATE _sqlite_migrations SET applied_at = ?", (_now(),))

    with patch.object(database, "_migrate", migrate):
        yield
    for one in whole:
        one.close()
