"""How long a reply there is room for, read from how a server refuses a longer one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FEWEST: Final = 256
"""Tokens. Where there is room for fewer, the conversation no longer fits."""

_LOOKED_AT: Final = 1000
"""Characters of a refusal that its numbers are looked for in."""
_CONTEXT: Final = re.compile(
    r"context[ _](?:length|window|size|limit)(?: is| of|:)? {0,3}(\d{1,9})\b", re.IGNORECASE
)
_ASKED: Final = re.compile(
    r"(\d{1,9}) (?:prompt|input) tokens|(\d{1,9}) (?:tokens )?in the messages"
    r"|(\d{1,9}) \+ \d{1,9} > \d{1,9}",
    re.IGNORECASE,
)
_SUM: Final = re.compile(r"\d{1,9} \+ \d{1,9} > (\d{1,9})\b")
_MOST: Final = re.compile(
    r"max_(?:completion_)?tokens\W{1,3}\d{1,9} > (\d{1,9})\b"
    r"|(?:at most|less than or equal to|no more than|maximum of|<=) {0,2}[`'\"]?(\d{1,9})\b",
    re.IGNORECASE,
)
_OF_A_REPLY: Final = re.compile(r"max_(?:completion_)?tokens|completion|output tokens", re.I)
_ABOUT: Final = re.compile(r"at least \d")
"""The server stopped counting when it was too much."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a server takes, in tokens."""

    now: int
    """For the reply to this request."""
    always: int
    """For most requests: what is left where a request fills half of a model's context."""
    context: int | None
    """What request and reply share; None where the limit is one on replies alone."""


def room_in(message: str) -> Room | None:
    """None where the refusal is not about the length of a reply, or gives no numbers."""
    text = message[:_LOOKED_AT]
    context = _number(_SUM, text) or _number(_CONTEXT, text)
    if context is None:
        most = _number(_MOST, text) if _OF_A_REPLY.search(text) else None
        return None if most is None else Room(most, most, None)
    asked = None if _ABOUT.search(text) else _number(_ASKED, text)
    half = context // 2
    return Room(half if asked is None else context - asked, half, context)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else next(int(group) for group in found.groups() if group)
