"""Local worker processes, from the side of the process that starts them. Does not import Dask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Joining:
    """What the worker processes are told, once."""

    address: str
    """The address of the scheduler."""
    pem: str
    """The key and certificate of this run, which are in no file."""


class LocalProcesses:
    """Worker processes that begin to import what they need when this is created, and end with this
    process, however it ends.

    One process holds the others: it imports everything once and forks each worker, also to replace
    one that has died.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._joining: Joining | None = None
        self._holder = self._started()

    def join(self, joining: Joining) -> None:
        """Let them make calls for this scheduler."""
        self._joining = joining
        self._announce()

    def revive(self) -> None:
        """Start them again if the holding process has died, and the workers with it."""
        if self._holder.poll() is not None:
            self._close_worker()
            self._holder = self._started()
            self._announce()

    def close(self) -> None:
        self._close_worker()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "engine.cluster.local_workers", str(self.number)]
        return subprocess.Popen(  # noqa: S603  (our own program, by its absolute path)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Ctrl-C in a terminal is for the engine, which finishes the messages being spoken
            start_new_session=True,
            env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "critical"},
        )

    def _announce(self) -> None:
        if self._joining is not None and self._holder.stdin is not None:
            with suppress(BrokenPipeError):  # it has died, which `revive` will notice
                self._holder.stdin.write(json.dumps(asdict(self._joining)).encode() + b"\n")
                self._holder.stdin.flush()

    def _close_worker(self) -> None:
        """Close its standard input, which ends it; kill it after `_CLOSE_S` seconds."""
        if self._holder.stdin is not None:
            with suppress(BrokenPipeError):
                self._holder.stdin.close()
        try:
            self._holder.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()
