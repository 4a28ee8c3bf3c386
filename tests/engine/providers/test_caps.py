"""A server that takes so many calls at once and no more, on the wire."""

from __future__ import annotations

import asyncio
import time

import pytest

from engine.providers.accounts import Accounts
from engine.providers.endpoint import endpoint
from engine.providers.model import Message, Speaks
from engine.providers.real import real_model
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

SECONDS = 2.0


@pytest.mark.parametrize(("cap", "latency_ms"), [(8, 100.0), (40, 250.0), (150, 600.0)])
def test_throughput_settles_near_the_cap_with_few_refusals(cap: int, latency_ms: float) -> None:
    """Each call takes `latency_ms`, so what the server can answer is known: cap / latency."""
    settings = Settings(cap=cap, latency_ms=latency_ms, chunks=2, keep_requests=False)
    with ProtocolServer(settings) as server:
        answered = asyncio.run(load(server, workers=2 * cap))
        counters = server.counters
    ideal = cap / (latency_ms / 1000) * SECONDS
    assert answered >= 0.75 * ideal
    assert counters.refusals <= counters.successes


async def load(server: ProtocolServer, *, workers: int) -> int:
    """How many calls were answered in `SECONDS`, once the limit had been found."""
    accounts = Accounts()
    try:
        where = endpoint(model="words-2", source="openai", base_url=server.openai_url)
        model = real_model(where, accounts)
        stop = asyncio.Event()

        async def call_and_call() -> None:
            while not stop.is_set():
                await model.reply([Message(Speaks.USER, "hello")])

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(call_and_call())
            # the limit is found within a few rounds of calls
            await server.until(lambda seen: seen.successes >= 3 * workers)
            began, before = time.monotonic(), server.counters.successes
            await asyncio.sleep(SECONDS)
            took, after = time.monotonic() - began, server.counters.successes
            stop.set()
        return round((after - before) * SECONDS / took)
    finally:
        await accounts.close()
