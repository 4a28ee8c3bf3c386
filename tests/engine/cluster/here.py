"""Agents in this process that can be lost at will, and runs whose calls they make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from engine.cluster.agent import Agent
from engine.cluster.pool import AgentHandle, AgentLostError, AgentPool, AgentTimes
from engine.cluster.wire import AgentHello, decoded, encoded
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.models import GivenValues
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.accounts import Clock
from engine.store.database import open_store
from tests.engine.wire.workplace import Workplace
from tests.pipelines import run_once
from tests.waiting import PATIENCE_S

PATIENT: Final = AgentTimes(silent=60, lease=60, grace=0.05)
"""Nobody is lost for being slow, as on a busy machine."""
T = TypeVar("T")


@dataclass
class HereAgent:
    """A handle of an agent on this loop."""

    name: str
    says: dict[str, Any] = field(default_factory=dict)
    """What it says of itself in place of the truth."""
    agent: Agent = field(default_factory=Agent)
    gone: bool = False
    silent: bool = False
    """What is asked of it is never answered, though it goes on."""
    most: int = 0
    """Calls that it had in hand at once."""
    crossed: bytearray = field(default_factory=bytearray)
    """All that was said to it and by it."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def hello(self, greeting: bytes) -> bytes:
        raw = await self._reached(self.agent.hello(greeting))
        return encoded(replace(decoded(raw, AgentHello), **self.says))

    async def submit(self, batch: bytes) -> None:
        self.crossed += batch
        await self._reached(self.agent.submit(batch))
        self.most = max(self.most, len(self.agent._tasks))

    async def events(self, wait_s: float) -> bytes:
        said = await self._reached(self.agent.events(wait_s))
        self.crossed += said
        return said

    async def close(self) -> None:
        if not self.silent:
            await self.agent.close()

    async def lose(self) -> None:
        """As a process that is killed: what it does ends, and nothing is heard of that."""
        self.gone = True
        self._ended.set()
        await self.agent.close()

    async def _reached(self, answer: Coroutine[Any, Any, T]) -> T:
        if self.gone:
            answer.close()
            raise AgentLostError("killed")
        asked, ended = asyncio.ensure_future(answer), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self.silent:
                await asyncio.Event().wait()
            if self.gone:
                raise AgentLostError("killed")
            return asked.result()
        finally:
            asked.cancel()
            ended.cancel()


class HereSource:
    """As `AgentSource`: those that are put into it."""

    root: str | None = None
    advice = "none is there"

    def __init__(self, *agents: HereAgent) -> None:
        self._arrived: asyncio.Queue[AgentHandle] = asyncio.Queue()
        for agent in agents:
            self.add(agent)

    def add(self, agent: HereAgent) -> None:
        self._arrived.put_nowait(agent)

    async def arriving(self) -> AsyncIterator[AgentHandle]:
        while True:
            yield await self._arrived.get()

    async def close(self) -> None:
        pass


@dataclass
class Scene:
    """A run and its agents."""

    source: HereSource
    pool: AgentPool
    pipeline: Pipeline
    notes: list[str]
    waiting: list[str | None]

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not met():  # noqa: ASYNC110  (what is looked at belongs to many)
                await asyncio.sleep(0.002)


def run_with(
    place: Workplace,
    *agents: HereAgent,
    meanwhile: Callable[[Scene], Awaitable[None]] | None = None,
    times: AgentTimes = PATIENT,
    given: GivenValues | None = None,
    environ: dict[str, str] | None = None,
    clock: Clock | None = None,
) -> tuple[RunResult, Scene]:
    """A run of the benchmark `bread`."""
    given = given or GivenValues()
    with open_store(place.root / "crosswind.db") as store:

        async def work() -> tuple[RunResult, Scene]:
            source = HereSource(*agents)
            notes: list[str] = []
            waiting: list[str | None] = []
            pool = AgentPool(
                source,
                given.values,
                times=times,
                on_note=notes.append,
                on_waiting=waiting.append,
            )
            pipeline = Pipeline(
                Workspace(place.root),
                load_config(place.root / "config.yaml"),
                store.reader,
                store,
                environ=environ or {},
                clock=clock,
                retry_policy=place.retry_policy,
                agents=pool,
                given=given,
            )
            scene = Scene(source, pool, pipeline, notes, waiting)
            pool.start()
            try:
                running = asyncio.create_task(run_once(pipeline, Order(("bread",))))
                if meanwhile is not None:
                    await meanwhile(scene)
                return await running, scene
            finally:
                await pool.close()
                for agent in agents:  # those that were let go of, too
                    await agent.agent.close()

        return asyncio.run(work())
