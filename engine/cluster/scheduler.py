"""Runs Dask's scheduler: encrypted, with no other port reachable from outside, and quiet."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import dask.config
from distributed import Scheduler, SchedulerPlugin, Security

from engine.cluster.certificates import security_from
from engine.cluster.folder import ClusterError, ClusterFolder, scheduler_address
from engine.errors import Problem

DEFAULT_PORT: Final = 8786
NO_PAGES: Final[Mapping[str, list[str]]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Dask always opens a port for web pages: it gets one on the loopback interface, and no pages."""
PAGES_PORT: Final = "127.0.0.1:0"
QUIET: Final = {
    # profiling of workers and monitoring of their loops are costly, and nobody uses them
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.retry.count": 0,
}

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which terminals, schedulers and Kubernetes end a process."""

SayLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a process of the cluster listens; None lets Dask choose."""

    host: str | None = None
    interface: str | None = None
    port: int | None = None


async def serve_scheduler(folder: ClusterFolder, listening: ListenAddress, say: SayLine) -> None:
    """Run the scheduler until a signal ends it. Raises `ClusterError`."""
    security, file = security_from(folder.pem), _file_to_write(folder)
    try:
        with dask.config.set(NO_PAGES):
            scheduler = Scheduler(
                security=security,
                protocol="tls://",
                host=listening.host,
                interface=listening.interface,
                port=DEFAULT_PORT if listening.port is None else listening.port,
                dashboard=False,
                dashboard_address=PAGES_PORT,
                scheduler_file=None if file is None else str(file),
            )
        await scheduler
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(_bind_problem(error, listening)) from error
    try:
        scheduler.add_plugin(_MembershipLog(say))
        say(f"scheduler at {scheduler.address}, said to others by {folder.scheduler_file}")
        say("Ctrl-C ends it; workers and runs then wait for another one")
        await asked_to_end()
    finally:
        await scheduler.close(reason="asked to end")


def _file_to_write(folder: ClusterFolder) -> Path | None:
    """The scheduler file, or None if the folder is read-only, as a Kubernetes Secret is; then the
    file must exist. Raises `ClusterError`."""
    if os.access(folder.path, os.W_OK):
        return folder.scheduler_file
    scheduler_address(folder)
    return None


def _bind_problem(error: Exception, listening: ListenAddress) -> Problem:
    cause = error.__cause__ if isinstance(error, RuntimeError) else error
    taken = isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
    if taken:
        port = DEFAULT_PORT if listening.port is None else listening.port
        return Problem(
            f"port {port} is taken: a scheduler may be running already",
            hint="`crosswind cluster status` says; --port 0 takes any that is free",
        )
    return Problem(f"cannot listen: {listen_fault(error)}", hint="see --host and --interface")


def listen_fault(error: BaseException) -> str:
    """The reason why an address cannot be used, from Dask's chain of errors."""
    cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
    return (isinstance(cause, OSError) and cause.strerror) or str(cause)


async def scheduler_here(security: Security, arrived: Callable[[], None]) -> Scheduler:
    """Start a scheduler in this process for local workers; `arrived` is called for each worker."""
    with dask.config.set(NO_PAGES):
        scheduler = Scheduler(
            security=security,
            protocol="tls://",
            host="127.0.0.1",
            port=0,
            dashboard=False,
            dashboard_address=PAGES_PORT,
        )
    await scheduler
    scheduler.add_plugin(_WorkerArrivals(arrived))
    return scheduler


async def asked_to_end() -> None:
    """Wait for a signal that ends this process; afterwards, a second one ends it as usual."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    for number in _ENDING:
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


class _WorkerArrivals(SchedulerPlugin):
    def __init__(self, arrived: Callable[[], None]) -> None:
        self._arrived = arrived

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        del scheduler, worker
        self._arrived()


class _MembershipLog(SchedulerPlugin):
    """Reports workers that arrive and leave."""

    def __init__(self, say: SayLine) -> None:
        self._say = say
        self._names = dict[str, str]()
        """By address, because the scheduler forgets workers that have gone."""

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._names[worker] = str(scheduler.workers[worker].name)
        self._say(f"worker {self._names[worker]} has come: {self._count()}")

    async def remove_worker(self, scheduler: Scheduler, worker: str, **_: object) -> None:
        self._say(f"worker {self._names.pop(worker, worker)} has gone: {self._count()}")

    def _count(self) -> str:
        number = len(self._names)
        return f"{number} worker{'' if number == 1 else 's'}"
