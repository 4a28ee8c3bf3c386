"""A price is looked up, never guessed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from engine.providers.pricing import Price, Prices
from engine.providers.protocols.base import Tokens

OPENAI = "https://api.openai.com/v1"
PRICES = Prices(now=lambda: datetime(2026, 11, 1, tzinfo=UTC))
OWN = Price(Decimal(2), Decimal(10), Decimal("0.5"))


def test_ones_own_price_comes_first_and_cached_input_is_cheaper() -> None:
    tokens = Tokens(input=1_000_000, cached=400_000, output=100_000)
    found = PRICES.cost_usd(OWN, "gpt-4o", OPENAI, tokens)
    assert found == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    flat = Price(Decimal(1), Decimal(1))
    assert PRICES.cost_usd(flat, "gpt-4o", OPENAI, tokens) == pytest.approx(1.1)


def test_published_prices_take_all_of_the_input_with_the_cached_part_of_it() -> None:
    whole = PRICES.cost_usd(None, "gpt-4o", OPENAI, Tokens(input=1000, output=100))
    cached = PRICES.cost_usd(None, "gpt-4o", OPENAI, Tokens(input=1000, cached=500, output=100))
    assert whole == pytest.approx(0.0035)
    assert cached == pytest.approx(0.002875)


@pytest.mark.parametrize(
    ("tier", "times"), [(None, 1), ("default", 1), ("auto", 1), ("flex", 0.5), ("priority", 2)]
)
def test_the_service_tier_decides_which_published_price_counts(
    tier: str | None, times: float
) -> None:
    tokens = Tokens(input=1_000_000, output=100_000, tier=tier)
    assert PRICES.cost_usd(None, "gpt-5", OPENAI, tokens) == pytest.approx(times * 2.25)
    assert PRICES.cost_usd(OWN, "gpt-5", OPENAI, tokens) == 3, "one's own price is what it is"


def test_what_a_cache_was_written_with_costs_more() -> None:
    url = "https://api.anthropic.com"
    plain = PRICES.cost_usd(None, "claude-sonnet-4-5", url, Tokens(input=5000, output=10))
    written = PRICES.cost_usd(
        None, "claude-sonnet-4-5", url, Tokens(input=5000, cache_written=5000, output=10)
    )
    assert plain is not None
    assert written is not None
    assert written == pytest.approx(plain + 5000 * 3e-6 * 0.25)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "https://api.deepinfra.com/v1/openai"),
        ("llama3", "http://127.0.0.1:11434/v1"),
        ("swiss-ai/apertus-8b-instruct", "https://api.publicai.co/v1"),
        ("gpt-4o", "https://proxy.example/v1"),
        ("no-such-model", OPENAI),
    ],
)
def test_an_unknown_price_is_unknown(model: str, url: str) -> None:
    assert PRICES.cost_usd(None, model, url, Tokens(input=10, output=10)) is None


@pytest.mark.parametrize("tokens", [Tokens(), Tokens(input=1), Tokens(output=1)])
def test_without_counts_there_is_no_price(tokens: Tokens) -> None:
    assert PRICES.cost_usd(None, "gpt-4o", OPENAI, tokens) is None
    assert PRICES.cost_usd(OWN, "gpt-4o", OPENAI, tokens) is None


def test_what_is_for_nothing_costs_nothing_however_much_it_was() -> None:
    free = Price(Decimal(0), Decimal(0))
    assert PRICES.cost_usd(free, "mine", "", Tokens()) == 0


def test_counts_that_do_not_add_up_are_no_fault_of_the_run() -> None:
    odd = Tokens(input=10, cached=50, cache_written=50, output=1)
    assert PRICES.cost_usd(None, "gpt-4o", OPENAI, odd) is not None
