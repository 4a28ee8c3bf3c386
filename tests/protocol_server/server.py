"""A server on this machine that speaks the protocols of real providers, and fails on order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tests.protocol_server.batches import Batches
from tests.protocol_server.connection import Connections
from tests.protocol_server.faults import Detail, Fault, Match, Rule, When, always
from tests.protocol_server.request import Request
from tests.protocol_server.service import Counters, Service
from tests.protocol_server.settings import Settings
from tests.waiting import PATIENCE_S

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 2048

T = TypeVar("T")


class ProtocolServer:
    """Runs on a thread and an event loop of its own, from `start` to `close`.

    It is told what to do from any other thread, and asked what it has seen.
    """

    def __init__(self, settings: Settings | None = None, *, port: int = 0) -> None:
        self._service = Service(settings or Settings())
        self._service.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="protocol server", daemon=True)
        self._connections = Connections(self._service)
        self._listening: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        self._thread.start()
        try:
            self.accept()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """End everything at once; raise what went wrong in the server itself, if anything did."""
        if self._loop.is_closed():
            return
        self._on_loop(self._refuse(abort=True))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._connections.bugs:
            raise RuntimeError("the protocol server has a bug") from self._connections.bugs[0]

    @property
    def port(self) -> int:
        return self._service.port

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def openai_url(self) -> str:
        """The base URL for a client of the OpenAI protocol."""
        return f"{self.origin}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for a client of the Anthropic protocol."""
        return self.origin

    @property
    def batches(self) -> Batches:
        """What it has of batches, and how they go."""
        return self._connections.batches

    @property
    def settings(self) -> Settings:
        return self._service.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._service.settings = settings

    @property
    def requests(self) -> list[Request]:
        """Every request since the start or the last `reset`, in the order of arrival."""
        return self._service.requests()

    @property
    def calls(self) -> list[Request]:
        """Those of them that ask a model, which costs something."""
        return [request for request in self.requests if request.asks_a_model]

    @property
    def counters(self) -> Counters:
        return self._service.counters()

    def plan(
        self,
        fault: Fault,
        match: Match = None,
        when: When = always,
        detail: Detail | None = None,
    ) -> None:
        """Order a fault. Of several orders that fit a request, the earliest counts."""
        self._service.order(Rule(fault, match, when, detail or Detail()))

    def reset(self) -> None:
        """Forget orders, requests, counts and batches. Settings stay as they are."""
        self._connections.batches = Batches()
        self._service.reset()

    def hold(self, after: int) -> None:
        """After so many requests, models begin no answer until `release`: a run is sure not to be
        over before a test has looked at it."""
        self._loop.call_soon_threadsafe(self._service.released.clear)
        self._service.held_after = after

    def release(self) -> None:
        self._service.held_after = None
        self._loop.call_soon_threadsafe(self._service.released.set)

    def refuse(self, *, abort: bool = False) -> None:
        """Refuse connections from now on. Idle ones are closed, busy ones after their answer, or
        broken at once with `abort`."""
        self._on_loop(self._refuse(abort=abort))

    def accept(self) -> None:
        """Take connections again, on the same port."""
        self._on_loop(self._accept())

    def wait_until(
        self, true: Callable[[Counters], bool], timeout_seconds: float = PATIENCE_S
    ) -> Counters:
        """Block until the counts are such; TimeoutError says what they were."""
        with self._service.changed:
            came = self._service.changed.wait_for(
                lambda: true(self._service.counters()), timeout_seconds
            )
            counters = self._service.counters()
        if not came:
            raise TimeoutError(f"the server got no further than {counters}")
        return counters

    async def until(
        self, true: Callable[[Counters], bool], timeout_seconds: float = PATIENCE_S
    ) -> Counters:
        """As `wait_until`, for a test that has an event loop of its own to keep going."""
        return await asyncio.to_thread(self.wait_until, true, timeout_seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _accept(self) -> None:
        if self._listening is not None:
            return
        self._listening = await self._loop.create_server(
            self._connections.connect, HOST, self.port, backlog=_BACKLOG, reuse_address=True
        )
        self._service.port = self._listening.sockets[0].getsockname()[1]

    async def _refuse(self, *, abort: bool) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        if abort:
            await self._connections.abort()
        else:
            self._connections.close_idle()
