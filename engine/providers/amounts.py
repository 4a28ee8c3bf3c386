"""Amounts of money as servers write them."""

from __future__ import annotations

from engine.benchmark import plausible_usd


def amount(value: object) -> float | None:
    """US dollars for one request; None for anything that is no such amount."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # bounded before it becomes a float, as an int may be too large for one
    bounded = plausible_usd(value)
    return None if bounded is None else float(bounded)
