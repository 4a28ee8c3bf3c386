"""Makes the rows of an import in child processes while this process writes earlier ones.

For published files of 26 kB, reading them, making rows and checking the user model by rules takes
two to three times the CPU of writing the rows. So there are several processes, each with a
benchmark of its own. They send rows as columns, numbered in the order in which they were made, so
that the store is the same row by row. They read the store as it was before, and write nothing.

They end by themselves when the parent process is gone, however it ended.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from io import BufferedReader, BufferedWriter
from itertools import accumulate
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from typing import Final

from engine.errors import CrosswindError, InputError, Problem
from engine.importing.context import ImportContext
from engine.importing.fields import fitting_name
from engine.importing.report import BenchmarkReport, UnknownTarget
from engine.importing.rows import BenchmarkRows
from engine.importing.source import Source, size_of
from engine.importing.unchanged_files import KnownRows
from engine.store.bulk import UNPLACED, NumberedRows, Numbering
from engine.store.database import Store
from engine.store.open_reader import open_reader
from engine.store.reader import Reader

_LARGE: Final = 32 << 20
"""Bytes of files from which on the processes pay off."""
_MOST: Final = 3
"""The most processes: this many make rows as fast as one process can write them."""
_AT_ONCE: Final = 700
"""Rows in a batch: the next batch is made while this one is written. It fits the processor's
cache."""
_WAITING: Final = 48
"""Batches that may wait to be sent; each has about 1 MB."""
_PIPE: Final = 1 << 20
"""Bytes of the pipe's buffer, if the system allows it."""
_SIZE_BYTES: Final = 8
"""A message is its length, of so many bytes, and then its pickle."""


@dataclass(frozen=True, slots=True)
class _RowsOrder:
    context: ImportContext
    store: Path
    at: int
    """Milliseconds since 1970, for rows without a time of their own."""


@dataclass(frozen=True, slots=True)
class _MadeRows:
    """A batch that the child sends."""

    rows: Sequence[NumberedRows]
    bytes_read: int
    """Bytes of files that were read since the last batch."""


@dataclass(frozen=True, slots=True)
class _EndOfRows:
    """The child's last message about a benchmark."""

    report: BenchmarkReport
    targets: Mapping[str, UnknownTarget]
    metrics_named: Mapping[str, str]
    failed: CrosswindError | None
    """Why there are no more rows; None at the end."""


# In the parent


@contextmanager
def row_processes(sources: Sequence[Source]) -> Iterator[RowProcesses | None]:
    """Start processes for an import of these benchmarks.

    Yields None if that would not pay off, or if the rows of one benchmark depend on another's. It
    forks, so it must be entered while there is one thread and no open store.
    """
    names = {fitting_name(source.name) for source in sources}
    # stops at the limit, as looking at 7,560 files blocks for 50 ms
    is_large = any(size >= _LARGE for size in accumulate(map(size_of, sources)))
    cores = os.cpu_count() or 1
    if not is_large or len(names) < len(sources) or cores < 2:
        yield None
        return
    processes = RowProcesses(min(_MOST, cores, len(sources)))
    try:
        yield processes
    finally:
        processes.close()


class RowProcesses:
    """Processes that make the rows of up to `count` benchmarks at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        ends: list[Connection | BufferedReader] = []
        self._processes = [_RowProcess(ends) for _ in range(count)]
        self._begun = 0

    def begin(self, context: ImportContext, store: Store) -> ProcessRows:
        """Start making a benchmark's rows. The rows must be consumed in the order of these calls,
        each benchmark's completely. Nobody else may write to the store meanwhile."""
        process = self._processes[self._begun % self.count]
        self._begun += 1
        process.begin(context, store)
        return ProcessRows(context, process)

    def close(self) -> None:
        """Kill the processes."""
        for process in self._processes:
            process.close()


