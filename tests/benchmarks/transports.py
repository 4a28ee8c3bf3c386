"""Our HTTP client beside others behind the same protocol: `python -m tests.benchmarks.transports`.

Every answer of the corpus in every segmentation, stale answers, and CPU for each streamed call. To
use another client for the engine, give its class to `Accounts(open_transport=...)`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

import aiohttp
import httpx2

from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import Address, OnResponse, Transport
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


def compare(open_transport: OpenTransport, stale: int) -> str:
    """One row of the table of what goes wrong."""
    found = asyncio.run(outcomes(open_transport))
    by_outcome = {
        outcome: Counter(name for (name, _), was in found.items() if was is outcome)
        for outcome in Outcome
    }
    idle = asyncio.run(stale_answers(open_transport, stale, idle=True))
    at_once = asyncio.run(stale_answers(open_transport, stale, idle=False))
    names = [len(by_outcome[outcome]) for outcome in list(Outcome)[1:]]
    for outcome in list(Outcome)[1:]:
        if by_outcome[outcome]:
            sys.stderr.write(f"{outcome}: {', '.join(sorted(by_outcome[outcome]))}\n")
    return " | ".join(map(str, [*names, idle, at_once]))


async def cpu(open_transport: OpenTransport, origin: str, at_once: int, calls: int) -> float:
    """Seconds of one streamed call, once the connections are open."""
    import json

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.transports")
    parser.add_argument("--stale", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=600)
    options = parser.parse_args()
    wrong = {name: compare(opener, options.stale) for name, opener in TRANSPORTS.items()}
    spent: dict[str, list[float]] = {name: [] for name in TRANSPORTS}
    with server(Pace()) as origin:
        for _ in range(options.rounds):
            for name, opener in TRANSPORTS.items():
                spent[name].append(asyncio.run(cpu(opener, origin, 100, options.calls)))
    base = median(spent["this engine's"])
    sys.stdout.write(
        f"{len(ALL)} answers, {len(BAD)} of them bad, in 5 segmentations; "
        f"{options.stale} answers to nothing each\n\n"
        "| client | good refused | bad accepted | wrong | hangs | stale, idle | stale, at once "
        "| CPU of a call |\n|---|---|---|---|---|---|---|---|\n"
    )
    for name, row in wrong.items():
        sys.stdout.write(f"| {name} | {row} | x{median(spent[name]) / base:.2f} |\n")


if __name__ == "__main__":
    main()
