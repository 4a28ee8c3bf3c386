"""The only connection that writes: one thread, which commits in groups.

A commit waits for the disk about as long for one row as for five hundred, so everything that
arrives during a commit goes into the next one. Each request has its own savepoint in the
transaction, so that a row which cannot be stored fails only its own request.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from engine.display import plural
from engine.errors import CrosswindError, StoreError
from engine.kill_points import KillPoint, reached
from engine.store.acknowledged import Acknowledgements
from engine.store.connection import transaction
from engine.store.events import keep_sums
from engine.store.filesystem import lacks_room, room_advice
from engine.store.inserts import Bulk, BulkRow, insert
from engine.store.lock import BUSY_BEAT_S, IDLE_BEAT_S, Leaseholder
from engine.store.schema import LAST_SEQ, damage_in, damaged
from engine.store.tables import BenchmarkCounts, StoredRow

SPARE: Final = 1.15
"""What is stored, as a multiple of what the calls under way may cost, so that one more of them
rarely waits for a commit of its own."""
TOO_MUCH: Final = 1.5
"""The multiple above which less is stored with the next commit."""


class OpenCalls:
    """Sums up what calls may cost, in US dollars, from before they are sent until the rows of their
    attempts are on disk. Any thread begins and ends calls; only the writer's stores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0.0
        self._calls = 0
        self._on_disk = 0.0
        self._ended: deque[tuple[int, float]] = deque()
        """Calls that are over: the number of the last request of theirs, and what they might have
        cost."""

    def begin(self, usd: float, written: int) -> bool:
        """Add a call; return whether what is on disk covers it. `written` is the number of the last
        request that is on disk."""
        with self._lock:
            self._forget(written)
            self._open += usd
            self._calls += 1
            return self._open <= self._on_disk

    def end(self, usd: float, last: int) -> None:
        """Remove a call once the request with the number `last` is on disk."""
        with self._lock:
            self._ended.append((last, usd))

    def to_store(self, written: int) -> float | None:
        """Return the sum to store; None if the one on disk will do."""
        with self._lock:
            self._forget(written)
            if self._open <= self._on_disk <= self._open * SPARE * TOO_MUCH:
                return None
            amount = self._open * SPARE
            # until it is stored, a call may rely on the lesser of both only
            self._on_disk = min(self._on_disk, amount)
            return amount

    def stored(self, amount: float | None) -> None:
        """Say that this sum is on disk, if it is another one."""
        if amount is not None:
            with self._lock:
                self._on_disk = amount

    def _forget(self, written: int) -> None:
        while self._ended and self._ended[0][0] <= written:
            self._open -= self._ended.popleft()[1]
            self._calls -= 1
        if not self._calls:  # what rounding left
            self._open = 0.0


GROUP_ROWS: Final = 500
"""The maximum number of rows in one transaction, so that nobody waits long for its commit."""

SUMMED_ROWS: Final = 20_000
"""Rows after which the sums of all rows are stored. A new watcher adds up the rows since then, in
a few dozen milliseconds."""
WORTH_SUMMING: Final = 1_000
"""Rows since the last sums that are worth new sums when the store is closed."""

RETRY_S: Final = 1.0
"""Seconds between attempts to write while the disk is full."""
CLOSING_S: Final = 2.0
"""Seconds for which these attempts go on once the store is being closed."""
_CLOSING_STEP_S: Final = 0.1

UtcClock = Callable[[], datetime]
OnTrouble = Callable[[str | None], None]
T = TypeVar("T")


_Waiter = asyncio.Future[list[int]]


@dataclass(frozen=True, slots=True)
class _RowBatch:
    """Rows that are written together or not at all."""

    rows: Sequence[StoredRow]
    at: int
    waiter: _Waiter | None


