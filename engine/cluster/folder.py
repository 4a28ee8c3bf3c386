"""A cluster's folder: its key, and the file that says where its scheduler is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from engine.errors import InputError, Problem
from engine.files import open_regular, replace_file
from engine.trust import Exposure

_MOST_BYTES: Final = 16 << 20
"""Scheduler files of Dask list every worker."""


class ClusterError(InputError):
    """A cluster's file or certificate is unusable, or its scheduler cannot be reached."""


class SchedulerGoneError(ClusterError):
    """The scheduler file is missing, or nothing answers at its address."""


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    path: Path

    @property
    def pem(self) -> Path:
        """The key and its certificate, of which every process of the cluster has a copy."""
        return self.path / "cluster.pem"

    @property
    def scheduler_file(self) -> Path:
        """Written by Dask's scheduler when it starts, or once by hand where no disk is shared."""
        return self.path / "scheduler.json"


def folder_of(named: Path) -> ClusterFolder:
    """`named` is the folder or a file in it. Raises `ClusterError`."""
    if named.is_dir():
        return ClusterFolder(named)
    if named.is_file():
        return ClusterFolder(named.parent)
    raise ClusterError(
        Problem(
            "there is no such folder, expected that of a cluster",
            path=named,
            hint="`crosswind cluster init` makes one; copy it to machines that share no disk",
        )
    )


def scheduler_exposures(root: Path, cluster: Path) -> tuple[Exposure, ...]:
    """The scheduler that a folder inside of the workspace names; empty for a folder of a person's
    own. Raises `ClusterError`."""
    if not cluster.resolve().is_relative_to(root.resolve()):
        return ()
    try:
        return (Exposure(scheduler_address(folder_of(cluster)), ""),)
    except SchedulerGoneError:  # its address is checked when it is there
        return ()


def scheduler_address(folder: ClusterFolder) -> str:
    """The scheduler's address, such as `tls://10.0.0.7:8786`. A restarted scheduler writes another
    one, so read it for each connection. Raises `ClusterError`."""
    path = folder.scheduler_file
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(_MOST_BYTES))
    except FileNotFoundError as error:
        raise SchedulerGoneError(
            Problem(
                "there is no scheduler file: no scheduler runs for this cluster",
                path=path,
                hint=f"start `crosswind cluster scheduler --cluster {folder.path}`; where no disk "
                "is shared with it, `crosswind cluster init --address tls://HOST:8786` writes one",
            )
        ) from error
    except OSError as error:
        raise ClusterError(Problem(f"cannot be read: {error.strerror}", path=path)) from error
    except (ValueError, RecursionError) as error:
        raise ClusterError(_no_address(path)) from error
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        raise ClusterError(_no_address(path))
    return checked_address(address, path)


def _no_address(path: Path) -> Problem:
    return Problem(
        'holds no address, expected JSON with "address": "tls://HOST:PORT"',
        path=path,
        hint="start the scheduler again; it writes this file",
    )


def checked_address(address: str, path: Path | None = None) -> str:
    """Return the address. Raises `ClusterError` unless it is one of an encrypted scheduler."""
    parts = _split_address(address)
    if parts is not None and parts.scheme == "tcp":
        raise ClusterError(
            Problem(
                f"{address!r} is not encrypted: whoever reaches such a scheduler runs code as you",
                path=path,
                hint="expected tls://HOST:PORT, as `crosswind cluster scheduler` has it",
            )
        )
    if parts is None or parts.scheme != "tls" or not parts.hostname or not parts.port:
        raise ClusterError(Problem(f"{address[:80]!r} is no tls://HOST:PORT", path=path))
    return address


def _split_address(address: str) -> SplitResult | None:
    """Split an address; None where it is invalid, as with a port out of range."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts


def make_folder(path: Path) -> ClusterFolder:
    """Create the folder if missing, accessible to this user only. Raises `ClusterError`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(Problem(f"cannot be made: {error.strerror}", path=path)) from error
    return ClusterFolder(path)


def write_address(folder: ClusterFolder, address: str) -> None:
    """Write the scheduler file, replacing an existing one. Raises `ClusterError`."""
    content = json.dumps({"address": checked_address(address)}) + "\n"
    try:
        replace_file(folder.scheduler_file, content.encode(), mode=0o600)
    except OSError as error:
        raise ClusterError(
            Problem(f"cannot be written: {error.strerror}", path=folder.scheduler_file)
        ) from error
