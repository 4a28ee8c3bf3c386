"""A connection that threads share: each query returns all its rows and leaves no cursor open."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.store.codec import UNREADABLE
from engine.store.filesystem import has_log
from engine.store.schema import damaged, unreadable

Parameter = str | int | float | None
# SQLite before 3.32 takes 999 parameters in one statement
AT_ONCE: Final = 500
BUSY_SECONDS: Final = 10.0
"""How long SQLite waits for another process that writes."""


def raw_connection(path: Path, how: str | None = None) -> sqlite3.Connection:
    """Open SQLite's own connection, for modules of `engine.store`.

    `how` is the query of SQLite's URI. None is for reading: through the log if that holds
    something, otherwise so that SQLite leaves no files beside the store. Raises `sqlite3.Error`.
    """
    # `mode=ro` creates the log and its index where there are none, even for reading; `immutable=1`
    # creates none and ignores the log, so it is right only if the log is empty
    how = how or ("mode=ro" if has_log(path) else "immutable=1")
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun explicitly
        check_same_thread=False,  # the writer's thread and the reader's lock ensure that
        cached_statements=256,
    )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything in the block, or roll it back. Raises `sqlite3.Error`."""
    # IMMEDIATE: a read transaction that is upgraded might be refused half-way
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class Connection:
    """Runs a reader's queries. An open cursor would keep the writer's log from shrinking."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        # reentrant: `read_transaction` holds it while its thread queries
        self._lock = threading.RLock()
        self.path = path
        # a class for each store, so that an error about an unreadable row can name the file
        self._row: type[sqlite3.Row] = type("StoredRow", (sqlite3.Row,), {"store": path})

    def all(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[sqlite3.Row]:
        """Return every row of a query. Raises `StoreError`."""
        with self._lock:
            try:
                # set on the cursor: the connection's owner may want other rows
                cursor = self._connection.cursor()
                cursor.row_factory = self._row
                # read to the end: an open cursor is an open read transaction, which blocks a
                # checkpoint
                return cursor.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise unreadable(self.path, error) from error

    def of_each(
        self, sql: str, values: Sequence[int], before: Sequence[Parameter] = ()
    ) -> Iterator[sqlite3.Row]:
        """Yield the rows of a query about many values, which replace `{}` in it, a few hundred at a
        time: SQLite limits the number of parameters. `before` are parameters that precede it."""
        for start in range(0, len(values), AT_ONCE):
            some = values[start : start + AT_ONCE]
            yield from self.all(sql.format(", ".join("?" * len(some))), [*before, *some])

    def first(self, sql: str, parameters: Sequence[Parameter] = ()) -> sqlite3.Row | None:
        """Return the first row. All rows are read, so the query should limit them."""
        return next(iter(self.all(sql, parameters)), None)

    def number(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        """Return the result of a query for one integer."""
        return int(self.all(sql, parameters)[0][0])

    @contextlib.contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Raise `StoreError` if the block cannot decode what rows hold."""
        try:
            yield
        except UNREADABLE:
            raise damaged(self.path, "a row cannot be read") from None

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Read from one snapshot within the block. Keep it short."""
        with self._lock:
            # deferred, as it only reads: the snapshot is taken by the first query
            self.all("BEGIN")
            try:
                yield
            finally:
                self.all("COMMIT")

    def move_to(self, other: Connection) -> None:
        """Use the connection of `other`, which must not be used any more."""
        with self._lock:
            self._connection.close()
            self._connection = other._connection

    def close(self) -> None:
        with self._lock:
            self._connection.close()