@dataclass(frozen=True, slots=True)
class _RowStream:
    """Rows that are consumed while they are written."""

    bulk: Bulk
    at: int
    waiter: _Waiter | None


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of what holds no facts, and so takes no `seq`."""

    make: Callable[[sqlite3.Connection, int], object]
    """Is given the last `seq`."""
    waiter: _Waiter


_Request = _RowBatch | _RowStream | _Change
_Outcome = list[int] | CrosswindError


@dataclass(frozen=True, slots=True)
class _ExclusiveAction:
    """A function that runs between two transactions and begins its own."""

    work: Callable[[sqlite3.Connection], None]
    refuse: Callable[[BaseException], None]


class Writer:
    """Takes rows from any thread and any event loop, and writes them in the order of arrival.

    It owns `connection` from now on, which only its thread uses.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, clock: UtcClock, lease: Leaseholder
    ) -> None:
        self._connection = connection
        self.path = path
        self._clock = clock
        self._lease = lease
        # assigned here, as one sequence runs over all tables, which AUTOINCREMENT cannot do
        self._seq: int = connection.execute(LAST_SEQ).fetchone()[0]
        self._acknowledged = Acknowledgements(path, lease.engine, self._seq)
        self._summed = _summarised_through(connection)
        """The last `seq` that is in the stored sums."""
        # SimpleQueue, whose `put` is reentrant: a signal handler or finalizer may interrupt another
        # `put`
        self._requests: queue.SimpleQueue[_Request | _ExclusiveAction | None] = queue.SimpleQueue()
        # guards the state below, which callers and the writer's thread share
        self._gate = threading.Lock()
        self._calls = OpenCalls()
        self._given = 0
        """How many requests were given."""
        self._answered = 0
        """How many of them, in their order, are over."""
        self._unwritten = 0
        """Rows that were given and are neither committed nor refused."""
        self._full: sqlite3.Error | None = None
        self._on_trouble: list[OnTrouble] = []
        self._closing = threading.Event()
        self._closing_deadline: float | None = None
        """The monotonic time until which a closing store waits for room."""
        self._given_up: StoreError | None = None
        """Why nothing will be written any more."""
        self._closed: StoreError | None = None
        """The error for whoever gives another row."""
        self._unreported: CrosswindError | None = None
        """The first failure of rows that nobody waits for."""
        # a daemon, so that a process whose main thread died without `close` ends as in a crash, and
        # the next engine finds what was committed
        self._thread = threading.Thread(target=self._write_loop, name="store writer", daemon=True)
        self._thread.start()

    async def write(self, *rows: StoredRow) -> list[int]:
        """Write all rows or none, and return their `seq`s once they are durable.

        Cancelling does not prevent the write. Raises `StoreError`; also if earlier rows of `tell`
        failed, although these rows are written then.
        """
        waiter = _new_waiter()
        self._enqueue(_RowBatch(rows, self._now_ms(), waiter))
        # not shielded: the rows are written whether or not the caller still waits
        seqs = await waiter
        # from here on a kill must lose nothing of it; tests end the process here
        reached(KillPoint.ACKNOWLEDGED)
        self._raise_unreported()
        return seqs

    def tell(self, *rows: StoredRow) -> None:
        """Write without waiting, in order with all other writes, from any thread.

        A failure is raised by the next `write` or `close`.
        """
        if rows:
            self._enqueue(_RowBatch(rows, self._now_ms(), None))

    async def write_all(self, rows: Iterable[BulkRow]) -> int:
        """Write all rows or none in one transaction, which consumes them on the writer's thread;
        return the last `seq` once they are durable. If cancelled, nothing is written. Raises what
        `rows` raises, and `StoreError`.
        """
        bulk, waiter = Bulk(rows), _new_waiter()
        self._enqueue(_RowStream(bulk, self._now_ms(), waiter))
        try:
            # shielded: the writer's thread consumes the rows until it is stopped there
            await asyncio.shield(waiter)
        except asyncio.CancelledError:
            bulk.stop()
            await asyncio.wait([waiter])
            waiter.exception()  # retrieved, as the cancellation was asked for
            raise
        return waiter.result()[0]

    async def begin_call(self, usd: float) -> None:
        """Return when it is on disk that one more call may cost so much, in US dollars. `end_call`
        must follow, however this ends. Raises `StoreError`."""
        if not self._calls.begin(usd, self._answered):
            waiter = _new_waiter()
            # without rows, as what the calls may cost is written with every group
            self._enqueue(_RowBatch((), self._now_ms(), waiter))
            await waiter

    def end_call(self, usd: float) -> None:
        """Say that such a call is over, after its attempts were told."""
        self._calls.end(usd, self._given)

    async def set_mirrored(self, digests: Mapping[str, str], *, through: int | None = None) -> None:
        """Note the digests of files on disk, by their path relative to the workspace.

        `through` is the last `seq` that is in them; None means everything up to now.
        """
        at = self._now_ms()

        def note(connection: sqlite3.Connection, last: int) -> None:
            seq = last if through is None else through
            connection.executemany(
                # an upsert, as a path has one row
                "INSERT INTO mirrored (path, at, digest, seq) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (path) DO UPDATE SET at = excluded.at, "
                "digest = excluded.digest, seq = excluded.seq",
                [(path, at, digest, seq) for path, digest in digests.items()],
            )

        await self._change(note)

    async def set_kept(self, digests: Mapping[str, str]) -> None:
        """Note, like `set_mirrored`, the edited files that a person decided to keep."""
        at = self._now_ms()
        rows = [(path, at, digest) for path, digest in digests.items()]
        sql = "INSERT OR REPLACE INTO kept (path, at, digest) VALUES (?, ?, ?)"
        await self._change(lambda connection, _: connection.executemany(sql, rows))

    async def set_counts(self, counts: BenchmarkCounts) -> None:
        """Replace what was decided of a benchmark's takes and verdicts. Raises `StoreError`."""
        at = self._now_ms()
        await self._change(lambda connection, _: _replace_counts(connection, counts, at))

    async def _change(self, make: Callable[[sqlite3.Connection, int], object]) -> None:
        waiter = _new_waiter()
        self._enqueue(_Change(make, waiter))
        await waiter

    def exclusively(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writer's thread and connection between two transactions. For modules of
        `engine.store`. Blocks, and returns or raises what `work` does."""
        done: Future[T] = Future()

        def do(connection: sqlite3.Connection) -> None:
            try:
                done.set_result(work(connection))
            except BaseException as error:  # noqa: BLE001  (raised in the caller's thread)
                done.set_exception(error)

        self._enqueue(_ExclusiveAction(do, done.set_exception))
        return done.result()

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written now, such as a full disk; None if all is well. Rows wait, and
        are written when there is room. From any thread."""
        with self._gate:
            if self._given_up is not None:
                return str(self._given_up)
            return None if self._full is None else self._trouble_text(self._full)

    def on_trouble(self, hear: OnTrouble) -> None:
        """Call `hear` with the text of `trouble` when that begins, and with None when it ends; on
        the writer's thread, which it must not block."""
        with self._gate:
            self._on_trouble.append(hear)

    def close(self) -> None:
        """Write what was given, then close the connection. Raises the failure of a `tell`."""
        with self._gate:
            if self._closed is None:
                self._closed = StoreError(f"{self.path} is closed")
                # last in the queue, so that everything before it is written
                self._requests.put(None)
        # wakes a writer that waits for room on a full disk, so that closing takes no RETRY_S
        self._closing.set()
        self._thread.join()
        self._raise_unreported()

    def _now_ms(self) -> int:
        return round(self._clock().timestamp() * 1000)

    def _enqueue(self, request: _Request | _ExclusiveAction) -> None:
        with self._gate:
            if self._closed is not None:
                raise self._closed
            # under the same lock as the check, so that nothing is put behind the None with which
            # `close` ends the queue
            self._unwritten += _rows_in(request)
            self._given += not isinstance(request, _ExclusiveAction)
            self._requests.put(request)

    def _raise_unreported(self) -> None:
        with self._gate:
            failure, self._unreported = self._unreported, None
        if failure is not None:
            raise failure

    # On the writer's thread

    def _write_loop(self) -> None:
        group: list[_Request] = []
        alone: _ExclusiveAction | None = None
        try:
            going_on = True
            while going_on:
                going_on, alone = self._gather(group)
                if group:
                    self._write_group(group)
                elif going_on:
                    self._beat()
                if alone is not None:
                    alone.work(self._connection)
                    alone = None
                # after the group was answered, so that nobody waits for the sums
                if self._seq - self._summed >= (SUMMED_ROWS if going_on else WORTH_SUMMING):
                    self._sum()
        except BaseException as error:  # noqa: BLE001  (the edge of this thread: whoever waits must hear of it)
            self._give_up([*group, alone], error)
        finally:
            self._lease.give_back(self._connection)
            self._acknowledged.close()
            self._connection.close()

    def _gather(self, group: list[_Request]) -> tuple[bool, _ExclusiveAction | None]:
        """Fill the group with the requests at hand, waiting for the first one until a heartbeat is
        due. Return whether to continue after it, and what is to be run alone after it."""
        try:
            # with a timeout, as an idle engine must still write its heartbeat
            request = self._requests.get(timeout=IDLE_BEAT_S)
        except queue.Empty:
            return True, None
        rows = 0
        while request is not None:
            if isinstance(request, _ExclusiveAction):
                return True, request
            group.append(request)
            rows += _rows_in(request)
            if rows >= GROUP_ROWS:
                return True, None
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return True, None
        return False, None

    def _write_group(self, group: list[_Request]) -> None:
        """Write all requests in order; if the disk is full, wait until it is not. What is answered
        is removed from `group`."""
        while group:
            # one by one on a full disk: a small row may fit although the group does not
            some = group[:] if self._full is None else group[:1]
            try:
                outcomes = self._commit(some)
            except sqlite3.Error as error:
                self._begin_trouble(error)
                self._refuse_bulk(group, error)
                self._wait_for_room(error)
                continue
            self._end_trouble()
            del group[: len(some)]
            self._answer(outcomes)

    def _commit(self, group: Sequence[_Request]) -> list[tuple[_Request, _Outcome]]:
        """Write the requests in one transaction, and return their outcomes.

        Raises `sqlite3.Error` if there is no room, and `StoreError` if this engine has lost the
        store. Any other error of SQLite is the outcome of all requests.
        """
        committed = self._seq
        try:
            # IMMEDIATE takes the write lock now: a read transaction that is upgraded can fail with
            # SQLITE_BUSY without waiting
            self._connection.execute("BEGIN IMMEDIATE")
            # within the transaction, so that an engine that lost the store adds no rows to it
            self._lease.require_held(self._connection, every_s=BUSY_BEAT_S)
            outcomes = [(request, self._attempt(request)) for request in group]
            open_usd = self._store_open_calls()
            reached(KillPoint.COMMITTING)
            self._connection.execute("COMMIT")
            self._calls.stored(open_usd)
            reached(KillPoint.COMMITTED)
            # after the commit and without a sync: the file never claims more than is on disk
            self._acknowledged.acknowledge(self._seq)
        except sqlite3.Error as error:
            # nobody has seen these numbers, so they can be given again
            self._seq = committed
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if lacks_room(error):
                raise  # the same requests are tried again once there is room
            failure = self._refusal(error)
            return [(request, failure) for request in group]
        return outcomes

    def _store_open_calls(self) -> float | None:
        """Store what the calls under way may cost, within a transaction; return it if it is another
        sum than before."""
        open_usd = self._calls.to_store(self._answered)
        if open_usd is not None:
            self._connection.execute("UPDATE lease SET open_usd = ?", (open_usd,))
        return open_usd

    def _beat(self) -> None:
        """Write a heartbeat while there is nothing else to write. Raises `StoreError` if this
        engine has lost the store."""
        # any other error shows with the next row that is written
        with contextlib.suppress(sqlite3.Error):
            with transaction(self._connection):
                self._lease.require_held(self._connection, every_s=0)
                open_usd = self._store_open_calls()
            self._calls.stored(open_usd)

    def _sum(self) -> None:
        """Store the sums of all rows. Raises `StoreError` if this engine has lost the store."""
        self._summed = self._seq
        # without new sums a watcher adds up more rows
        with contextlib.suppress(sqlite3.Error), transaction(self._connection):
            self._lease.require_held(self._connection, every_s=BUSY_BEAT_S)
            # a row that cannot be read stops whoever needs it, not the writing of others
            with contextlib.suppress(StoreError):
                keep_sums(self._connection, self.path)

    # A full disk

    def _begin_trouble(self, error: sqlite3.Error) -> None:
        with self._gate:
            began, self._full = self._full is None, error
            words = self._trouble_text(error)
        if began:
            self._tell_trouble(words)

    def _end_trouble(self) -> None:
        with self._gate:
            ended, self._full = self._full is not None, None
        if ended:
            self._tell_trouble(None)

    def _tell_trouble(self, words: str | None) -> None:
        with self._gate:
            # called outside the lock: `hear` may ask for `trouble`, which takes it
            hearing = list(self._on_trouble)
        for hear in hearing:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                hear(words)

    def _refuse_bulk(self, group: list[_Request], error: sqlite3.Error) -> None:
        """Refuse bulk requests: their rows are consumed while written and cannot be retried."""
        failure = self._refusal(error)
        refused = [request for request in group if isinstance(request, _RowStream)]
        group[:] = [request for request in group if not isinstance(request, _RowStream)]
        self._answer([(stream, failure) for stream in refused])

    def _wait_for_room(self, error: sqlite3.Error) -> None:
        """Wait before the next attempt. Raises `StoreError` if the time for closing is over."""
        if not self._closing.wait(RETRY_S):
            return
        self._closing_deadline = self._closing_deadline or time.monotonic() + CLOSING_S
        if time.monotonic() >= self._closing_deadline:
            with self._gate:
                rows = plural(self._unwritten, "row")
                raise _NeverWrittenError(
                    f"{rows} could not be written to {self.path}: {error}; "
                    f"{room_advice(self.path, error)} and run again"
                )
        time.sleep(_CLOSING_STEP_S)

    def _trouble_text(self, error: sqlite3.Error) -> str:
        what = (
            "the disk is full"
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            else f"{self.path.name} cannot grow ({error})"
        )
        waiting = plural(self._unwritten, "row")
        return f"{what}: {waiting} still to be written; {room_advice(self.path, error)}"

    # Outcomes

    def _attempt(self, request: _Request) -> _Outcome:
        """Store one request in a savepoint, so that its failure does not affect the others."""
        before = self._seq
        # one commit, and so one sync, serves the whole group; rolling back to a savepoint undoes
        # this request only
        self._connection.execute("SAVEPOINT request")
        try:
            seqs = self._store(request)
        except (
            sqlite3.IntegrityError,
            sqlite3.DataError,
            # permanent refusals of SQLite or of a row; a full disk or damage is OperationalError or
            # DatabaseError, which is not caught here and fails or repeats the whole group
            sqlite3.InterfaceError,
            sqlite3.ProgrammingError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            CrosswindError,
        ) as error:
            self._seq = before
            self._connection.execute("ROLLBACK TO request")
            self._connection.execute("RELEASE request")
            return error if isinstance(error, CrosswindError) else self._refusal(error)
        self._connection.execute("RELEASE request")
        return seqs

    def _store(self, request: _Request) -> list[int]:
        match request:
            case _RowBatch(rows, at):
                first = self._seq + 1
                for row in rows:
                    self._seq += 1
                    insert(self._connection, row, seq=self._seq, at=at)
                return list(range(first, self._seq + 1))
            case _RowStream(bulk, at):
                self._seq = bulk.write(self._connection, after=self._seq, at=at)
                return [self._seq]
            case _Change(make):
                make(self._connection, self._seq)
                return []

    def _refusal(self, error: Exception) -> StoreError:
        advice = f"; {room_advice(self.path, error)} and try again" if lacks_room(error) else ""
        if isinstance(error, sqlite3.Error) and (how := damage_in(error)) is not None:
            return damaged(self.path, how)
        return StoreError(f"{self.path} could not be written: {error}{advice}")

    def _answer(self, outcomes: Iterable[tuple[_Request, _Outcome]]) -> None:
        """Resolve the futures, with one wake-up for each event loop."""
        outcomes = list(outcomes)
        with self._gate:
            self._unwritten -= sum(_rows_in(request) for request, _ in outcomes)
            self._answered += len(outcomes)
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[tuple[_Waiter, _Outcome]]] = (
            defaultdict(list)
        )
        for request, outcome in outcomes:
            # by loop, as each call_soon_threadsafe writes to the loop's wake-up pipe
            if request.waiter is not None:
                by_loop[request.waiter.get_loop()].append((request.waiter, outcome))
            elif isinstance(outcome, CrosswindError):
                with self._gate:
                    self._unreported = self._unreported or outcome
        for loop, answers in by_loop.items():
            try:
                # a future may only be set from the thread of its loop
                loop.call_soon_threadsafe(_resolve, answers)
            except RuntimeError:
                continue  # the loop is closed, so nobody waits there

    def _give_up(
        self, unanswered: Sequence[_Request | _ExclusiveAction | None], error: BaseException
    ) -> None:
        """Refuse these requests and all that wait or will come: this engine has lost the store, a
        full disk got no room before closing, or there is a bug."""
        failure = (
            error
            if isinstance(error, StoreError)
            else StoreError(f"{self.path} is not written any more: {error!r}")
        )
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        waiting = list(unanswered)
        with self._gate:
            self._closed = self._given_up = failure
            if isinstance(error, _NeverWrittenError):
                self._unreported = self._unreported or failure
                self._acknowledged.give_up(self._seq, self._unwritten)
            # nothing is added meanwhile: `_enqueue` takes the lock, and raises from here on
            while not self._requests.empty():
                waiting.append(self._requests.get_nowait())
        refused: list[tuple[_Request, _Outcome]] = []
        for request in waiting:
            if isinstance(request, _ExclusiveAction):
                request.refuse(failure)
            elif request is not None:
                refused.append((request, failure))
        self._answer(refused)
        self._tell_trouble(str(failure))


