"""Lists a cluster's workers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from distributed import Client

from engine.cluster.certificates import security_from
from engine.cluster.folder import ClusterFolder, scheduler_address
from engine.cluster.scheduler_identity import CONNECT_S, scheduler_identity
from engine.cluster.worker import OURS


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    host: str
    name: str
    address: str
    version: str | None
    """Its version of Crosswind; None where it has none, or does not answer."""
    ours: bool
    """Whether `crosswind cluster worker` started it, so that it is given calls."""


async def workers_of(folder: ClusterFolder) -> tuple[str, list[WorkerStatus]]:
    """The scheduler's address, and its workers by host and name. Raises `ClusterError`."""
    # the key first: what is wrong with it is wrong whether a scheduler runs or not
    security, address = security_from(folder.pem), scheduler_address(folder)
    identity = await scheduler_identity(folder, address, security)
    async with Client(
        address,
        security=security,
        asynchronous=True,
        timeout=CONNECT_S,
        direct_to_workers=False,  # perhaps only the scheduler can be reached from here
        set_as_default=False,
    ) as client:
        versions = await client.run(metadata.version, "crosswind", on_error="return")
    statuses = [
        WorkerStatus(
            host=str(worker["host"]),
            name=str(worker["name"]),
            address=where,
            version=program if isinstance(program := versions.get(where), str) else None,
            ours=OURS in worker["resources"],
        )
        for where, worker in identity["workers"].items()
    ]
    return address, sorted(statuses, key=lambda status: (status.host, status.name))
