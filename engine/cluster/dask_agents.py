"""Agents on the workers of a Dask cluster. The only module that uses Dask."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import dask
from distributed import Client, LocalCluster, Security
from distributed.comm.core import FatalCommClosedError

from engine.cluster.agent import AgentActor
from engine.cluster.pool import AgentHandle, AgentLostError
from engine.config.values import checked_address, is_address
from engine.errors import CrosswindError, InputError, Problem
from engine.files import open_regular
from engine.trust import Permission, Trust

LOOK_S: Final = 0.5
"""The interval between looks for new workers."""
CONNECT_S: Final = 10.0
AGAIN_S: Final = 1.0
_MOST_BYTES: Final = 16 << 20
"""Scheduler files of Dask list every worker."""
_LOGGERS: Final = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")
_QUIET: Final = {
    # profiling of workers and monitoring of their loops are costly, and nobody uses them
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.retry.count": 0,
    # Dask always opens a port for web pages: it gets one on the loopback interface, and no pages
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_PAGES: Final = "127.0.0.1:0"


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
    cluster: LocalCluster | None = None
    """The workers of this run, where it started any."""
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
            # a RuntimeError is Dask's wrapping of what its processes could not do
            except (OSError, RuntimeError, CrosswindError, TimeoutError) as error:
                self._why = _error_text(error)
            await self._release()
            await asyncio.sleep(AGAIN_S)

    async def _workers(self, client: Client) -> AsyncIterator[AgentHandle]:
        """Yield new workers. Raises `OSError` when the scheduler has gone."""
        while True:
            workers = await _workers_of(client)
            self._held -= {agent for agent in self._held if agent.address not in workers}
            for address in workers.keys() - {agent.address for agent in self._held}:
                name = str(workers[address].get("name", address))
                agent = DaskAgent(client, address, name, self._held.discard)
                self._held.add(agent)
                yield agent
            await asyncio.sleep(LOOK_S)

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
        if self.cluster is not None:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    closing: Any = self.cluster.close()
                    await closing


def agents_here(number: int, root: Path, log: Path) -> DaskSource:
    """Agents in so many processes of this machine, over TLS with a key that is in no file."""

    async def connect() -> Client:
        if source.cluster is None:
            source.cluster = await _local_cluster(number)
        cluster = source.cluster
        return await _client(cluster.scheduler_address, cluster.security)

    _be_quiet(log)
    hint = "the worker processes of this run are being started"
    source = DaskSource(connect, hint, str(root.absolute()))
    return source


async def _local_cluster(number: int) -> LocalCluster:
    starting: Any = LocalCluster(
        n_workers=number,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://",
        security=Security.temporary(),
        memory_limit=0,  # calls need little memory; other use of the machine is not its concern
        dashboard_address=_PAGES,
        worker_dashboard_address=_PAGES,
        silence_logs=logging.CRITICAL,
        preload=["engine.cluster.agent"],
        config=_QUIET,
        asynchronous=True,
    )
    cluster: LocalCluster = await starting
    return cluster


def agents_of_cluster(scheduler: str, root: Path, log: Path) -> DaskSource:
    """Agents on workers that others started. A missing scheduler is waited for."""

    async def connect() -> Client:
        Trust(root).require([Permission(scheduler, "")])
        # read each time: a restarted scheduler has another address
        address = scheduler if is_address(scheduler) else scheduler_address(root / scheduler)
        return await _client(address, _dask_security(address))

    _be_quiet(log)
    return DaskSource(connect, "start some with `dask worker` where Crosswind is installed")


def scheduler_address(path: Path) -> str:
    """The address in Dask's scheduler file. Raises `InputError`."""
    try:
        with open_regular(path) as file:
            content = json.loads(file.read(_MOST_BYTES))
    except FileNotFoundError as error:
        what = "there is no scheduler file: no scheduler runs for this cluster"
        hint = f"start `dask scheduler --scheduler-file {path}`"
        raise InputError(Problem(what, path=path, hint=hint)) from error
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path=path)) from error
    except (ValueError, RecursionError):
        content = None
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str):
        what = 'holds no address, expected JSON with "address": "tls://HOST:PORT"'
        raise InputError(Problem(what, path=path, hint="start the scheduler again; it writes it"))
    try:
        return checked_address(address)
    except ValueError as error:
        raise InputError(Problem(str(error), path=path)) from error


def _dask_security(address: str) -> Security:
    """TLS as in Dask's own configuration. Raises `InputError` where the address needs what that
    does not name."""
    security: Any = Security()
    if address.startswith("tls:") and security.tls_ca_file is None:
        what = f"{address} uses TLS, and Dask's configuration names no certificates here"
        hint = "set `distributed.comm.tls` as for the scheduler, in ~/.config/dask/ or as variables"
        raise InputError(Problem(what, hint=hint))
    checked: Security = security
    return checked


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


async def _client(address: str, security: Security) -> Client:
    """Connect. Raises `OSError`, and `InputError` where the scheduler has another key."""
    try:
        client: Client = await Client(
            address,
            security=security,
            asynchronous=True,
            direct_to_workers=False,
            set_as_default=False,
            timeout=CONNECT_S,
            name="crosswind",
        )
    except FatalCommClosedError as error:
        what = f"whoever answers at {address} has another certificate than Dask's configuration"
        raise InputError(Problem(what)) from error
    # behind a tunnel, where its own address differs, only the scheduler can be reached
    client.direct_to_workers = client.scheduler_info()["address"] == address
    return client


def _be_quiet(log: Path) -> None:
    """Send Dask's messages to the engine's log: a terminal may be showing the app."""
    dask.config.set(_QUIET)
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
