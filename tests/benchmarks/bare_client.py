"""Clients that only make the calls, in a process that loads nothing else:
`python -m tests.benchmarks.bare_client`, told on its input what to do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks.measuring import Cost, measured, told

HTTPX2, AIOHTTP = "bare httpx2", "bare aiohttp"
INTERLEAVED: Final = "bare aiohttp, all conversations open"
"""As many calls at once, of whichever conversation comes next."""
Post = Callable[[Any], Awaitable[None]]


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
