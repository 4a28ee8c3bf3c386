"""The actions of `crosswind cluster`."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from engine.cli.console import out, out_json, table, tell
from engine.cluster.certificates import check_certificate, read_kept, write_certificate
from engine.cluster.folder import (
    ClusterError,
    checked_address,
    folder_of,
    make_folder,
    write_address,
)
from engine.cluster.scheduler import ListenAddress, serve_scheduler
from engine.cluster.worker import WorkerSettings, default_name, serve_worker
from engine.cluster.worker_status import WorkerStatus, workers_of
from engine.config.secrets import read_dotenv
from engine.errors import DONE, Problem

_KEY_ENDINGS: Final = ("KEY", "TOKEN", "SECRET")
"""Endings of the names of environment variables that a worker reports as keys."""


def init(arguments: argparse.Namespace) -> int:
    address = arguments.address
    if address is not None:
        checked_address(address)
    folder = make_folder(arguments.out)
    if address is None or not folder.pem.exists():
        write_certificate(folder.pem)
        out(f"{folder.pem}: the cluster's key, until {check_certificate(folder.pem):%Y-%m-%d}")
        out("whoever has it may run programs as you on all machines of this cluster")
    if address is not None:
        write_address(folder, address)
        out(f"{folder.scheduler_file}: the scheduler is at {address}")
    out("next, each where it is to run:")
    for what in ("cluster scheduler", "cluster worker", "run"):
        out(f"  crosswind {what} --cluster {folder.path}")
    return DONE


def scheduler(arguments: argparse.Namespace) -> int:
    folder = folder_of(arguments.cluster)
    check_certificate(folder.pem)
    asyncio.run(serve_scheduler(folder, _listening(arguments, arguments.port), tell))
    return DONE


def _listening(arguments: argparse.Namespace, port: int | None = None) -> ListenAddress:
    return ListenAddress(arguments.host, arguments.interface, port)


def worker(arguments: argparse.Namespace) -> int:
    folder = folder_of(arguments.cluster)
    check_certificate(folder.pem)
    settings = WorkerSettings(
        folder,
        _listening(arguments),
        arguments.name or default_name(),
        arguments.death_timeout,
    )
    env = {} if arguments.env is None else _read_settings(arguments.env)
    tell(
        f"worker {settings.name}: crosswind {version('crosswind')}, "
        f"Python {platform.python_version()}"
    )
    tell(_keys_told(env, arguments.env))
    os.environ.update(env)  # the process that makes the calls inherits it
    asyncio.run(serve_worker(settings, tell))
    return DONE


def _read_settings(path: Path) -> Mapping[str, str]:
    """The variables of an `--env` file. Raises `InputError` with the number of an unreadable line,
    never its content."""
    read_kept(path, "lines of the form NAME=value")
    dotenv = read_dotenv(path)
    if dotenv.unreadable_lines:
        raise ClusterError(
            Problem("expected NAME=value on each line", path=path, line=dotenv.unreadable_lines[0])
        )
    return dotenv.values


def _keys_told(settings: Mapping[str, str], path: Path | None) -> str:
    """The names of the keys that a worker has, without their values."""
    own = sorted(
        name for name, value in os.environ.items() if name.endswith(_KEY_ENDINGS) and value
    )
    parts = [", ".join(sorted(settings)) + f" (from {path})"] if settings else []
    parts += [", ".join(name for name in own if name not in settings) + " (from the environment)"]
    named = [part for part in parts if not part.startswith(" ")]
    if named:
        return "keys: " + "; ".join(named)
    return "keys: none; --env FILE gives some, where models need any"


def status(arguments: argparse.Namespace) -> int:
    folder = folder_of(arguments.cluster)
    address, workers = asyncio.run(workers_of(folder))
    if arguments.json:
        out_json({"scheduler": address, "workers": [_as_json(worker) for worker in workers]})
        return DONE
    hosts = len({worker.host for worker in workers})
    ours = [worker for worker in workers if worker.ours]
    out(f"scheduler at {address}: {_count(len(ours), 'worker')} on {_count(hosts, 'host')}")
    if workers:
        out(
            table(
                ("host", "worker", "crosswind", ""),
                [_row(worker) for worker in workers],
                right=_NONE,
            )
        )
    else:
        out(f"start some: crosswind cluster worker --cluster {folder.path}")
    return DONE


_NONE: Final[frozenset[int]] = frozenset()


def _row(worker: WorkerStatus) -> tuple[str, str, str, str]:
    here = version("crosswind")
    if not worker.ours:
        note = "not ours: gets no calls"
    elif worker.version != here:
        note = f"gets no calls: this is crosswind {here}"
    else:
        note = ""
    return worker.host, worker.name, worker.version or "-", note


def _as_json(worker: WorkerStatus) -> dict[str, object]:
    return {
        "host": worker.host,
        "name": worker.name,
        "address": worker.address,
        "version": worker.version,
        "ours": worker.ours,
        "usable": worker.ours and worker.version == version("crosswind"),
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "init": init,
    "scheduler": scheduler,
    "worker": worker,
    "status": status,
}
