"""How the official clients address a server: each is asked once, and never sends anything itself.

Their own way of sending takes several times the CPU of the stream it carries, and reports a reply
that broke off as a whole one. What they know and we should not guess is where a request goes and
how a key is shown. Nothing they read from the environment or from profiles on disk gets through.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from engine.providers.endpoint import Wire

if TYPE_CHECKING:
    import httpx2


NEW_OBJECTS: Final = 10_000
"""After which the garbage collector looks for circles among them. A call makes hundreds, nearly
all of which go by themselves."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests of one account go, and what every one of them carries."""

    url: str
    headers: Mapping[str, str] = field(repr=False)


def address(wire: Wire, base_url: str, key: str) -> Address:
    """Ask the official client. Takes half a second the first time, as it is imported then, and so
    belongs on a thread. `key` is sent as it is: check it first."""
    url, auth = (_anthropic if wire is Wire.ANTHROPIC else _openai)(base_url, key)
    _settle(wire)
    ours = {
        "Accept": "text/event-stream",
        # a compressed stream is held back until it fills a block, and can hide how large it is
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "crosswind",
    }
    return Address(url, {**ours, **auth})


@cache
def _settle(wire: Wire) -> None:
    """Let the garbage collector leave alone what was imported, which never goes, and come less
    often: to walk through all of it would hold up everything that is heard for a tenth of a second,
    several times a minute."""
    del wire  # each client brings its own
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def _openai(base_url: str, key: str) -> tuple[str, Mapping[str, str]]:
    import httpx2
    import openai

    asked: list[httpx2.Request] = []
    transport = httpx2.MockTransport(lambda request: _kept(request, asked))
    with openai.OpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        http_client=httpx2.Client(transport=transport, trust_env=False),
    ) as client:
        client.with_raw_response.chat.completions.create(
            model="-", messages=[{"role": "user", "content": "-"}]
        )
        return str(asked[0].url), client.auth_headers


def _anthropic(base_url: str, key: str) -> tuple[str, Mapping[str, str]]:
    import anthropic
    import httpx2

    asked: list[httpx2.Request] = []
    transport = httpx2.MockTransport(lambda request: _kept(request, asked))
    with anthropic.Anthropic(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        http_client=httpx2.Client(transport=transport, trust_env=False),
    ) as client:
        client.with_raw_response.messages.create(
            model="-", max_tokens=1, messages=[{"role": "user", "content": "-"}]
        )
        return str(asked[0].url), client.auth_headers


def _kept(request: httpx2.Request, asked: list[httpx2.Request]) -> httpx2.Response:
    import httpx2

    asked.append(request)
    return httpx2.Response(200, json={})
