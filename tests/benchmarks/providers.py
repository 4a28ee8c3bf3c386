"""What a call costs: `python -m tests.benchmarks.providers`, with the server as another process.

Prints CPU for each call and chunk as ratios to a bare httpx2 loop that splits lines and parses
JSON, and the wall time of many paced streams at once as a ratio to what the pace allows. Absolute
figures depend on the machine; the ratios are what the budgets are about (CPU at most 2, wall at
most 1.10).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final

import aiohttp
import httpx2

from engine.providers.accounts import Accounts
from engine.providers.endpoint import endpoint
from engine.providers.model import Message, MessageRole, Model
from engine.providers.real import real_model

KEY: Final = "sk-benchmark"
MODEL: Final = "words-60"
CHUNKS: Final = 60
HISTORY: Final = "A sentence of a conversation that has been going on for a while now. " * 20
SYSTEM: Final = "You are a helpful assistant."

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How the server speaks; None is as fast as it goes."""

    latency_ms: float = 0.0
    tokens_per_second: float | None = None

    @property
    def ideal_s(self) -> float:
        """Of one call."""
        speaking = 0.0 if self.tokens_per_second is None else (CHUNKS - 1) / self.tokens_per_second
        return self.latency_ms / 1000 + speaking


@contextmanager
def server(pace: Pace) -> Iterator[str]:
    """Its origin."""
    command = [sys.executable, "-m", "tests.protocol_server", "--chunks", str(CHUNKS)]
    command += ["--latency-ms", str(pace.latency_ms)]
    if pace.tokens_per_second is None:
        # one write for each piece, as real servers do
        command.append("--flush-each")
    else:
        command += ["--tokens-per-second", str(pace.tokens_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()
            process.communicate()


BODY: Final = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": HISTORY},
    ],
    "stream": True,
    "stream_options": {"include_usage": True},
}
HEADERS: Final = {"authorization": f"Bearer {KEY}"}


@asynccontextmanager
async def bare(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The least that anybody could do with httpx2."""
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    url = f"{origin}/v1/chat/completions"
    async with httpx2.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:

        async def call() -> None:
            async with client.stream("POST", url, headers=HEADERS, json=BODY) as response:
                await split(response.aiter_raw())

        yield call


@asynccontextmanager
async def bare_aiohttp(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The least that anybody could do with aiohttp."""
    url, connector = f"{origin}/v1/chat/completions", aiohttp.TCPConnector(limit=at_once)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def call() -> None:
            async with session.post(url, headers=HEADERS, json=BODY) as response:
                await split(response.content.iter_any())

        yield call


async def split(chunks: AsyncIterator[bytes]) -> None:
    """Split the lines of a stream, and parse their JSON."""
    said, tail = [], b""
    async for chunk in chunks:
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                said += [choice["delta"].get("content") or "" for choice in choices]
    assert len("".join(said)) > CHUNKS


@asynccontextmanager
async def ours(origin: str, at_once: int, source: str = "openai") -> AsyncIterator[Call]:
    """This engine, as the pipeline calls it."""
    del at_once
    accounts = Accounts()
    base_url = f"{origin}/v1" if source == "openai" else origin
    spec = endpoint(model=MODEL, source=source, base_url=base_url, key=lambda: KEY)
    model: Model = real_model(spec, accounts).telling(lambda _: None)
    messages = [Message(MessageRole.SYSTEM, SYSTEM), Message(MessageRole.USER, HISTORY)]

    async def call() -> None:
        said: list[str | None] = []
        reply = await model.reply(messages, on_text=said.append)
        assert len(reply.text) > CHUNKS

    try:
        yield call
    finally:
        await accounts.close()


@asynccontextmanager
async def anthropic(origin: str, at_once: int) -> AsyncIterator[Call]:
    """This engine over the other protocol."""
    async with ours(origin, at_once, "anthropic") as call:
        yield call


@asynccontextmanager
async def official(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The official client as its manual shows it."""
    import openai

    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    client = openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{origin}/v1", http_client=httpx2.AsyncClient(limits=limits)
    )

    async def call() -> None:
        said = []
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": HISTORY},
            ],
            stream=True,
            stream_options={"include_usage": True},
        )
        async with stream:
            async for chunk in stream:
                said += [choice.delta.content or "" for choice in chunk.choices]
        assert len("".join(said)) > CHUNKS

    async with client:
        yield call


@asynccontextmanager
async def official_raw(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The official client's request and connection, with our decoding."""
    import openai

    from engine.providers.protocols.openai import OpenAIReplyParser
    from engine.providers.protocols.sse import EventDecoder

    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    client = openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{origin}/v1", http_client=httpx2.AsyncClient(limits=limits)
    )

    async def call() -> None:
        said, parser, decoder = [], OpenAIReplyParser(), EventDecoder()
        async with client.chat.completions.with_streaming_response.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": HISTORY},
            ],
            stream=True,
            stream_options={"include_usage": True},
        ) as response:
            async for chunk in response.iter_bytes():
                said += [parser.feed(data) or "" for data in decoder.feed(chunk)]
        assert len("".join(said)) > CHUNKS

    async with client:
        yield call


WAYS: Final = {
    "bare httpx2 loop": bare,
    "bare aiohttp loop": bare_aiohttp,
    "this engine, openai": ours,
    "this engine, anthropic": anthropic,
    "openai client, raw + own decoder": official_raw,
    "openai client": official,
}


async def measure(way: str, origin: str, at_once: int, calls: int) -> tuple[float, float]:
    """CPU and wall seconds of so many calls, after the connections are open."""
    async with WAYS[way](origin, at_once) as call:
        # raise the window and open the connections first: that is no part of a call's cost
        await spread(call, at_once, 2 * at_once)
        began, spent = time.perf_counter(), time.process_time()
        await spread(call, at_once, calls)
        return time.process_time() - spent, time.perf_counter() - began


async def spread(call: Call, at_once: int, calls: int) -> None:
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def cpu(ways: Sequence[str], rounds: int, at_once: int, calls: int) -> None:
    say(f"CPU, no pacing, {at_once} at once, {calls} calls of {CHUNKS} chunks, {rounds} rounds")
    spent: dict[str, list[float]] = {way: [] for way in ways}
    with server(Pace()) as origin:
        for _ in range(rounds):
            for way in ways:
                seconds, _ = asyncio.run(measure(way, origin, at_once, calls))
                spent[way].append(seconds / calls)
    base = median(spent["bare httpx2 loop"])
    for way, measured in spent.items():
        each = median(measured)
        micros = each / CHUNKS * 1e6
        say(f"  {way:34} {each * 1e3:6.2f} ms/call {micros:6.1f} µs/chunk   x{each / base:.2f}")


def paced(ways: Sequence[str], pace: Pace, at_once: int, each: int) -> None:
    calls = at_once * each
    say(
        f"wall, {at_once} at once, {pace.latency_ms:g} ms to the first of {CHUNKS} tokens at "
        f"{pace.tokens_per_second:g} a second, {calls} calls"
    )
    with server(pace) as origin:
        for way in ways:
            spent, wall = asyncio.run(measure(way, origin, at_once, calls))
            ideal = pace.ideal_s * each
            say(
                f"  {way:34} {wall:6.2f} s of {ideal:.2f}   x{wall / ideal:.3f}   CPU {spent:.2f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.providers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--each", type=int, default=4, help="paced calls one after the other")
    options = parser.parse_args()
    cpu(options.ways, options.rounds, 100, options.calls)
    paced(options.ways, Pace(latency_ms=50, tokens_per_second=50), 200, options.each)


if __name__ == "__main__":
    main()
