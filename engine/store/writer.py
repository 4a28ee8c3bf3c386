"""The only connection that writes: one thread, commits in groups, an answer once it is on disk."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.errors import StoreError
from engine.store.inserts import LAST_SEQ, insert
from engine.store.rows import Row

GROUP_ROWS: Final = 500
"""At most so many rows in one transaction. More would make those who wait for the first of them
wait for the last."""

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[int]]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that are written together or not at all."""

    rows: Sequence[Row]
    at: int
    waiter: _Waiter | None


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """Digests of files as they are on disk now."""

    digests: Mapping[str, str]
    through: int | None
    at: int
    waiter: _Waiter | None


_Request = _Rows | _Mirrored
_Outcome = list[int] | StoreError


class Writer:
    """Takes rows from any thread and any event loop.

    The order in which rows were given is the order of their `seq`. `connection` belongs to this
    from now on, and to its thread alone.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Clock) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._seq: int = connection.execute(LAST_SEQ).fetchone()[0]
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed: StoreError | None = None
        self._told_in_vain: StoreError | None = None
        self._thread = threading.Thread(target=self._work, name="store writer", daemon=True)
        self._thread.start()

    async def write(self, rows: Sequence[Row]) -> list[int]:
        """Their `seq`s, once they are durable. All of them are written, or none.

        Raises `StoreError`, also for what was told before and could not be written.
        """
        waiter = _here()
        self._give(_Rows(rows, self._now(), waiter))
        seqs = await waiter.future
        self._raise_told()
        return seqs

    def tell(self, rows: Sequence[Row]) -> None:
        """Without waiting. A failure is raised by the next `write` or `close`."""
        if rows:
            self._give(_Rows(rows, self._now(), None))

    async def set_mirrored(self, digests: Mapping[str, str], through: int | None) -> None:
        waiter = _here()
        self._give(_Mirrored(digests, through, self._now(), waiter))
        await waiter.future

    def close(self) -> None:
        """Write what was given, then let go of the file."""
        with self._gate:
            if self._closed is None:
                self._closed = StoreError(f"{self._path} is closed")
                self._requests.put(None)
        self._thread.join()
        self._raise_told()

    def _now(self) -> int:
        return round(self._clock().timestamp() * 1000)

    def _give(self, request: _Request) -> None:
        with self._gate:
            if self._closed is not None:
                raise self._closed
            self._requests.put(request)

    def _raise_told(self) -> None:
        with self._gate:
            failure, self._told_in_vain = self._told_in_vain, None
        if failure is not None:
            raise failure

    # On the writer's thread

    def _work(self) -> None:
        group: list[_Request] = []
        try:
            going_on = True
            while going_on:
                group = []
                going_on = self._gather(group)
                self._answer(self._commit(group))
        except BaseException as error:  # noqa: BLE001  (the edge of this thread: whoever waits must hear of it)
            self._give_up(group, error)
        finally:
            self._connection.close()

    def _gather(self, group: list[_Request]) -> bool:
        """Fill the group with what is there, waiting only for the first; False to end after it."""
        request = self._requests.get()
        rows = 0
        while request is not None:
            group.append(request)
            rows += len(request.rows) if isinstance(request, _Rows) else 1
            if rows >= GROUP_ROWS:
                return True
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return True
        return False

    def _commit(self, group: Sequence[_Request]) -> list[tuple[_Request, _Outcome]]:
        """One transaction. What the disk refuses fails all of it, and the next may succeed."""
        if not group:
            return []
        committed = self._seq
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [(request, self._attempt(request)) for request in group]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._seq = committed
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failure = self._refusal(error)
            return [(request, failure) for request in group]
        return outcomes

    def _attempt(self, request: _Request) -> _Outcome:
        """A row that cannot be stored fails its own request and no other."""
        before = self._seq
        self._connection.execute("SAVEPOINT request")
        try:
            seqs = self._store(request)
        except (
            sqlite3.IntegrityError,
            sqlite3.DataError,
            sqlite3.InterfaceError,
            sqlite3.ProgrammingError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            StoreError,
        ) as error:
            self._seq = before
            self._connection.execute("ROLLBACK TO request")
            self._connection.execute("RELEASE request")
            return error if isinstance(error, StoreError) else self._refusal(error)
        self._connection.execute("RELEASE request")
        return seqs

    def _store(self, request: _Request) -> list[int]:
        match request:
            case _Rows(rows, at):
                first = self._seq + 1
                for row in rows:
                    self._seq += 1
                    insert(self._connection, row, seq=self._seq, at=at)
                return list(range(first, self._seq + 1))
            case _Mirrored(digests, through, at):
                seq = self._seq if through is None else through
                self._connection.executemany(
                    "INSERT INTO mirrored (path, at, digest, seq) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (path) DO UPDATE SET at = excluded.at, "
                    "digest = excluded.digest, seq = excluded.seq",
                    [(path, at, digest, seq) for path, digest in digests.items()],
                )
                return []

    def _refusal(self, error: Exception) -> StoreError:
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        advice = "; free some space on the disk and run again" if full else ""
        return StoreError(f"{self._path} could not be written: {error}{advice}")

    def _answer(self, outcomes: Iterable[tuple[_Request, _Outcome]]) -> None:
        """One wake-up for each event loop, however many of its tasks wait."""
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[tuple[_Waiter, _Outcome]]] = (
            defaultdict(list)
        )
        for request, outcome in outcomes:
            if request.waiter is not None:
                by_loop[request.waiter.loop].append((request.waiter, outcome))
            elif isinstance(outcome, StoreError):
                with self._gate:
                    self._told_in_vain = self._told_in_vain or outcome
        for loop, answers in by_loop.items():
            try:
                loop.call_soon_threadsafe(_wake, answers)
            except RuntimeError:
                continue  # the loop is closed: nobody waits there any more

    def _give_up(self, group: Sequence[_Request], error: BaseException) -> None:
        """Something is wrong with this program: refuse all that waits and all that may come."""
        failure = StoreError(f"{self._path} is not written any more: {error!r}")
        with self._gate:
            self._closed = failure
            waiting: list[_Request] = list(group)
            while not self._requests.empty():
                request = self._requests.get_nowait()
                if request is not None:
                    waiting.append(request)
        self._answer([(request, failure) for request in waiting])


def _here() -> _Waiter:
    loop = asyncio.get_running_loop()
    return _Waiter(loop, loop.create_future())


def _wake(answers: Iterable[tuple[_Waiter, _Outcome]]) -> None:
    for waiter, outcome in answers:
        if waiter.future.done():
            continue  # whoever waited was cancelled; the row is on disk all the same
        if isinstance(outcome, StoreError):
            waiter.future.set_exception(outcome)
        else:
            waiter.future.set_result(outcome)
