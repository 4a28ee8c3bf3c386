"""Where requests go and how a key is shown, exactly as the official clients do it, which the tests
ask. They are not asked here: to import one takes as much CPU as hundreds of streamed calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.providers.endpoint import Wire

_PATHS = {Wire.OPENAI: "/chat/completions", Wire.ANTHROPIC: "/v1/messages"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests of one account go, and what every one of them carries."""

    url: str
    headers: Mapping[str, str] = field(repr=False)


def address(wire: Wire, base_url: str, key: str) -> Address:
    """Takes a tenth of a second the first time, as it imports what spells addresses, and so belongs
    on a thread. `key` is sent as it is: check it first."""
    import httpx2

    headers = {
        "Accept": "text/event-stream",
        # a compressed stream is held back until it fills a block, and can hide how large it is
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "crosswind",
        "Authorization": f"Bearer {key}",
    }
    return Address(str(httpx2.URL(base_url.removesuffix("/") + _PATHS[wire])), headers)
