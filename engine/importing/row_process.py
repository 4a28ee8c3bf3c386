"""The rows of an import, made by processes of their own while this one writes those before them.

Of published files of 26 kB, to read them, make rows and look at them by the rules for user models
takes two to three times the CPU that writing the rows does. So there are several such processes,
each with a benchmark of its own, and the system gives each the time that it can use. They are told
whose rows to make, and hand them over as columns, numbered in the order in which they were made, so
that the store is the same, row by row. They read the store as it was before, and write nothing.

They end by themselves where nobody listens any more, however this process ended.
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
from itertools import accumulate
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from typing import Final

from engine.errors import CrosswindError, InputError, Problem
from engine.importing.context import ImportContext
from engine.importing.fields import fitting_name
from engine.importing.known import KnownRows
from engine.importing.report import BenchmarkReport, UnknownTarget
from engine.importing.rows import BenchmarkRows
from engine.importing.source import Source, size_of
from engine.store.bulk import UNPLACED, NumberedRows, Numbering
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.reading import open_reader

_LARGE: Final = 32 << 20
"""Bytes of files from which on it pays."""
_MOST: Final = 3
"""Processes: so many make rows as quickly as one can write them."""
_AT_ONCE: Final = 2_000
"""Rows that are handed over together: the next ones are made while these are written."""
_WAITING: Final = 16
"""So often may that be made ahead; each has about 3 MB."""
_PIPE: Final = 1 << 20
"""Bytes that it holds, where the system lets it."""


@dataclass(frozen=True, slots=True)
class _Order:
    context: ImportContext
    store: Path
    at: int
    """When the rows are written that do not say it themselves."""


@dataclass(frozen=True, slots=True)
class _RowsMade:
    """What the process says, again and again."""

    rows: Sequence[NumberedRows]
    bytes_read: int
    """Of files, since the one before."""


@dataclass(frozen=True, slots=True)
class _AllMade:
    """What it says at last of one benchmark."""

    report: BenchmarkReport
    targets: Mapping[str, UnknownTarget]
    metrics_named: Mapping[str, str]
    failed: CrosswindError | None
    """Why there are no more rows."""


# This end


@contextmanager
def row_processes(sources: Sequence[Source]) -> Iterator[RowProcesses | None]:
    """For an import of these; None where it would not pay, or where the rows of one stand on those
    of another. To be entered while there is one thread and no open store, as it forks."""
    names = {fitting_name(source.name) for source in sources}
    # no further than it takes to know: to ask of 7,560 files holds everything up for 50 ms
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
    """Make the rows of so many benchmarks at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        ends: list[Connection] = []
        self._processes = [_RowProcess(ends) for _ in range(count)]
        self._begun = 0

    def begin(self, context: ImportContext, store: Store) -> ProcessRows:
        """Have the rows of a benchmark made; they are to be taken in the order in which they were
        asked for, each benchmark's to the end. Nobody else writes into the store meanwhile."""
        process = self._processes[self._begun % self.count]
        self._begun += 1
        process.begin(context, store)
        return ProcessRows(context, process)

    def close(self) -> None:
        """End them, wherever they are."""
        for process in self._processes:
            process.close()


