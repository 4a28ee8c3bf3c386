"""What counts where several answers were given."""

from __future__ import annotations

from collections.abc import Iterable


def headline(votes: Iterable[bool | None]) -> bool | None:
    """What counts for a conversation: the majority of its verdicts; None for a tie or no vote."""
    given = [vote for vote in votes if vote is not None]
    balance = sum(given) * 2 - len(given)
    return None if balance == 0 else balance > 0
