"""Whom one really spoke with: the model that a server names in its reply, beside the one that was
asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from engine.benchmark import plausible_usd
from engine.display import one_line

LONGEST_NAME: Final = 200
"""Characters of what a server calls a model; no model's name is longer."""
MOST_NAMES: Final = 3
"""Models that may be kept of one reply: a gateway can change over in the middle of it."""

MOST_OF_A_CALL_USD: Final = 1_000.0
"""More than any request can cost at any published price. What says more counts in another unit."""

_PUBLISHERS: Final = re.compile(
    r"(?:(?:us|eu|apac|global|ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.)+"
    r"(?=[a-z])"
)
"""Regions and publishers, as Bedrock writes them before a model's name."""
_ROUTING: Final = frozenset({"latest", "nitro", "floor", "exacto", "online", "free"})
"""What may stand behind a colon and says how a model is reached, not which one it is."""
_REVISION: Final = re.compile(r"-v\d+:\d+$")
"""Bedrock's own counting, behind the date."""
_DATE: Final = re.compile(
    r"[-@]("
    r"20\d\d-?[01]\d(?:-?[0-3]\d)?"  # 2024-07-18, 20250101, 2024-07
    r"|[01]\d-20\d\d"  # 08-2024
    r"|[01]\d-[0-3]\d"  # 05-06
    r"|2\d[01]\d|[01]\d[0-3]\d"  # 2411, 0613
    r"|0\d\d"  # 001
    r"|latest)$"
)
"""A snapshot of a model, as its publisher dates or counts it."""
_LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class ExpectedModel:
    """The model that is asked for, and which replies are taken for its own."""

    model: str
    """Its name on the wire."""
    also: tuple[str, ...] = ()
    """What else a server may call it."""
    only: bool = False
    """Whether a reply of another model is refused."""

    def is_other(self, served: str) -> bool:
        """Whether this names another model. A name that is said to be meant is none, and neither
        are a dated snapshot, a prefix of who serves it, or another spelling."""
        return not any(_is_same(name, served) for name in (self.model, *self.also))


@lru_cache(1024)  # asked several times of each reply
def _is_same(asked: str, served: str) -> bool:
    asked_name, asked_date = _stem(asked)
    served_name, served_date = _stem(served)
    if asked_name != served_name:
        return False
    # an alias is served by one of its snapshots, and a snapshot may be called by its alias
    return asked_date is None or served_date is None or asked_date == served_date


def _stem(name: str) -> tuple[str, str | None]:
    """The name without where it stands and how it is reached; and its date, None for none or for
    whichever is the latest."""
    name = name[:LONGEST_NAME].strip().casefold().rstrip("/")
    name = name.rpartition("/")[2].removesuffix(".gguf")
    name = _PUBLISHERS.sub("", name, count=1) if "." in name else name
    # a tag that says how it is routed is not part of the name; any other, as a size, is
    head, colon, tag = name.rpartition(":")
    if colon and tag in _ROUTING:
        name = head
    name = _REVISION.sub("", name)
    dated = _DATE.search(name)
    date = None
    if dated is not None:
        name = name[: dated.start()]
        date = None if dated[1] == _LATEST else dated[1].replace("-", "")
    return re.sub(r"[._ ]", "-", name), date


@dataclass(slots=True)
class ServedNames:
    """The models that one reply names, in their order."""

    models: list[str] = field(default_factory=list)
    _last: str = ""

    def add(self, name: object) -> None:
        """What one event says, which is mostly what the one before it said."""
        # each event of a stream names the model: compared with the last, which costs nothing,
        # before it is looked at
        if name == self._last or not isinstance(name, str) or not name.strip():
            return
        self._last = name
        shown = one_line(name, LONGEST_NAME)
        if shown not in self.models and len(self.models) < MOST_NAMES:
            self.models.append(shown)


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """What a gateway says of the way that a request took."""

    fallbacks: int = 0
    """Models that it asked in vain before the one that answered."""
    told: tuple[str, ...] = ()
    """The rest that is worth keeping, in its own words."""
    cost_usd: float | None = None

    def words(self, provider: str | None) -> str | None:
        """All of it on one line; None where there is nothing to say."""
        said = [f"fallbacks {self.fallbacks}"] if self.fallbacks else []
        said += [] if provider is None else [f"provider {provider}"]
        return ", ".join([*said, *self.told]) or None


NO_ROUTE: Final = GatewayRoute()
A_FALLBACK_OF: Final = "a fallback of "
"""What a reply is said to be from where only the way there says that another model gave it."""

_TOLD: Final = {
    "x-litellm-model-group": "model group",
    "x-litellm-model-id": "model id",
    "x-portkey-provider": "provider",
    "helicone-provider": "provider",
}
"""Headers of gateways that say whom they asked, in lower case, and our words for them."""


def route_of(headers: Mapping[str, str]) -> GatewayRoute:
    """`headers` are looked up in lower case."""
    told = tuple(
        f"{words} {one_line(value, LONGEST_NAME)}"
        for name, words in _TOLD.items()
        if (value := headers.get(name))
    )
    fallbacks = headers.get("x-litellm-attempted-fallbacks", "").strip()
    number = int(fallbacks) if re.fullmatch(r"[0-9]{1,3}", fallbacks) else 0
    cost = _header_amount(headers.get("x-litellm-response-cost", ""))
    return GatewayRoute(number, told, cost) if number or told or cost else NO_ROUTE


def _header_amount(text: str) -> float | None:
    try:
        return amount(float(text[:40]))
    except ValueError:
        return None


def other_of(meant: ExpectedModel, named: Sequence[str], route: GatewayRoute) -> str | None:
    """Which other model gave a reply, by the name that the server gave it; None where none did.

    A gateway that says that it fell back has asked another, whatever it calls it, unless it names
    one that is said to be meant.
    """
    other = next((name for name in named if meant.is_other(name)), None)
    if other is not None or not route.fallbacks:
        return other
    if named and any(_is_same(alias, named[-1]) for alias in meant.also):
        return None
    return f"{A_FALLBACK_OF}{named[-1] if named else one_line(meant.model, LONGEST_NAME)}"


def amount(value: object) -> float | None:
    """US dollars for one request; None for anything that is no such amount."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # bounded before it becomes a float, as an int may be too large for one
    bounded = plausible_usd(value)
    return None if bounded is None or bounded > MOST_OF_A_CALL_USD else float(bounded)
