"""Computes what a reply cost: by the user's own price, else by a published one, else unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from engine.providers.protocols.base import Tokens

_MILLION: Final = Decimal(1_000_000)
SERVICE_TIER: Final = "service_tier"
"""The key of a request, and of the reply, by which published prices differ."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """For tokens in the provider's cache; None means the same as `input`."""

    def cost_usd(self, tokens: Tokens) -> Decimal | None:
        """Return the cost in US dollars; None if the tokens are unknown and not free."""
        if not self.input and not self.output:
            return Decimal(0)
        if tokens.input is None or tokens.output is None:
            return None
        cached = min(tokens.cached or 0, tokens.input)
        cheap = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens.input - cached) * self.input
        # Decimal: a budget adds up tens of thousands of these, and floats would drift
        return (fresh + cached * cheap + tokens.output * self.output) / _MILLION


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Prices:
    """The published prices, which come with the program and are never fetched."""

    now: Callable[[], datetime] = _utc_now

    def load(self) -> None:
        """Load the published prices now instead of with the first question."""
        _published("", "", Tokens(input=0, output=0), self.now())

    def cost_usd(
        self, own: Price | None, model: str, base_url: str, tokens: Tokens
    ) -> float | None:
        """Return the cost in US dollars, at a model's own price if it has one; None if unknown,
        which is not zero."""
        cost = (
            _published(model, base_url, tokens, self.now()) if own is None else own.cost_usd(tokens)
        )
        return None if cost is None else float(cost)


def _published(model: str, base_url: str, tokens: Tokens, at: datetime) -> Decimal | None:
    if tokens.input is None or tokens.output is None:
        return None
    # imported here: 0.1 s, as much as a run on scripted models takes for the rest of this package
    import genai_prices

    cached = min(tokens.cached or 0, tokens.input)
    usage = genai_prices.Usage(
        input_tokens=tokens.input,
        cache_read_tokens=cached or None,
        cache_write_tokens=min(tokens.cache_written or 0, tokens.input - cached) or None,
        output_tokens=tokens.output,
    )
    try:
        calculation = genai_prices.calc_price(
            usage,
            model,
            provider_api_url=base_url,
            genai_request_timestamp=at,
            price_context=None if tokens.tier is None else {SERVICE_TIER: tokens.tier},
        )
    except LookupError:
        return None
    except ValueError:
        # counts that do not add up, for a model with a price for each kind of token
        return None
    return calculation.total_price
