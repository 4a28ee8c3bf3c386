"""What a call costs, and what goes wrong, beside other clients."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx2

from engine.providers.accounts import Accounts
from engine.providers.endpoint import Endpoint
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import Address, OnResponse, Transport
from engine.providers.model import Message, MessageRole, Model
from engine.providers.protocols.base import EventDecoder
from engine.providers.protocols.openai import OpenAIReplyParser
from engine.providers.real import real_model
from tests.benchmarks.bare_client import Calls, Post, with_aiohttp, with_httpx2
from tests.benchmarks.frame import Row, chosen
from tests.engine.providers.answers import ALL, BAD, Outcome, outcomes, stale_answers, unheard
from tests.late import openai

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

KEY: Final = "sk-benchmark"
MODEL: Final = "words-60"
CHUNKS: Final = 60
HISTORY: Final = "A sentence of a conversation that has been going on for a while now. " * 20
SYSTEM: Final = "You are a helpful assistant."

Call = Callable[[], Awaitable[None]]
Way = Callable[[str, int], AbstractAsyncContextManager[Call]]
"""Of an origin, and how many calls there are at once."""


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


MESSAGES: Final[list[ChatCompletionMessageParam]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": HISTORY},
]
BODY: Final = {
    "model": MODEL,
    "messages": MESSAGES,
    "stream": True,
    "stream_options": {"include_usage": True},
}
HEADERS: Final = {"authorization": f"Bearer {KEY}"}


def bare(opened: Callable[[Calls], AbstractAsyncContextManager[Post]]) -> Way:
    """The least that anybody could do with a client."""

    @asynccontextmanager
    async def way(origin: str, at_once: int) -> AsyncIterator[Call]:
        async with opened(Calls(origin, KEY, 0, at_once, CHUNKS, ())) as post:
            yield partial(post, BODY)

    return way


@asynccontextmanager
async def ours(origin: str, at_once: int, source: str = "openai") -> AsyncIterator[Call]:
    """This engine, as the pipeline calls it."""
    del at_once
    accounts = Accounts()
    base_url = f"{origin}/v1" if source == "openai" else origin
    spec = Endpoint(model=MODEL, source=source, base_url=base_url, key=lambda: KEY)
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


def _official_client(origin: str, at_once: int) -> openai.AsyncOpenAI:
    import httpx2  # whoever starts an engine from here loads no client that it does not use

    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    return openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{origin}/v1", http_client=httpx2.AsyncClient(limits=limits)
    )


@asynccontextmanager
async def official(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The official client as its manual shows it."""
    async with _official_client(origin, at_once) as client:

        async def call() -> None:
            said = []
            stream = await client.chat.completions.create(
                model=MODEL,
                messages=MESSAGES,
                stream=True,
                stream_options={"include_usage": True},
            )
            async with stream:
                async for chunk in stream:
                    said += [choice.delta.content or "" for choice in chunk.choices]
            assert len("".join(said)) > CHUNKS

        yield call


@asynccontextmanager
async def official_raw(origin: str, at_once: int) -> AsyncIterator[Call]:
    """The official client's request and connection, with our decoding."""
    async with _official_client(origin, at_once) as client:

        async def call() -> None:
            said, parser, decoder = [], OpenAIReplyParser(), EventDecoder()
            async with client.chat.completions.with_streaming_response.create(
                model=MODEL,
                messages=MESSAGES,
                stream=True,
                stream_options={"include_usage": True},
            ) as response:
                async for chunk in response.iter_bytes():
                    said += [parser.feed(data) or "" for data in decoder.feed(chunk)]
            assert len("".join(said)) > CHUNKS

        yield call


