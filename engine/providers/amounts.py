"""Amounts of money as servers write them."""

from __future__ import annotations

from typing import Final

from engine.benchmark import plausible_usd

MOST_OF_A_CALL_USD: Final = 1_000.0
"""More than any request can cost at any published price. What says more counts in another unit."""


def amount(value: object) -> float | None:
    """US dollars for one request; None for anything that is no such amount."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # bounded before it becomes a float, as an int may be too large for one
    bounded = plausible_usd(value)
    return None if bounded is None or bounded > MOST_OF_A_CALL_USD else float(bounded)
