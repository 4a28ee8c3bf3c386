"""Agents on the workers of a Dask cluster. The only module that uses Dask's client for them."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import dask
from distributed import Client, Scheduler, Security

from engine.cluster.agent import AgentActor
from engine.cluster.certificates import certificate_of_this_run, security_from, security_of
from engine.cluster.folder import ClusterFolder, scheduler_address, scheduler_exposures
from engine.cluster.local_processes import Joining, LocalProcesses
from engine.cluster.pool import AgentHandle, AgentLostError
from engine.cluster.scheduler import QUIET, scheduler_here
from engine.cluster.scheduler_identity import scheduler_identity
from engine.errors import CrosswindError
from engine.trust import Trust

LOOK_S: Final = 0.5
"""The interval between looks for new workers."""
CONNECT_S: Final = 10.0
AGAIN_S: Final = 1.0
RESOURCE: Final = "crosswind"
"""The Dask resource of workers started for agents; a shared cluster's others are ignored."""
_LOGGERS: Final = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@dataclass(eq=False)
class DaskAgent:
    """An `AgentHandle`: an actor on one worker, created by the greeting."""

    client: Client
    address: str
    name: str
    on_closed: Callable[[DaskAgent], None]
    _future: Any = None
    _actor: Any = None

    async def hello(self, greeting: bytes) -> bytes:
        # others can see the actor's key, so it says nothing
        key = f"crosswind-agent-{uuid.uuid4().hex[:12]}"
        self._future = self.client.submit(
            AgentActor,
            actor=True,
            key=key,
            pure=False,
            workers=[self.address],
            allow_other_workers=False,
        )
        try:
            self._actor = await self._future
        except OSError as error:
            raise AgentLostError(str(error)) from None
        except ImportError as error:
            why = f"Crosswind cannot be imported there: {error}; install it, the same version"
            raise CrosswindError(why) from None
        answer: bytes = await self._answer("hello", greeting)
        return answer

    async def submit(self, batch: bytes) -> None:
        await self._answer("submit", batch)

    async def events(self, wait_s: float) -> bytes:
        answer: bytes = await self._answer("events", wait_s)
        return answer

    async def close(self) -> None:
        try:
            if self._actor is not None:
                await self._answer("close")
        finally:
            if self._future is not None:
                self._future.release()
            self.on_closed(self)

    async def _answer(self, method: str, *given: object) -> Any:
        """Call the actor. Raises `AgentLostError`. Cancelling does not affect the worker."""
        try:
            # the actor finds its client through the current one, because no client is the default
            with self.client.as_current():
                answer = getattr(self._actor, method)(*given)
            return await answer
        except CrosswindError:
            raise
        # any error on the way or in the worker is raised here with its original class
        except Exception as error:  # noqa: BLE001
            raise AgentLostError(f"{type(error).__name__}: {error}"[:200]) from None