OURS: Final[Mapping[str, Way]] = {
    "this engine, openai": ours,
    "this engine, anthropic": anthropic,
}
WAYS: Final[Mapping[str, Way]] = {
    "bare httpx2 loop": bare(with_httpx2),
    "bare aiohttp loop": bare(with_aiohttp),
    **OURS,
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


def calls(
    *ways: str, rounds: int = 3, calls: int = 600, each: int = 4, at_once: int = 200
) -> Iterator[Row]:
    """What a call costs, with the server as another process.

    CPU of each call and chunk as ratios to a bare httpx2 loop that splits lines and parses JSON,
    and the wall time of many paced streams at once, `--each` of them one after the other, as a
    ratio to what the pace allows.
    """
    yield from _cpu(list(chosen(ways, WAYS)), rounds, 100, calls)
    pace = Pace(latency_ms=50, tokens_per_second=50)
    yield from _paced(list(chosen(ways, WAYS)), pace, at_once, each)


def _cpu(ways: Sequence[str], rounds: int, at_once: int, calls: int) -> Iterator[Row]:
    spent: dict[str, list[float]] = {way: [] for way in ways}
    with server(Pace()) as origin:
        for _ in range(rounds):
            for way in ways:
                seconds, _ = asyncio.run(measure(way, origin, at_once, calls))
                spent[way].append(seconds / calls)
    base = median(spent[next(iter(spent))])
    for way, measured in spent.items():
        one = median(measured)
        yield Row(
            f"CPU of a call of {CHUNKS} chunks, {at_once} at once: {way}",
            f"{one / base:.2f} x, {one * 1e3:.2f} ms, {one / CHUNKS * 1e6:.1f} µs a chunk",
            "2 x" if way in OURS else "",
        )


def _paced(ways: Sequence[str], pace: Pace, at_once: int, each: int) -> Iterator[Row]:
    said = f"{pace.latency_ms:g} ms to the first token, {pace.tokens_per_second:g} a second"
    with server(pace) as origin:
        for way in ways:
            spent, wall = asyncio.run(measure(way, origin, at_once, at_once * each))
            ideal = pace.ideal_s * each
            yield Row(
                f"wall of {at_once} at once, {said}: {way}",
                f"{wall / ideal:.3f} x the ideal, {wall:.2f} s; {spent:.2f} s of CPU",
                "1.10 x" if way in OURS else "",
            )


class AiohttpTransport:
    """aiohttp as a `Transport`."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        url, whole = self._address.url, {**self._address.headers, **headers}
        async with self._session.post(url, headers=whole, data=body) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            on_body = on_response(response.status, found)
            async for piece in response.content.iter_any():
                on_body(piece)

    def waits_for(self) -> str | None:
        return None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class Httpx2Transport:
    """httpx2 as a `Transport`."""

    def __init__(self, address: Address) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._address = address
        self._client = httpx2.AsyncClient(limits=limits, timeout=None, trust_env=False)

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        url, whole = self._address.url, {**self._address.headers, **headers}
        async with self._client.stream("POST", url, headers=whole, content=body) as response:
            on_body = on_response(response.status_code, response.headers)
            async for piece in response.aiter_bytes():
                on_body(piece)

    def waits_for(self) -> str | None:
        return None

    async def close(self) -> None:
        await self._client.aclose()


OpenTransport = Callable[[Address], Transport]
TRANSPORTS: Final[Mapping[str, OpenTransport]] = {
    "this engine's": ConnectionPool,
    f"aiohttp {aiohttp.__version__}": AiohttpTransport,
    f"httpx2 {httpx2.__version__}": Httpx2Transport,
}


def wrong(name: str, open_transport: OpenTransport, stale: int) -> Iterator[Row]:
    """What goes wrong."""
    found = asyncio.run(outcomes(open_transport))
    for outcome in list(Outcome)[1:]:
        names = Counter(answer for (answer, _), was in found.items() if was is outcome)
        listed = f" ({', '.join(sorted(names))})" if names else ""
        yield Row(f"{name}: {outcome}", f"{len(names)}{listed}")
    for idle, when in ((True, "idle"), (False, "used at once")):
        taken = asyncio.run(stale_answers(open_transport, stale, idle=idle))
        yield Row(f"{name}: a stale answer taken, {when}", f"{taken} of {stale}")


async def cpu(open_transport: OpenTransport, origin: str, at_once: int, calls: int) -> float:
    """Seconds of one streamed call, once the connections are open."""
    transport = open_transport(Address(f"{origin}/v1/chat/completions", HEADERS))
    body = json.dumps(BODY).encode()

    async def call() -> None:
        await transport.post({"Content-Type": "application/json"}, body, unheard)

    await spread(call, at_once, 2 * at_once)
    spent = time.process_time()
    await spread(call, at_once, calls)
    spent = time.process_time() - spent
    await transport.close()
    return spent / calls


def transports(*, stale: int = 150, rounds: int = 3, calls: int = 600) -> Iterator[Row]:
    """Our HTTP client beside others behind the same protocol.

    Every answer of the corpus in every segmentation, stale answers, and CPU for each streamed call.
    To use another client for the engine, give its class to `Accounts(open_transport=...)`.
    """
    yield Row("answers of the corpus, in 5 segmentations", f"{len(ALL)}, {len(BAD)} of them bad")
    for name, opener in TRANSPORTS.items():
        yield from wrong(name, opener, stale)
    spent: dict[str, list[float]] = {name: [] for name in TRANSPORTS}
    with server(Pace()) as origin:
        for _ in range(rounds):
            for name, opener in TRANSPORTS.items():
                spent[name].append(asyncio.run(cpu(opener, origin, 100, calls)))
    base = median(spent["this engine's"])
    for name, seconds in spent.items():
        one = median(seconds)
        yield Row(f"{name}: CPU of a call", f"{one / base:.2f} x, {one * 1000:.2f} ms")
