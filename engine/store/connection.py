"""A connection that answers, shared by threads: each answer is whole and leaves no cursor open."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.store.codec import UNREADABLE
from engine.store.pages import has_log
from engine.store.schema import damaged, unreadable

Parameter = str | int | float | None
# SQLite before 3.32 takes 999 parameters in one question
AT_ONCE: Final = 500
BUSY_SECONDS: Final = 10.0
"""How long SQLite waits for another program that writes."""


def raw_connection(path: Path, how: str | None = None) -> sqlite3.Connection:
    """For this room. `how` is the query of SQLite's URI; None to only look: with the log where that
    holds something, and else so that SQLite leaves no files beside the store.

    Raises `sqlite3.Error`.
    """
    # `mode=ro` makes SQLite create the log and its index where there are none, even to read;
    # `immutable=1` makes none and looks at no log, so it is right only where the log is empty
    how = how or ("mode=ro" if has_log(path) else "immutable=1")
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are ours to begin
        check_same_thread=False,  # the writer's thread, and the reader's lock, see to that
        cached_statements=256,
    )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything in the block is written, or nothing. Raises `sqlite3.Error`."""
    # a writer from the start: a reader that becomes one might be refused in the middle
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class Connection:
    """Speaks SQL for a reader. A cursor left open would keep the writer's log from shrinking."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        # may be taken again by the thread that has it: `read_transaction` holds it over questions
        self._lock = threading.RLock()
        self.path = path
        # one class for each store, so that whoever cannot read a row can say where it lies
        self._row: type[sqlite3.Row] = type("StoredRow", (sqlite3.Row,), {"store": path})

    def all(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[sqlite3.Row]:
        """Every row of the answer. Raises `StoreError`."""
        with self._lock:
            try:
                # of this question alone: whoever lent the connection may want other rows
                cursor = self._connection.cursor()
                cursor.row_factory = self._row
                # read to its end: an open cursor is an open read transaction, and a checkpoint
                # cannot pass it
                return cursor.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise unreadable(self.path, error) from error

    def of_each(self, sql: str, values: Sequence[int]) -> Iterator[sqlite3.Row]:
        """The rows of a question about many values, with `{}` where they stand: it is asked of a
        few hundred at a time, as SQLite takes only so many parameters."""
        for start in range(0, len(values), AT_ONCE):
            some = list(values[start : start + AT_ONCE])
            yield from self.all(sql.format(", ".join("?" * len(some))), some)

    def first(self, sql: str, parameters: Sequence[Parameter] = ()) -> sqlite3.Row | None:
        """Of a question that limits its answer to few rows: all of them are read."""
        return next(iter(self.all(sql, parameters)), None)

    def number(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        """Of a question whose answer is one whole number."""
        return int(self.all(sql, parameters)[0][0])

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        """What rows say is taken apart in the block; raises `StoreError` where that cannot be
        done."""
        try:
            yield
        except UNREADABLE:
            raise damaged(self.path, "a row cannot be read") from None

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Everything read in the block is of one moment. Keep it short."""
        with self._lock:
            # deferred, as it only reads: the moment is that of the first question in the block
            self.all("BEGIN")
            try:
                yield
            finally:
                self.all("COMMIT")

    def move_to(self, other: Connection) -> None:
        """Answer from what `other` is connected to, which is not to be used any more."""
        with self._lock:
            self._connection.close()
            self._connection = other._connection

    def close(self) -> None:
        with self._lock:
            self._connection.close()
