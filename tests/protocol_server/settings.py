"""How the server behaves when nothing goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.protocol_server.request import Request


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it may be changed while the server runs; what was begun goes on as it began."""

    key: str | None = None
    """The only API key that is let in; None lets in any, but never none."""
    is_gateway: bool = False
    """Whether it refuses another key as LiteLLM without a database does: with a 400."""
    cap: int | None = None
    """How many requests to models are answered at the same time; one more gets 429."""
    cap_retry_after: str | None = None
    """The Retry-After header of that 429."""
    latency_ms: float = 0.0
    """To the first piece of an answer."""
    tokens_per_second: float | None = None
    """None sends what there is as fast as it goes."""
    chunks: int | None = None
    """In how many pieces each answer is streamed; None is one for each word."""
    flush_each: bool = False
    """Without a pace: hand each piece to the network by itself, as real servers do."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """More names of models, and which model each stands for."""
    says: Callable[[Request], str | None] = lambda _: None
    """A whole answer in place of a model's own; None leaves it to the model."""
    context: int | None = None
    """How many tokens request and reply share; more is refused, with numbers."""
    lenient: bool = False
    """Whether parameters that the protocol does not know are passed over, as many servers do."""
    cost: float | None = None
    """What each answer says that it costs: in its usage, or over the protocol that has no place for
    it there in the header of a gateway."""
    keep_requests: bool = True
