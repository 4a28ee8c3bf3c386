"""A cluster as people start it: Dask's own commands over TLS, whose words are kept in files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
from distributed import Security

from tests.waiting import Child, until

_PLAIN = ("--dashboard-address", "127.0.0.1:0")


class DaskCluster:
    """The certificates and the scheduler file of a cluster in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.scheduler_file = folder / "scheduler.json"
        security = Security.temporary()
        parts = {"ca": security.tls_ca_file, "cert": security.tls_client_cert}
        for name, text in {**parts, "key": security.tls_client_key}.items():
            path = folder / f"{name}.pem"
            path.touch(0o600)
            path.write_text(str(text), "utf-8")

    @property
    def environ(self) -> Mapping[str, str]:
        """Dask's own settings for TLS."""
        tls = "DASK_DISTRIBUTED__COMM__TLS"
        environ = {f"{tls}__CA_FILE": str(self.folder / "ca.pem")}
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            for part in ("CERT", "KEY"):
                path = self.folder / f"{part.lower()}.pem"
                environ[f"{tls}__{role}__{part}"] = str(path)
        return environ

    def scheduler(self) -> DaskProcess:
        file = ("--scheduler-file", str(self.scheduler_file))
        where = ("--host", "127.0.0.1", "--port", "0", "--protocol", "tls")
        return DaskProcess(self, "scheduler", *where, *file, *_PLAIN)

    def worker(self, name: str = "far", **keys: str) -> DaskProcess:
        file = ("--scheduler-file", str(self.scheduler_file))
        where = ("--host", "127.0.0.1", "--protocol", "tls", "--nthreads", "1", "--name", name)
        spool = ("--local-directory", str(self.folder / "spool"), "--memory-limit", "0")
        return DaskProcess(self, "worker", *where, *file, *spool, *_PLAIN, **keys)


class DaskProcess(Child):
    """Ended, with all that it started, at the end of its block."""

    def __init__(self, cluster: DaskCluster, *words: str, **environ: str) -> None:
        self.told_in = cluster.folder / f"{words[0]}-{os.urandom(4).hex()}.txt"
        with self.told_in.open("w", encoding="utf-8") as file:
            super().__init__(
                [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **cluster.environ, **environ},
            )

    @property
    def told(self) -> str:
        return self.told_in.read_text("utf-8")

    def until_told(self, words: str, times: int = 1) -> None:
        until(lambda: self.told.count(words) >= times or self.poll() is not None, lambda: self.told)
        assert self.told.count(words) >= times, self.told

    def making_calls(self) -> list[psutil.Process]:
        """The process of a worker that makes the calls, which its nanny starts."""
        own = psutil.Process(self.pid).children()
        return [one for one in own if makes_calls(one)]


def makes_calls(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False
