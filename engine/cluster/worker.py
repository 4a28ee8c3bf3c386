"""Runs a worker: one process that makes calls, restarted when it dies."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from distributed import Nanny

from engine.cluster.certificates import security_from
from engine.cluster.folder import ClusterError, ClusterFolder, SchedulerGoneError, scheduler_address
from engine.cluster.scheduler import (
    NO_PAGES,
    PAGES_PORT,
    ListenAddress,
    SayLine,
    asked_to_end,
    listen_fault,
)
from engine.cluster.scheduler_identity import scheduler_identity
from engine.cluster.spool import temporary_spool
from engine.errors import Problem

OURS: Final = "crosswind"
"""The Dask resource that tells our workers from others of the same cluster."""
_LOOK_S: Final = 1.0
# shorter than for a command, which tries once: a worker tries again a second later
_TRY_S: Final = 2.0
_CLOSE_S: Final = 10.0
# a process that cannot begin three times will not begin, and each try takes seconds
_MOST_FAILS: Final = 3
_MOST_DEAD: Final = 10
"""Consecutive checks without a worker process until it is dead: starting takes a second."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    folder: ClusterFolder
    listening: ListenAddress
    name: str
    wait_s: float
    """Seconds to wait for a scheduler, at the start and when it goes."""


class NameTakenError(ClusterError):
    """Another worker has this name, or the scheduler has not noticed yet that this one ended."""


def default_name() -> str:
    return f"{socket.gethostname()}-{token_hex(2)}"


async def serve_worker(settings: WorkerSettings, say: SayLine) -> None:
    """Run a worker until a signal ends it, across restarts of the scheduler. Raises
    `ClusterError`."""
    ending = asyncio.create_task(asked_to_end())
    serving = asyncio.create_task(_serve(settings, say))
    await asyncio.wait({ending, serving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (ending, serving):
        task.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def _serve(settings: WorkerSettings, say: SayLine) -> None:
    fails = 0
    while fails < _MOST_FAILS:
        address = await _scheduler(settings, say)
        with temporary_spool() as spool:
            began = await _join(settings, address, spool, say)
        fails = 0 if began else fails + 1
    raise ClusterError(f"the worker's process ended {fails} times before it could begin")


async def _scheduler(settings: WorkerSettings, say: SayLine) -> str:
    """Wait for a scheduler that answers; return its address. Raises `ClusterError`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.wait_s
    reported = False
    while True:
        try:
            address = scheduler_address(settings.folder)
            security = security_from(settings.folder.pem)
            identity = await scheduler_identity(
                settings.folder, address, security, timeout_s=_TRY_S
            )
            _check_name(settings.name, identity)
        except (SchedulerGoneError, NameTakenError) as error:
            if loop.time() >= end:
                raise
            if not reported:
                say(f"{error.problems[0].what}; waiting for that to change")
            reported = True
            await asyncio.sleep(_LOOK_S)
        else:
            return address


def _check_name(name: str, identity: Mapping[str, Any]) -> None:
    if any(str(worker["name"]) == name for worker in identity["workers"].values()):
        raise NameTakenError(
            Problem(f"there is a worker named {name} already", hint="give another --name, or none")
        )


async def _join(settings: WorkerSettings, address: str, spool: str, say: SayLine) -> bool:
    """Work until the scheduler or the worker's process goes; False if that process ended before it
    began. Raises `ClusterError`."""
    try:
        nanny = _make_nanny(settings, address, spool)
        await nanny
    except (OSError, ValueError, RuntimeError) as error:
        # a RuntimeError is Dask's wrapping: only with such a cause is it about listening, and not
        # about the worker's process
        if not isinstance(error.__cause__ or error, OSError | ValueError):
            return False
        raise ClusterError(
            Problem(f"cannot listen: {listen_fault(error)}", hint="see --host and --interface")
        ) from error
    try:
        say(f"worker {settings.name} makes calls for {address}")
        if await _until_over(nanny):
            say("the scheduler has gone")
        else:
            say("the process that makes calls has died; it is started again")
    finally:
        await nanny.close(timeout=_CLOSE_S, reason="asked to end")
    return True


async def _until_over(nanny: Nanny) -> bool:
    """Wait until the scheduler has gone or the process stays dead; return whether it is the
    scheduler. Dask restarts a process that dies, but not if it dies again meanwhile."""
    over = asyncio.ensure_future(nanny.finished())
    dead = 0
    while not over.done() and dead < _MOST_DEAD:
        await asyncio.wait({over}, timeout=_LOOK_S)
        dead = 0 if nanny.is_alive() else dead + 1
    # only a wait that is not over can be cancelled: then it is the process that is dead
    return not over.cancel()


def _make_nanny(settings: WorkerSettings, address: str, spool: str) -> Nanny:
    return Nanny(
        address,
        nthreads=1,
        name=settings.name,
        host=settings.listening.host,
        interface=settings.listening.interface,
        protocol="tls://",
        security=security_from(settings.folder.pem),
        resources={OURS: 1},
        memory_limit=0,  # calls need little memory; other use of the machine is not its concern
        local_directory=spool,
        death_timeout=settings.wait_s,
        config=dict(NO_PAGES),
        silence_logs=logging.CRITICAL,
        dashboard=False,
        dashboard_address=PAGES_PORT,
    )