class _RowProcess:
    """A process that makes the rows of one benchmark after another."""

    def __init__(self, ends: list[Connection | BufferedReader]) -> None:
        """`ends` are the parent's pipe ends so far, which the child closes; its own are added."""
        # fork: starting Python anew takes 0.3 s, a tenth of a typical import
        forking = get_context("fork")
        orders, self._orders = forking.Pipe(duplex=False)
        # not a `Pipe`, which receives into new memory and copies twice
        reading, writing = os.pipe()
        self._incoming, outgoing = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self._buffer = bytearray()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # beyond the user's limit
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
        ends += (self._orders, self._incoming)
        self._process = forking.Process(target=_serve, args=(orders, outgoing, ends), daemon=True)
        self._process.start()
        orders.close()
        outgoing.close()
        self._sending = ThreadPoolExecutor(1)

    def begin(self, context: ImportContext, store: Store) -> None:
        plain = replace(context, known=KnownRows(None, context.name), on_read=_ignore)
        at = time.time_ns() // 1_000_000
        order = _RowsOrder(plain, store.path, at)
        # in a thread: the process takes the order only after the rows of its last one
        self._sending.submit(self._orders.send_bytes, pickle.dumps(order))

    def next(self, context: ImportContext) -> _MadeRows | _EndOfRows:
        """Receive the next message. Raises `InputError` if the process has ended."""
        size = int.from_bytes(self._incoming.read(_SIZE_BYTES))
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        content = memoryview(self._buffer)[:size]
        # it ended before a message, or in the middle of one
        if not size or self._incoming.readinto(content) < size:
            self._process.join()
            what = (
                "the process that reads its files ended before it was done "
                f"({self._process.exitcode}), so nothing of it was taken"
            )
            raise InputError(Problem(what, context.source.folder, hint="import again"))
        message: _MadeRows | _EndOfRows = pickle.loads(content)  # noqa: S301  (from a process of ours)
        return message

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._sending.shutdown()
        self._orders.close()
        self._incoming.close()


def _ignore(_: int) -> None:
    """Replaces a watcher, which is in the parent."""


@dataclass(slots=True)
class ProcessRows:
    """The rows of one benchmark, with the interface of `BenchmarkRows`."""

    context: ImportContext
    process: _RowProcess
    targets: Mapping[str, UnknownTarget] = field(default_factory=dict)
    """Set once all rows were consumed; so is the field below."""
    metrics_named: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[NumberedRows]:
        """Yield the rows. Raises what `BenchmarkRows.rows` raises, and `InputError` if the process
        is gone."""
        while isinstance(message := self.process.next(self.context), _MadeRows):
            self.context.on_read(message.bytes_read)
            yield from message.rows
        for report_field in fields(message.report):
            setattr(
                self.context.report, report_field.name, getattr(message.report, report_field.name)
            )
        self.targets, self.metrics_named = message.targets, message.metrics_named
        if message.failed is not None:
            raise message.failed


# In the child


def _serve(
    orders: Connection,
    outgoing: BufferedWriter,
    parent_ends: Sequence[Connection | BufferedReader],
) -> None:
    """Make rows until the parent's end of the pipe is closed."""
    os.setpgid(0, 0)  # Ctrl-C is for the parent, which kills this process
    for parent_end in parent_ends:
        parent_end.close()  # otherwise the end of the parent would not close the pipe
    outbox = _Outbox(outgoing)
    try:
        with suppress(EOFError):
            while True:
                order: _RowsOrder = orders.recv()
                with closing(open_reader(order.store)) as reader:
                    _make_rows(order, reader, outbox)
    finally:
        outbox.end()  # so that earlier benchmarks are complete, whatever this one raised


class _Outbox:
    """Sends messages on a thread, so that rows are made while the parent is busy with the rows of
    another process, or with the disk."""

    def __init__(self, outgoing: BufferedWriter) -> None:
        self._outgoing = outgoing
        self._waiting: Queue[bytes | None] = Queue(_WAITING)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def __call__(self, what: _MadeRows | _EndOfRows) -> None:
        # protocol 5 is the first that handles large bytes without copying them
        self._waiting.put(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))

    def end(self) -> None:
        """Wait until everything was sent."""
        self._waiting.put(None)
        self._thread.join()

    def _send(self) -> None:
        try:
            while (message := self._waiting.get()) is not None:
                self._outgoing.write(len(message).to_bytes(_SIZE_BYTES))
                self._outgoing.write(message)
                self._outgoing.flush()
        except BrokenPipeError:
            os._exit(0)  # the parent is gone, and the other thread may wait for this one


def _make_rows(
    order: _RowsOrder, reader: Reader, send: Callable[[_MadeRows | _EndOfRows], None]
) -> None:
    read: list[int] = []
    known = KnownRows(reader, order.context.name)
    benchmark_rows = BenchmarkRows(replace(order.context, known=known, on_read=read.append))
    numbering = Numbering(UNPLACED, order.at)
    waiting: list[NumberedRows] = []
    sent = numbering.seq
    failed: CrosswindError | None = None
    try:
        for row in benchmark_rows.rows():
            waiting += numbering.add(row)
            if numbering.seq - sent >= _AT_ONCE:
                waiting += numbering.rest()
                send(_MadeRows(waiting, sum(read)))
                sent = numbering.seq
                waiting.clear()
                read.clear()
        waiting += numbering.rest()
    except CrosswindError as error:
        failed = error
    send(_MadeRows(waiting, sum(read)))
    end = _EndOfRows(
        order.context.report, benchmark_rows.targets, benchmark_rows.metrics_named, failed
    )
    send(end)
