"""A scheduler that has gone is known at once, as the next one has another address."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Scheduler, Security, Worker

from engine.cluster import dask_agents
from engine.cluster.dask_agents import DaskSource
from engine.cluster.pool import AgentHandle
from engine.errors import InputError
from tests.waiting import PATIENCE_S

FOREVER_S = 3600
NO_PAGES = "127.0.0.1:0"


async def scheduler_here(security: Security) -> Scheduler:
    scheduler: Scheduler = await Scheduler(
        security=security,
        protocol="tls://",
        host="127.0.0.1",
        port=0,
        dashboard=False,
        dashboard_address=NO_PAGES,
    )
    return scheduler


def test_another_scheduler_is_looked_for_as_soon_as_one_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long Dask would look for the one that it knows."""
    monkeypatch.setattr(dask_agents, "CONNECT_S", FOREVER_S)
    monkeypatch.setattr(dask_agents, "LOOK_S", 0.01)
    monkeypatch.setattr(dask_agents, "AGAIN_S", 0.01)

    async def work() -> None:
        security = Security.temporary()
        schedulers: list[Scheduler] = []
        connected = asyncio.Queue[int]()

        async def connect() -> Client:
            schedulers.append(await scheduler_here(security))
            client: Client = await Client(
                schedulers[-1].address,
                security=security,
                asynchronous=True,
                set_as_default=False,
                timeout=FOREVER_S,
            )
            connected.put_nowait(len(schedulers))
            return client

        async def arriving(source: DaskSource) -> None:
            async for _ in source.arriving():
                pass

        source = DaskSource(connect, "nothing can be done")
        looking = asyncio.create_task(arriving(source))
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await connected.get() == 1
                await schedulers[0].close()
                assert await connected.get() == 2
        finally:
            looking.cancel()
            await source.close()
            for scheduler in schedulers:
                await scheduler.close()

    asyncio.run(work())


def test_a_worker_is_offered_once_though_its_earlier_agent_closes_late(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dask_agents, "LOOK_S", 0.01)
    monkeypatch.setattr(dask_agents, "AGAIN_S", 0.01)
    looks, gone = asyncio.Semaphore(0), asyncio.Event()
    workers_of = dask_agents._workers_of

    async def looked_at(client: Client) -> dict[str, Any]:
        found = await workers_of(client)
        if gone.is_set():
            gone.clear()
            raise ConnectionError("it has gone")
        looks.release()
        return found

    monkeypatch.setattr(dask_agents, "_workers_of", looked_at)

    async def work() -> None:
        security = Security.temporary()
        scheduler = await scheduler_here(security)

        async def connect() -> Client:
            client: Client = await Client(
                scheduler.address, security=security, asynchronous=True, set_as_default=False
            )
            return client

        source = DaskSource(connect, "nothing can be done")
        offered = asyncio.Queue[AgentHandle]()

        async def arriving() -> None:
            async for agent in source.arriving():
                offered.put_nowait(agent)

        looking = asyncio.create_task(arriving())
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                Worker(
                    scheduler.address,
                    security=security,
                    host="127.0.0.1",
                    protocol="tls://",
                    nthreads=1,
                    memory_limit=0,
                    local_directory=str(tmp_path),
                    dashboard=False,
                    dashboard_address=NO_PAGES,
                ),
            ):
                earlier = await offered.get()
                gone.set()
                await offered.get()
                await earlier.close()
                while not looks.locked():
                    await looks.acquire()
                await looks.acquire()  # one may have begun before it closed
                await looks.acquire()
                assert offered.empty()
        finally:
            looking.cancel()
            await source.close()
            await scheduler.close()

    asyncio.run(work())


async def test_a_scheduler_is_refused_with_another_certificate_or_with_none_configured() -> None:
    scheduler = await scheduler_here(Security.temporary())
    try:
        with pytest.raises(InputError, match="has another certificate than Dask's configuration"):
            await dask_agents._client(scheduler.address, Security.temporary())
    finally:
        await scheduler.close()
    with pytest.raises(InputError, match="names no certificates here"):
        dask_agents._dask_security(scheduler.address)
