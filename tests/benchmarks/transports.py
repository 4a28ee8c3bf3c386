"""Our HTTP client beside others behind the same protocol."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final

import aiohttp
import httpx2

from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import Address, OnResponse, Transport
from tests.benchmarks.frame import Row
from tests.benchmarks.providers import BODY, HEADERS, Pace, server, spread
from tests.engine.providers.answers import ALL, BAD, Outcome, outcomes, stale_answers, unheard


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

    def can_send(self) -> bool:
        return True

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

    def can_send(self) -> bool:
        return True

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
