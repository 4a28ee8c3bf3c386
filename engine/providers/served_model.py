"""Compares the model that a server names in its reply with the one that was asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from engine.benchmark import plausible_usd
from engine.display import one_line

LONGEST_NAME: Final = 200
"""Characters of a model's name that are kept; no model has a longer one."""
MOST_NAMES: Final = 3
"""Models that are kept for one reply: a gateway can switch in the middle of it."""

MOST_OF_A_CALL_USD: Final = 1_000.0
"""US dollars; more than any request costs at published prices, so more is in another unit."""

_PUBLISHERS: Final = re.compile(
    r"(?:(?:us|eu|apac|global|ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.)+"
    r"(?=[a-z])"
)
"""Regions and publishers that Bedrock puts before a model's name."""
_ROUTING: Final = frozenset({"latest", "nitro", "floor", "exacto", "online", "free"})
"""Tags after a colon that say how a model is reached, not which one it is."""
_REVISION: Final = re.compile(r"-v\d+:\d+$")
"""Bedrock's own revision, after the date."""
_DATE: Final = re.compile(
    r"[-@]("
    r"20\d\d-?[01]\d(?:-?[0-3]\d)?"  # 2024-07-18, 20250101, 2024-07
    r"|[01]\d-20\d\d"  # 08-2024
    r"|[01]\d-[0-3]\d"  # 05-06
    r"|2\d[01]\d|[01]\d[0-3]\d"  # 2411, 0613
    r"|0\d\d"  # 001
    r"|latest)$"
)
"""The date or number of a model's snapshot."""
_LATEST: Final = "latest"
_BRANCH: Final = "@main"


@dataclass(frozen=True, slots=True)
class ExpectedModel:
    """The model that is asked, and which names in replies mean it."""

    model: str | None
    """The name that the request asks for; None where it asks for none."""
    also: tuple[str, ...] = ()
    """Other names by which a server may call it."""
    only: bool = False
    """Whether a reply of another model is refused."""

    def is_other(self, served: str) -> bool:
        """Whether a name means another model. Configured aliases, dated snapshots, prefixes of a
        publisher and other spellings do not. Where no name is known, no name is another."""
        names = [name for name in (self.model, *self.also) if name is not None]
        return bool(names) and not any(_is_same(name, served) for name in names)


@lru_cache(1024)  # called several times for each reply
def _is_same(asked: str, served: str) -> bool:
    asked_name, asked_date = _name_and_date(asked)
    served_name, served_date = _name_and_date(served)
    if asked_name != served_name:
        return False
    # an alias is served by a snapshot, and a snapshot may be called by its alias
    return asked_date is None or served_date is None or asked_date == served_date


def _name_and_date(name: str) -> tuple[str, str | None]:
    """Return the name without publisher and routing, and its date; None without one, and for
    `latest`."""
    name = name[:LONGEST_NAME].strip().casefold().rstrip("/")
    name = name.rpartition("/")[2].removesuffix(".gguf")
    # `transformers serve` adds the branch of the weights to the name that was asked
    name = name.removesuffix(_BRANCH)
    name = _PUBLISHERS.sub("", name, count=1) if "." in name else name
    # a routing tag is not part of the name; any other tag, such as a size, is
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
    """The models that one reply names, in order."""

    models: list[str] = field(default_factory=list)
    _last: str = ""

    def add(self, name: object) -> None:
        """Add the name in one event, which is usually the same as in the one before."""
        # compared first, which costs nothing: every event of a stream names the model
        if name == self._last or not isinstance(name, str) or not name.strip():
            return
        self._last = name
        shown = one_line(name, LONGEST_NAME)
        if shown not in self.models and len(self.models) < MOST_NAMES:
            self.models.append(shown)


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """What a gateway says about the route of a request."""

    fallbacks: int = 0
    """How many models it asked in vain before the one that answered."""
    told: tuple[str, ...] = ()
    """Other details, in the gateway's words."""
    cost_usd: float | None = None

    def words(self, provider: str | None) -> str | None:
        """Return everything on one line; None if there is nothing."""
        parts = [f"fallbacks {self.fallbacks}"] if self.fallbacks else []
        parts += [] if provider is None else [f"provider {provider}"]
        return ", ".join([*parts, *self.told]) or None


NO_ROUTE: Final = GatewayRoute()
A_FALLBACK_OF: Final = "a fallback of "
"""Prefix for a model that is known only to be a gateway's fallback."""

_TOLD: Final = {
    "x-litellm-model-group": "model group",
    "x-litellm-model-id": "model id",
    "x-portkey-provider": "provider",
    "helicone-provider": "provider",
}
"""Gateway headers that say which model they asked, in lower case, with our words for them."""


def route_of(headers: Mapping[str, str]) -> GatewayRoute:
    """Read a gateway's headers, whose names are in lower case."""
    shown = tuple(
        f"{words} {one_line(value, LONGEST_NAME)}"
        for name, words in _TOLD.items()
        if (value := headers.get(name))
    )
    fallbacks = headers.get("x-litellm-attempted-fallbacks", "").strip()
    number = int(fallbacks) if re.fullmatch(r"[0-9]{1,3}", fallbacks) else 0
    cost = _header_amount(headers.get("x-litellm-response-cost", ""))
    return GatewayRoute(number, shown, cost) if number or shown or cost else NO_ROUTE


def _header_amount(text: str) -> float | None:
    try:
        return amount(float(text[:40]))
    except ValueError:
        return None


def other_of(meant: ExpectedModel, named: Sequence[str], route: GatewayRoute) -> str | None:
    """Return the server's name of another model that gave the reply; None if none did.

    A gateway that reports a fallback has asked another model, whatever it calls that, unless it
    names a configured alias.
    """
    other = next((name for name in named if meant.is_other(name)), None)
    if other is not None or not route.fallbacks:
        return other
    if named and any(_is_same(alias, named[-1]) for alias in meant.also):
        return None
    name = named[-1] if named else one_line(meant.model or "the application", LONGEST_NAME)
    return f"{A_FALLBACK_OF}{name}"


def amount(value: object) -> float | None:
    """Return the cost of a request in US dollars; None if the value is not plausible."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # bounded before conversion, as an int may be too large for a float
    bounded = plausible_usd(value)
    return None if bounded is None or bounded > MOST_OF_A_CALL_USD else float(bounded)
