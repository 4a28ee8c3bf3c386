"""`crosswind cluster …` as processes of their own, whose words are kept in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import psutil

from tests.waiting import PATIENCE_S, Child, until


class ClusterProcess(Child):
    """Ended, with all that it started, at the end of its block."""

    def __init__(self, folder: Path, *words: str, **environ: str) -> None:
        self.told_in = folder.with_name(f"{words[0]}-{os.urandom(4).hex()}.txt")
        with self.told_in.open("w", encoding="utf-8") as file:
            super().__init__(
                [sys.executable, "-m", "tui", "cluster", *words, "--cluster", str(folder)],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **environ},
            )

    @property
    def told(self) -> str:
        return self.told_in.read_text("utf-8")

    def until_told(self, words: str, times: int = 1) -> None:
        until(lambda: self.told.count(words) >= times or self.poll() is not None, lambda: self.told)
        assert self.told.count(words) >= times, self.told

    def processes(self) -> list[psutil.Process]:
        """This one and the one that makes the calls, where it is a worker."""
        own = psutil.Process(self.pid)
        return [own, *(one for one in own.children() if _makes_calls(one))]

    def end(self) -> int:
        """As a terminal or Kubernetes would."""
        self.send_signal(signal.SIGTERM)
        return self.wait(PATIENCE_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        below = self.processes() if self.poll() is None else []
        super().__exit__(kind, error, trace)
        for process in below:
            if process.is_running():
                process.kill()


def _makes_calls(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False
