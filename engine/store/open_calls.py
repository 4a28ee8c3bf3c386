"""What the calls under way may cost: a sum that is on disk before they are sent."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

SPARE: Final = 1.15
"""What is stored, as a multiple of what the calls under way may cost, so that one more of them
rarely waits for a commit of its own."""
TOO_MUCH: Final = 1.5
"""The multiple above which less is stored with the next commit."""


class OpenCalls:
    """Sums up what calls may cost, in US dollars, from before they are sent until the rows of their
    attempts are on disk. Any thread begins and ends calls; only the writer's stores."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0.0
        self._calls = 0
        self._on_disk = 0.0
        self._ended: deque[tuple[int, float]] = deque()
        """Calls that are over: the number of the last request of theirs, and what they might have
        cost."""

    def begin(self, usd: float, written: int) -> bool:
        """Add a call; return whether what is on disk covers it. `written` is the number of the last
        request that is on disk."""
        with self._lock:
            self._forget(written)
            self._open += usd
            self._calls += 1
            return self._open <= self._on_disk

    def end(self, usd: float, last: int) -> None:
        """Remove a call once the request with the number `last` is on disk."""
        with self._lock:
            self._ended.append((last, usd))

    def to_store(self, written: int) -> float | None:
        """Return the sum to store; None if the one on disk will do."""
        with self._lock:
            self._forget(written)
            if self._open <= self._on_disk <= self._open * SPARE * TOO_MUCH:
                return None
            amount = self._open * SPARE
            # until it is stored, a call may rely on the lesser of both only
            self._on_disk = min(self._on_disk, amount)
            return amount

    def stored(self, amount: float | None) -> None:
        """Say that this sum is on disk, if it is another one."""
        if amount is not None:
            with self._lock:
                self._on_disk = amount

    def _forget(self, written: int) -> None:
        while self._ended and self._ended[0][0] <= written:
            self._open -= self._ended.popleft()[1]
            self._calls -= 1
        if not self._calls:  # what rounding left
            self._open = 0.0