class _RowProcess:
    """Makes the rows of one benchmark after the other."""

    def __init__(self, ends: list[Connection]) -> None:
        """`ends` are this process's, of the pipes to those before; its own come to them."""
        # to start Python anew would take 0.3 s, which is a tenth of what an import takes
        forking = get_context("fork")
        orders, self._orders = forking.Pipe(duplex=False)
        self._told, tell = forking.Pipe(duplex=False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # where a user may have no more
                fcntl.fcntl(tell.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
        ends += (self._orders, self._told)
        self._process = forking.Process(target=_serve, args=(orders, tell, ends), daemon=True)
        self._process.start()
        orders.close()
        tell.close()
        self._sending = ThreadPoolExecutor(1)

    def begin(self, context: ImportContext, store: Store) -> None:
        plain = replace(context, known=KnownRows(None, context.name), on_read=_ignore)
        at = time.time_ns() // 1_000_000
        order = _Order(plain, store.path, at)
        # whoever waited until it is taken would wait until the rows before are made
        self._sending.submit(self._orders.send_bytes, pickle.dumps(order))

    def next(self, context: ImportContext) -> _RowsMade | _AllMade:
        """Raises `InputError` where the process is gone."""
        try:
            told: _RowsMade | _AllMade = pickle.loads(self._told.recv_bytes())  # noqa: S301  (from a process of ours)
        except EOFError:
            self._process.join()
            what = (
                "the process that reads its files ended before it was done "
                f"({self._process.exitcode}), so nothing of it was taken"
            )
            raise InputError(Problem(what, context.source.folder, hint="import again")) from None
        return told

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._sending.shutdown()
        self._orders.close()
        self._told.close()


def _ignore(_: int) -> None:
    """In place of a watcher, which is on this side."""


@dataclass(slots=True)
class ProcessRows:
    """The rows of one benchmark, as `BenchmarkRows` gives them."""

    context: ImportContext
    process: _RowProcess
    targets: Mapping[str, UnknownTarget] = field(default_factory=dict)
    """Of all rows, when they were taken; so are those below."""
    metrics_named: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[NumberedRows]:
        """Raises what `BenchmarkRows.rows` raises, and `InputError` where the process is gone."""
        while isinstance(told := self.process.next(self.context), _RowsMade):
            self.context.on_read(told.bytes_read)
            yield from told.rows
        for one in fields(told.report):
            setattr(self.context.report, one.name, getattr(told.report, one.name))
        self.targets, self.metrics_named = told.targets, told.metrics_named
        if told.failed is not None:
            raise told.failed


# The other end


def _serve(orders: Connection, tell: Connection, not_ours: Sequence[Connection]) -> None:
    """Make rows as long as there is somebody to have them."""
    os.setpgid(0, 0)  # Ctrl-C is for whoever started this, and ends it
    for one in not_ours:
        one.close()  # or it would never be seen that the other end is gone
    telling = _Telling(tell)
    try:
        with suppress(EOFError):
            while True:
                order: _Order = orders.recv()
                with closing(open_reader(order.store)) as reader:
                    _make(order, reader, telling)
    finally:
        telling.end()  # whatever this one ends by, benchmarks before it are whole


class _Telling:
    """Goes on while what was told before waits to be heard: who writes rows now may be at those of
    another process, or wait for the disk."""

    def __init__(self, tell: Connection) -> None:
        self._tell = tell
        self._waiting: Queue[bytes | None] = Queue(_WAITING)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def __call__(self, what: _RowsMade | _AllMade) -> None:
        # the fifth protocol is the first that has bytes of text as they are
        self._waiting.put(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))

    def end(self) -> None:
        """When all was heard."""
        self._waiting.put(None)
        self._thread.join()

    def _send(self) -> None:
        try:
            while (told := self._waiting.get()) is not None:
                self._tell.send_bytes(told)
        except BrokenPipeError:
            os._exit(0)  # nobody listens any more, and the other thread may wait for this one


def _make(order: _Order, reader: Reader, tell: Callable[[_RowsMade | _AllMade], None]) -> None:
    read: list[int] = []
    known = KnownRows(reader, order.context.name)
    made = BenchmarkRows(replace(order.context, known=known, on_read=read.append))
    numbering = Numbering(UNPLACED, order.at)
    waiting: list[NumberedRows] = []
    sent = numbering.seq
    failed: CrosswindError | None = None
    try:
        for row in made.rows():
            waiting += numbering.add(row)
            if numbering.seq - sent >= _AT_ONCE:
                waiting += numbering.rest()
                tell(_RowsMade(waiting, sum(read)))
                sent = numbering.seq
                waiting.clear()
                read.clear()
        waiting += numbering.rest()
    except CrosswindError as error:
        failed = error
    tell(_RowsMade(waiting, sum(read)))
    end = _AllMade(order.context.report, made.targets, made.metrics_named, failed)
    tell(end)
