"""The rows of an import, made by a process of its own while this one writes those before them.

Of 7,560 published files of 26 kB, to read them, make rows and look at them by the rules for user
models takes 5.3 s of CPU and to write the rows 2.0 s, beside 6.9 s where one process does both
(medians, on a machine that had other work). This one is told whose rows to make, and hands them
over as columns, each with its `seq`, in the order in which they were made, so that the store is the
same, row by row. It reads the store as it was before, and writes nothing.

It ends by itself where nobody listens any more, however this process ended.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from engine.errors import CrosswindError, InputError, Problem
from engine.importing.context import ImportContext
from engine.importing.fields import fitting_name
from engine.importing.known import KnownRows
from engine.importing.report import BenchmarkReport, UnknownTarget
from engine.importing.rows import BenchmarkRows
from engine.importing.source import Source, size_of
from engine.store.bulk import NumberedRows, Numbering
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.reading import open_reader

_LARGE: Final = 32 << 20
"""Bytes of files from which on it pays."""
_AT_ONCE: Final = 2_000
"""Rows that are handed over together: the next ones are made while these are written."""
_PIPE: Final = 1 << 20
"""Bytes that it holds, where the system lets it."""


@dataclass(frozen=True, slots=True)
class _Order:
    context: ImportContext
    store: Path
    after: int
    """The last `seq` before the first of all orders."""
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
def row_process(sources: Sequence[Source]) -> Iterator[RowProcess | None]:
    """For an import of these; None where it would not pay, or where the rows of one stand on those
    of another. To be entered while there is one thread and no open store, as it forks."""
    names = {fitting_name(source.name) for source in sources}
    # no further than it takes to know: to ask of 7,560 files holds everything up for 50 ms
    is_large = any(size >= _LARGE for size in accumulate(map(size_of, sources)))
    if not is_large or len(names) < len(sources) or (os.cpu_count() or 1) < 2:
        yield None
        return
    process = RowProcess()
    try:
        yield process
    finally:
        process.close()


class RowProcess:
    """Makes the rows of one benchmark after the other, as they are asked for."""

    def __init__(self) -> None:
        # to start Python anew would take 0.3 s, which is a tenth of what an import takes
        forking = get_context("fork")
        orders, self._orders = forking.Pipe(duplex=False)
        self._told, tell = forking.Pipe(duplex=False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # where a user may have no more
                fcntl.fcntl(tell.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
        ours = (self._orders, self._told)
        self._process = forking.Process(target=_serve, args=(orders, tell, ours), daemon=True)
        self._process.start()
        orders.close()
        tell.close()
        self._sending = ThreadPoolExecutor(1)

    def begin(self, context: ImportContext, store: Store) -> ProcessRows:
        """Have the rows of a benchmark made, behind those that were asked for before; they are to
        be taken in this order, each benchmark's to the end. Nobody else writes into the store
        meanwhile."""
        plain = replace(context, known=KnownRows(None, context.name), on_read=_ignore)
        at = time.time_ns() // 1_000_000
        order = _Order(plain, store.path, store.reader.last_seq(), at)
        # whoever waited until it is taken would wait until the rows before are made
        self._sending.submit(self._orders.send_bytes, pickle.dumps(order))
        return ProcessRows(context, self)

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
        """End the process, wherever it is."""
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
    process: RowProcess
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
    seq: int | None = None
    with suppress(EOFError, BrokenPipeError):
        while True:
            order: _Order = orders.recv()
            with closing(open_reader(order.store)) as reader:
                seq = _make(order, reader, order.after if seq is None else seq, tell)


def _make(order: _Order, reader: Reader, after: int, tell: Connection) -> int:
    """The last `seq` that the store will have."""
    read: list[int] = []
    known = KnownRows(reader, order.context.name)
    made = BenchmarkRows(replace(order.context, known=known, on_read=read.append))
    numbering = Numbering(after, order.at)
    waiting: list[NumberedRows] = []
    sent = after
    failed: CrosswindError | None = None
    try:
        for row in made.rows():
            waiting += numbering.add(row)
            if numbering.seq - sent >= _AT_ONCE:
                waiting += numbering.rest()
                _tell(tell, _RowsMade(waiting, sum(read)))
                sent = numbering.seq
                waiting.clear()
                read.clear()
        waiting += numbering.rest()
    except CrosswindError as error:
        failed = error
    _tell(tell, _RowsMade(waiting, sum(read)))
    end = _AllMade(order.context.report, made.targets, made.metrics_named, failed)
    _tell(tell, end)
    return after if failed else numbering.seq


def _tell(tell: Connection, what: _RowsMade | _AllMade) -> None:
    # the fifth protocol is the first that has bytes of text as they are
    tell.send_bytes(pickle.dumps(what, pickle.HIGHEST_PROTOCOL))
