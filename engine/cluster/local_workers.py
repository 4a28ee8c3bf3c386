"""The process that holds the workers of one run: `python -m engine.cluster.local_workers N`.
Started by `local_processes`, never by hand.

It imports Dask and the agent once, while the engine still prices its plan, and then forks each
worker: two workers that import them cost twice the time. Until then it has one thread and no loop.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Final, NoReturn

import dask.config
from distributed import Worker

from engine.cluster.agent import AgentActor
from engine.cluster.certificates import security_of
from engine.cluster.local_processes import Joining
from engine.cluster.scheduler import NO_PAGES, PAGES_PORT, QUIET
from engine.cluster.spool import temporary_spool

AGAIN_S: Final = 1.0
"""A worker that lived for a shorter time is restarted only after this delay."""
_JOIN_S: Final = 30.0
LOADED: Final = AgentActor
"""Imported here, because the scheduler will name it: so no worker has to import it."""


def main() -> None:
    line = sys.stdin.buffer.readline()  # empty if the engine has ended
    if line:
        with temporary_spool() as spool:
            _Holder(Joining(**json.loads(line)), spool).hold(int(sys.argv[1]))


class _Holder:
    def __init__(self, joining: Joining, spool: str) -> None:
        self._joining = joining
        self._spool = spool
        self._alive, self._held = os.pipe()
        """Nothing is written to this pipe: its end tells workers that this process has ended."""
        self._died, self._deaths = os.pipe()
        self._living: dict[int, tuple[str, float]] = {}
        """The worker's name and start time, by process id."""

    def hold(self, number: int) -> None:
        """Keep `number` workers alive until the engine ends."""
        # a handler, even one that does nothing, makes Python write each signal to the pipe on which
        # this process waits
        os.set_blocking(self._deaths, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._deaths, warn_on_full_buffer=False)
        try:
            for name in range(1, number + 1):
                self._begin(str(name))
            while not self._ends(None):
                os.read(self._died, 4096)  # how many does not matter, as all are looked at
                if self._replace_dead_workers():
                    break
        finally:
            for process in self._living:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _ends(self, wait_s: float | None) -> bool:
        """Wait for news, at most `wait_s` seconds; return whether the engine has ended."""
        watched = [sys.stdin] if wait_s is not None else [sys.stdin, self._died]
        readable, _, _ = select.select(watched, [], [], wait_s)
        # nothing comes after the first line, so that a readable standard input is at its end
        return sys.stdin in readable

    def _replace_dead_workers(self) -> bool:
        """Restart workers that have died; return whether the engine has ended meanwhile."""
        for process in list(self._living):
            if os.waitpid(process, os.WNOHANG)[0]:
                name, began = self._living.pop(process)
                if time.monotonic() - began < AGAIN_S and self._ends(AGAIN_S):
                    return True
                self._begin(name)
        return False

    def _begin(self, name: str) -> None:
        process = os.fork()
        if process:
            self._living[process] = name, time.monotonic()
        else:
            self._become_worker(name)

    def _become_worker(self, name: str) -> NoReturn:
        code = 1
        try:
            # held by the parent alone, or this worker would keep it open when the parent has ended
            os.close(self._held)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asyncio.run(_run_worker(name, self._joining, self._spool, self._alive))
            code = 0
        finally:
            os._exit(code)


async def _run_worker(name: str, joining: Joining, spool: str, alive: int) -> None:
    """Run a worker until the scheduler goes, or the process that forked it."""
    asyncio.get_running_loop().add_reader(alive, os._exit, 0)
    with dask.config.set({**QUIET, **NO_PAGES}):
        worker = Worker(
            joining.address,
            nthreads=1,
            name=name,
            host="127.0.0.1",
            protocol="tls://",
            security=security_of(joining.pem),
            memory_limit=0,  # calls need little memory; other use of the machine is not its concern
            local_directory=spool,
            death_timeout=_JOIN_S,
            dashboard=False,
            dashboard_address=PAGES_PORT,
        )
        async with worker:
            await worker.finished()


if __name__ == "__main__":
    main()
