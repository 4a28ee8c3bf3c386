"""Asks a scheduler who it is and which workers it has, before anything else is begun."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from distributed import Security
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.core import CommClosedError, FatalCommClosedError, connect

from engine.cluster.folder import ClusterError, ClusterFolder, SchedulerGoneError
from engine.errors import Problem

CONNECT_S: Final = 5.0


async def scheduler_identity(
    folder: ClusterFolder, address: str, security: Security, *, timeout_s: float = CONNECT_S
) -> Mapping[str, Any]:
    """What Dask's scheduler says about itself, with `workers` by address. Raises
    `SchedulerGoneError`, and `ClusterError` if a scheduler with another key answers."""
    try:
        await _require_listener(address, timeout_s)
        comm = await connect(address, timeout_s, **security.get_connection_args("client"))
        try:
            await comm.write({"op": "identity", "reply": True, "n_workers": -1})
            answer: Mapping[str, Any] = await comm.read()
        finally:
            comm.abort()
    except FatalCommClosedError as error:
        raise ClusterError(
            Problem(
                f"whoever answers at {address} has another key than {folder.pem}",
                path=folder.scheduler_file,
                hint="all of a cluster need the folder that its scheduler was started with",
            )
        ) from error
    except (OSError, TimeoutError, CommClosedError) as error:
        raise SchedulerGoneError(
            Problem(
                f"no scheduler answers at {address}",
                path=folder.scheduler_file,
                hint="start it again: `crosswind cluster scheduler --cluster "
                f"{folder.path}`; if it runs, see that its machine and port can be reached",
            )
        ) from error
    return answer


async def _require_listener(address: str, timeout_s: float) -> None:
    """Raise `OSError` if nobody listens there. Dask would try again for all of `timeout_s`, and a
    new scheduler has another address."""
    host, port = parse_host_port(parse_address(address)[1])
    async with asyncio.timeout(timeout_s):
        _, writer = await asyncio.open_connection(host, port)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
