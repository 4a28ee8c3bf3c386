"""Time that passes when it is slept, and models that talk to a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from engine.providers.accounts import Accounts, Clock
from engine.providers.endpoint import Endpoint, RequestParams
from engine.providers.model import Attempt, Message, MessageRole, Reply
from engine.providers.protocols.base import PromptCache
from engine.providers.real import RealModel, real_model
from engine.providers.retry import RetryPolicy
from tests.protocol_server.server import ProtocolServer

T = TypeVar("T")

CANARY = "sk-canary-0123456789abcdefXYZ"


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

    def as_clock(self) -> Clock:
        return Clock(monotonic=self.clock, now=self.now, sleep=self.sleep, random=lambda: 0.5)


@dataclass
class Call:
    """One call and all that was told of it."""

    reply: Reply | None = None
    error: Exception | None = None
    attempts: list[Attempt] = field(default_factory=list)
    heard: list[str | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def outcomes(self) -> list[str]:
        return [attempt.outcome for attempt in self.attempts]


@dataclass
class Bench:
    """Calls real models of the server, with time under control."""

    server: ProtocolServer
    time: FakeTime = field(default_factory=FakeTime)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    key: str = CANARY
    headers: Mapping[str, str] = field(default_factory=dict)
    model: str = "words-20"
    source: str = "openai"
    params: RequestParams = field(default_factory=RequestParams)
    cache: PromptCache | None = None
    notes: list[str] = field(default_factory=list)

    def accounts(self) -> Accounts:
        return Accounts(clock=self.time.as_clock(), retry_policy=self.retry_policy)

    def open(self, accounts: Accounts, **changes: Any) -> RealModel:
        bench = replace(self, **changes)
        url = bench.server.anthropic_url
        spec = Endpoint(
            model=bench.model,
            source=bench.source,
            base_url=url if bench.source == "anthropic" else bench.server.openai_url,
            key=lambda: bench.key,
            headers=lambda: bench.headers,
            params=bench.params,
        )
        return real_model(
            spec, accounts, label="target x", cache=bench.cache, on_note=self.notes.append
        )

    def call(self, **asked: Any) -> Call:
        """One call in an event loop of its own."""
        return self.calls(1, **asked)[0]

    def calls(self, count: int, **asked: Any) -> list[Call]:
        """Calls one after the other, with the same accounts."""

        async def run(accounts: Accounts, _model: RealModel) -> list[Call]:
            return [await call(self.open(accounts), **asked) for _ in range(count)]

        return self.play(run)

    def play(self, script: Callable[[Accounts, RealModel], Coroutine[Any, Any, T]]) -> T:
        """What a script does with accounts of its own and a model of theirs."""

        async def run() -> T:
            accounts = self.accounts()
            try:
                return await script(accounts, self.open(accounts))
            finally:
                await accounts.close()

        return asyncio.run(run())


async def call(model: RealModel, *said: Message, **asked: Any) -> Call:
    """Keep whatever comes of a call."""
    done = Call()
    messages = said or (
        Message(MessageRole.SYSTEM, "Be kind."),
        Message(MessageRole.USER, "Hello there"),
    )
    try:
        done.reply = await model.telling(done.attempts.append).reply(
            asked.pop("messages", messages), on_text=done.heard.append, **asked
        )
    except Exception as error:  # noqa: BLE001  (kept for the test to look at)
        done.error = error
    return done


@pytest.fixture(params=["openai", "anthropic"])
def bench(request: pytest.FixtureRequest, server: ProtocolServer) -> Bench:
    """Over both protocols, one after the other."""
    return Bench(server, source=request.param)


@pytest.fixture
def openai_bench(server: ProtocolServer) -> Bench:
    return Bench(server)


@pytest.fixture
def anthropic_bench(server: ProtocolServer) -> Bench:
    return Bench(server, source="anthropic")


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def make_call() -> Callable[..., Any]:
    return call
