"""A server that takes so many calls at once and no more, on the wire."""

from __future__ import annotations

import asyncio
import time

import pytest

from engine.providers.accounts import Accounts
from engine.providers.endpoint import endpoint
from engine.providers.model import Message, Model, Speaks
from engine.providers.real import real_model
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings


@pytest.mark.alone
@pytest.mark.parametrize(("cap", "latency_ms"), [(8, 100.0), (40, 250.0), (150, 400.0)])
def test_throughput_settles_near_the_cap_with_few_refusals(cap: int, latency_ms: float) -> None:
    """Beside what as many callers as the cap get, in the same run: a busy machine slows both."""
    settings = Settings(latency_ms=latency_ms, chunks=2, keep_requests=False)
    seconds = max(1.5, 6 * latency_ms / 1000)
    with ProtocolServer(settings) as server:
        best = asyncio.run(answered_per_second(server, workers=cap, seconds=seconds))
        server.reset()
        server.settings = Settings(cap=cap, latency_ms=latency_ms, chunks=2, keep_requests=False)
        settled = asyncio.run(answered_per_second(server, workers=2 * cap, seconds=seconds))
        counters = server.counters
    assert settled >= 0.75 * best
    assert counters.refusals <= counters.successes


async def answered_per_second(server: ProtocolServer, *, workers: int, seconds: float) -> float:
    """Once the limit has been found, which takes a few rounds of calls."""
    accounts = Accounts()
    try:
        where = endpoint(model="words-2", source="openai", base_url=server.openai_url)
        model = real_model(where, accounts)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(call_and_call(model, stop))
            await server.until(lambda seen: seen.successes >= 3 * workers)
            began, before = time.monotonic(), server.counters.successes
            await asyncio.sleep(seconds)
            took, after = time.monotonic() - began, server.counters.successes
            stop.set()
        return (after - before) / took
    finally:
        await accounts.close()


async def call_and_call(model: Model, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await model.reply([Message(Speaks.USER, "hello")])
