"""Agents on the workers of a Dask cluster. All that this program knows of Dask's client is here."""

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
from engine.cluster.folder import ClusterFolder, scheduler_address
from engine.cluster.local_processes import Joining, LocalProcesses
from engine.cluster.pool import AgentHandle, AgentLostError
from engine.cluster.reaching import scheduler_identity
from engine.cluster.scheduler import QUIET, scheduler_here
from engine.errors import CrosswindError

LOOK_S: Final = 0.5
"""Between two looks at which workers there are."""
CONNECT_S: Final = 10.0
AGAIN_S: Final = 1.0
RESOURCE: Final = "crosswind"
"""What workers have that were started for agents; others of a shared cluster are left alone."""
_LOGGERS: Final = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@dataclass(eq=False)
class DaskAgent:
    """As `AgentHandle`: an actor on one worker, made when it is greeted."""

    client: Client
    address: str
    name: str
    on_closed: Callable[[str], None]
    _future: Any = None
    _actor: Any = None

    async def hello(self, greeting: bytes) -> bytes:
        # its key is what anybody sees of it; it is given nothing
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
        said: bytes = await self._answer("hello", greeting)
        return said

    async def submit(self, batch: bytes) -> None:
        await self._answer("submit", batch)

    async def events(self, wait_s: float) -> bytes:
        said: bytes = await self._answer("events", wait_s)
        return said

    async def close(self) -> None:
        try:
            if self._actor is not None:
                await self._answer("close")
        finally:
            if self._future is not None:
                self._future.release()
            self.on_closed(self.address)

    async def _answer(self, method: str, *given: object) -> Any:
        """Raises `AgentLostError`. To be cancelled while it waits does nothing to the worker."""
        try:
            # it finds out by this whose actor it is, as no client is everybody's
            with self.client.as_current():
                answer = getattr(self._actor, method)(*given)
            return await answer
        except CrosswindError:
            raise
        # whatever went wrong on the way or there comes up here, as the class that it had there
        except Exception as error:  # noqa: BLE001
            raise AgentLostError(f"{type(error).__name__}: {error}"[:200]) from None


@dataclass(eq=False)
class DaskSource:
    """As `AgentSource`: workers of whatever scheduler `connect` finds, for as long as it lasts, and
    then of the next one."""

    connect: Callable[[], Awaitable[Client]]
    hint: str
    """What a person can do where there is no worker."""
    root: str | None = None
    processes: LocalProcesses | None = None
    """Its workers, where they are of this machine and this run: all of them are for agents then."""
    scheduler: Scheduler | None = None
    """Where it is in this process."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where a worker is known to have come, which is looked for from time to time else."""
    _client: Client | None = None
    _held: set[str] = field(default_factory=set)
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
                self._why = _plain(error)
            await self._let_go()
            await asyncio.sleep(AGAIN_S)

    async def _workers(self, client: Client) -> AsyncIterator[AgentHandle]:
        """Raises `OSError` where its scheduler is gone."""
        while True:
            async with asyncio.timeout(CONNECT_S):
                scheduler: Any = client.scheduler
                found = await scheduler.identity(n_workers=-1)
            workers: dict[str, Any] = found["workers"]
            self._held.intersection_update(workers)
            for address in self._new(workers):
                self._held.add(address)
                name = str(workers[address].get("name", address))
                yield DaskAgent(client, address, name, self._held.discard)
            if self.processes is not None:
                self.processes.revive()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.came.wait()
            self.came.clear()

    def _new(self, workers: dict[str, Any]) -> Collection[str]:
        mine = [
            address
            for address, one in workers.items()
            if self.processes is not None or RESOURCE in one.get("resources", {})
        ]
        return [address for address in mine if address not in self._held]

    async def _let_go(self) -> None:
        client, self._client = self._client, None
        self._held.clear()
        if client is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    closing: Any = client.close()
                    await closing

    async def close(self) -> None:
        await self._let_go()
        if self.processes is not None:
            await asyncio.to_thread(self.processes.close)
        if self.scheduler is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await self.scheduler.close()


def agents_here(processes: LocalProcesses, root: Path, log: Path) -> DaskSource:
    """Worker processes of this machine and this process, with which they end."""
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


def agents_of_cluster(folder: ClusterFolder, log: Path) -> DaskSource:
    """Workers that others started. Raises `ClusterError` for a key that cannot be used; that there
    is no scheduler yet is waited for."""
    security = security_from(folder.pem)

    async def connect() -> Client:
        # read anew: a scheduler that was started again is elsewhere
        address = scheduler_address(folder)
        scheduler = await scheduler_identity(folder, address, security)
        # reached by another address than its own, as through a tunnel, it is the only one that is
        return await _client(address, security, direct=scheduler["address"] == address)

    _be_quiet(log)
    hint = f"start some with `crosswind cluster worker --cluster {folder.path}`"
    return DaskSource(connect, hint)


async def _client(address: str, security: Security, *, direct: bool) -> Client:
    """`direct` says whether workers can be reached, or the scheduler alone."""
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
    """What Dask has to say goes into the engine's log: a terminal may be somebody's screen."""
    dask.config.set(QUIET)
    handler = logging.FileHandler(log, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING)


def _plain(error: BaseException) -> str:
    if isinstance(error, CrosswindError):
        return str(error)
    return f"its scheduler cannot be reached ({str(error)[:200] or type(error).__name__})"