@dataclass(eq=False)
class DaskSource:
    """An `AgentSource`: the workers of the scheduler that `connect` finds; if that scheduler goes,
    those of the next one."""

    connect: Callable[[], Awaitable[Client]]
    hint: str
    """What a person can do if there is no worker."""
    root: str | None = None
    processes: LocalProcesses | None = None
    """Local worker processes of this run, all of which are for agents; None for a cluster."""
    scheduler: Scheduler | None = None
    """The scheduler, where it runs in this process."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a worker has arrived; otherwise workers are polled every `LOOK_S`."""
    _client: Client | None = None
    _held: set[DaskAgent] = field(default_factory=set)
    """Agents, not addresses: one that closes late must not free its successor's address."""
    _why: str = ""

    @property
    def advice(self) -> str:
        return f"{self._why}; {self.hint}" if self._why else self.hint

    async def arriving(self) -> AsyncIterator[AgentHandle]:
        while True:
            try:
                self._client = client = await self.connect()
                self._why = ""
                async for agent in self._workers(client):
                    yield agent
            except (OSError, CrosswindError, TimeoutError) as error:
                self._why = _error_text(error)
            await self._release()
            await asyncio.sleep(AGAIN_S)

    async def _workers(self, client: Client) -> AsyncIterator[AgentHandle]:
        """Yield new workers. Raises `OSError` when the scheduler has gone."""
        while True:
            workers = await _workers_of(client)
            self._held -= {agent for agent in self._held if agent.address not in workers}
            for address in self._new_workers(workers):
                name = str(workers[address].get("name", address))
                agent = DaskAgent(client, address, name, self._held.discard)
                self._held.add(agent)
                yield agent
            if self.processes is not None:
                self.processes.revive()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.came.wait()
            self.came.clear()

    def _new_workers(self, workers: dict[str, Any]) -> Collection[str]:
        mine = [
            address
            for address, worker in workers.items()
            if self.processes is not None or RESOURCE in worker.get("resources", {})
        ]
        used = {agent.address for agent in self._held}
        return [address for address in mine if address not in used]

    async def _release(self) -> None:
        client, self._client = self._client, None
        self._held.clear()
        if client is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    closing: Any = client.close()
                    await closing

    async def close(self) -> None:
        await self._release()
        if self.processes is not None:
            await asyncio.to_thread(self.processes.close)
        if self.scheduler is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await self.scheduler.close()


def agents_here(processes: LocalProcesses, root: Path, log: Path) -> DaskSource:
    """Agents in local worker processes, with a scheduler in this process."""
    source: DaskSource
    pem = certificate_of_this_run()
    security = security_of(pem)

    async def connect() -> Client:
        if source.scheduler is None:
            source.scheduler = await scheduler_here(security, source.came.set)
            processes.join(Joining(source.scheduler.address, pem))
        return await _client(source.scheduler.address, security, direct=True)

    _be_quiet(log)
    hint = "the worker processes of this run are being started"
    source = DaskSource(connect, hint, str(root.absolute()), processes)
    return source


def agents_of_cluster(folder: ClusterFolder, root: Path, log: Path) -> DaskSource:
    """Agents on workers that others started, for the workspace at `root`. Raises `ClusterError` for
    an unusable key; a missing scheduler is waited for."""
    security = security_from(folder.pem)

    async def connect() -> Client:
        # read each time: a restarted scheduler has another address
        Trust(root).require(scheduler_exposures(root, folder.path))
        address = scheduler_address(folder)
        scheduler = await scheduler_identity(folder, address, security)
        # behind a tunnel, where its own address differs, only the scheduler can be reached
        return await _client(address, security, direct=scheduler["address"] == address)

    _be_quiet(log)
    hint = f"start some with `crosswind cluster worker --cluster {folder.path}`"
    return DaskSource(connect, hint)


async def _workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler tells of each worker, by address. Raises `OSError` as soon as the
    client knows that the scheduler has gone: it would look for it under the same address for
    `CONNECT_S`, and a new one has another."""
    scheduler: Any = client.scheduler
    asked = asyncio.ensure_future(scheduler.identity(n_workers=-1))
    try:
        async with asyncio.timeout(CONNECT_S):
            while not asked.done():
                if client.status != "running":
                    raise ConnectionError("it has gone")
                await asyncio.wait({asked}, timeout=LOOK_S)
        workers: dict[str, Any] = asked.result()["workers"]
        return workers
    finally:
        asked.cancel()


async def _client(address: str, security: Security, *, direct: bool) -> Client:
    """Connect; `direct` says whether the workers can be reached too, or only the scheduler."""
    client: Client = await Client(
        address,
        security=security,
        asynchronous=True,
        direct_to_workers=direct,
        set_as_default=False,
        timeout=CONNECT_S,
        name="crosswind",
    )
    return client


def _be_quiet(log: Path) -> None:
    """Send Dask's messages to the engine's log: a terminal may be showing the app."""
    dask.config.set(QUIET)
    handler = logging.FileHandler(log, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)


def _error_text(error: BaseException) -> str:
    if isinstance(error, CrosswindError):
        return str(error)
    return f"its scheduler cannot be reached ({str(error)[:200] or type(error).__name__})"
