"""What calls will cost, in words: before they are paid for, and where a report offers more."""

from __future__ import annotations

from typing import Final

from engine.pipeline.estimate import CostEstimate
from engine.pipeline.plan import number_words
from engine.pipeline.ranges import Range

CENT: Final = 0.01


def calls_words(amount: Range) -> str:
    return counted(amount, "call")


def counted(amount: Range, noun: str) -> str:
    words = number_words(amount)
    return f"{words} {noun}" + ("" if words == "1" else "s")


def usd(estimate: CostEstimate) -> str:
    """In US dollars."""
    if estimate.is_free:
        return "free"
    known = dollars(estimate.usd)
    if not estimate.unpriced.high:
        return f"about {known}"
    return f"about {known}, and prices that are not known" if estimate.usd.high else "price unknown"


def dollars(amount: Range) -> str:
    """`$0.11 to $4.35`; as one where both are written alike."""
    if amount.high < CENT:
        return "less than a cent"
    low, high = f"${amount.low:.2f}", f"${amount.high:.2f}"
    return high if low == high else f"{low} to {high}"


def total_words(total: CostEstimate) -> str:
    """Calls and price in one sentence."""
    return f"{calls_words(total.calls)}, {usd(total)}"
