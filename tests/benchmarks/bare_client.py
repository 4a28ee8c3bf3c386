"""Clients that only make the calls, in a process that loads nothing else:
`python -m tests.benchmarks.bare_client`, told on its input what to do."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

HTTPX2, AIOHTTP = "bare httpx2", "bare aiohttp"
INTERLEAVED: Final = "bare aiohttp, all conversations open"
"""As many calls at once, of whichever conversation comes next."""
Post = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    lag_p99_ms: float | None = None
    lag_max_ms: float | None = None
    failed: int = 0


async def measured(work: Callable[[], Awaitable[int]]) -> Cost:
    """With how late this event loop comes to what is due."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            lags.append(time.perf_counter() - began - 0.01)

    watching = asyncio.create_task(watch())
    began, spent = time.perf_counter(), time.process_time()
    failed = await work()
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    watching.cancel()
    lags.sort()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    p99 = lags[int(len(lags) * 0.99)] if lags else 0.0
    return Cost(cpu, wall, peak, p99 * 1000, max(lags, default=0.0) * 1000, failed)


def told(cost: Cost) -> str:
    """For whoever began this process, all of whose CPU it took."""
    return json.dumps({**asdict(cost), "cpu_s": time.process_time()})


async def split(chunks: AsyncIterator[bytes], fewest: int) -> None:
    """Split the lines of a stream, and parse their JSON."""
    said, tail = [], b""
    async for chunk in chunks:
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                said += [choice["delta"].get("content") or "" for choice in choices]
    assert len("".join(said)) > fewest


@dataclass(frozen=True, slots=True)
class Calls:
    """What is to be done."""

    origin: str
    key: str
    conversations: int
    at_once: int
    chunks: int
    """Of each reply."""
    bodies: Sequence[Any]
    """Of the calls of one conversation."""

    @property
    def url(self) -> str:
        return f"{self.origin}/v1/chat/completions"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


@asynccontextmanager
async def with_httpx2(calls: Calls) -> AsyncIterator[Post]:
    import httpx2

    most = calls.at_once
    limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most)
    async with httpx2.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:

        async def post(body: Any) -> None:
            async with client.stream(
                "POST", calls.url, headers=calls.headers, json=body
            ) as response:
                await split(response.aiter_raw(), calls.chunks)

        yield post


@asynccontextmanager
async def with_aiohttp(calls: Calls) -> AsyncIterator[Post]:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=calls.at_once)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post(body: Any) -> None:
            async with session.post(calls.url, headers=calls.headers, json=body) as response:
                await split(response.content.iter_any(), calls.chunks)

        yield post


async def run(who: str, calls: Calls) -> Cost:
    opened: Callable[[Calls], AbstractAsyncContextManager[Post]]
    opened = with_httpx2 if who == HTTPX2 else with_aiohttp
    left = iter(range(calls.conversations))
    workers = calls.conversations if who == INTERLEAVED else calls.at_once
    slots = asyncio.Semaphore(calls.at_once)

    async def work() -> int:
        async with opened(calls) as post:

            async def worker() -> None:
                for _ in left:
                    for body in calls.bodies:
                        async with slots:
                            await post(body)

            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(worker())
        return 0

    return await measured(work)


if __name__ == "__main__":
    _who, *_calls = json.load(sys.stdin)
    sys.stdout.write(told(asyncio.run(run(_who, Calls(*_calls)))))
