"""What a study costs in each of the ways that halve a price, from the published prices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.addresses import PUBLIC_ADDRESSES
from engine.benchmark import Role
from engine.pipeline.costs.estimate import MARK, REPLY, TOLD, USER_ANSWER, USER_MESSAGE, VERDICT
from engine.providers.batches.queue import SHARE
from engine.providers.pricing import Prices
from engine.providers.protocols.base import Tokens
from tools.manual.markdown import table

CONVERSATIONS: Final = 1_000
TURNS: Final = (6, 20)
MODELS: Final = (
    ("gpt-5.4", "openai"),
    ("gpt-5.4-mini", "openai"),
    ("claude-sonnet-4-6", "anthropic"),
    ("claude-haiku-4-5", "anthropic"),
)
SHORTEST_CACHED: Final = 1_024
"""Tokens of a prefix from which on both providers cache it."""
_FLEX: Final = "flex"


def costs() -> str:
    """What all calls of a study cost if one model plays every role."""
    heads = ("model", "turns", "plainly", "with caching", "and flex", "and verdicts in batches")
    rows = [
        (f"`{model}`", str(turns), *_cells(model, source, turns))
        for model, source in MODELS
        for turns in TURNS
    ]
    return table(heads, rows)


def _cells(model: str, source: str, turns: int) -> Iterator[str]:
    def spent(*, cached: bool, tier: str | None = None, share: float = 1.0) -> float:
        talk = _talk_usd(model, source, turns, cached=cached, tier=tier)
        judged = _usd(model, source, _verdict(turns), tier)
        return (talk + judged * share) * CONVERSATIONS

    plain, caching = spent(cached=False), spent(cached=True)
    flex = spent(cached=True, tier=_FLEX)
    batched = spent(cached=True, share=SHARE)
    yield from (f"${plain:.2f}", f"${caching:.2f}")
    yield from (f"${flex:.2f}" if flex < caching else "no flex", f"${batched:.2f}")


def _verdict(turns: int) -> Tokens:
    said = USER_MESSAGE.expected + REPLY.expected
    told = TOLD[Role.EVALUATOR].expected + turns * said
    return Tokens(input=round(told), output=round(VERDICT.expected + turns * MARK.expected))


def _talk_usd(model: str, source: str, turns: int, *, cached: bool, tier: str | None) -> float:
    """What user model and target cost in one conversation."""
    said = USER_MESSAGE.expected + REPLY.expected
    total = 0.0
    for role, answer in ((Role.USER, USER_ANSWER), (Role.TARGET, REPLY)):
        told = TOLD[role].expected + (USER_MESSAGE.expected if role is Role.TARGET else 0.0)
        before = 0.0
        for turn in range(turns):
            sent = told + turn * said
            tokens = Tokens(input=round(sent), output=round(answer.expected))
            if cached and before >= SHORTEST_CACHED:
                tokens.cached = round(before)
            if cached and source == "anthropic" and sent >= SHORTEST_CACHED:
                tokens.cache_written = round(sent) - (tokens.cached or 0)
            total += _usd(model, source, tokens, tier)
            before = sent
    return total


def _usd(model: str, source: str, tokens: Tokens, tier: str | None) -> float:
    tokens.tier = tier
    usd = Prices().cost_usd(None, model, PUBLIC_ADDRESSES[source], tokens)
    if usd is None:
        raise ValueError(f"no price of {model} is published")
    return usd