def _replace_counts(connection: sqlite3.Connection, counts: BenchmarkCounts, at: int) -> None:
    name = counts.benchmark
    for table in ("take_counts", "verdict_counts"):
        connection.execute(f"DELETE FROM {table} WHERE benchmark = ?", (name,))
    connection.executemany(
        "INSERT INTO take_counts (benchmark, take, why_not, passed, unscored, stale, verdict) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(name, *astuple(take)) for take in counts.takes],
    )
    connection.executemany(
        "INSERT INTO verdict_counts (benchmark, verdict, why_not) VALUES (?, ?, ?)",
        [(name, *verdict) for verdict in counts.verdicts],
    )
    connection.execute(
        "INSERT OR REPLACE INTO counts_as_of (benchmark, at, seq, digest) VALUES (?, ?, ?, ?)",
        (name, at, counts.through, counts.digest),
    )


def _summarised_through(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM summary").fetchone()
    return 0 if row is None else int(row[0])


class _NeverWrittenError(StoreError):
    """Rows were not written before the store was closed."""


def _rows_in(request: _Request | _ExclusiveAction) -> int:
    match request:
        case _RowBatch(rows):
            return len(rows)
        case _ExclusiveAction():
            return 0
        case _:
            return 1


def _new_waiter() -> _Waiter:
    return asyncio.get_running_loop().create_future()


def _resolve(answers: Iterable[tuple[_Waiter, _Outcome]]) -> None:
    for waiter, outcome in answers:
        if waiter.done():
            continue  # the waiter was cancelled; the rows are written all the same
        if isinstance(outcome, CrosswindError):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
