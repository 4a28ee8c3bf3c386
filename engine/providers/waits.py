"""What calls wait for, to be shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class HeldCalls(NamedTuple):
    """What calls to a model wait for."""

    why: str
    seconds: int | None
    """Seconds until that is over; None if unknown."""
    calls: int = 1

    def __str__(self) -> str:
        return self.why if self.seconds is None else f"{self.why}, again in {self.seconds} s"


@dataclass(slots=True)
class ModelWaits:
    """What the calls to one model wait for, to be shown."""

    _pending: dict[int, tuple[float, str]] = field(default_factory=dict)
    _number: int = 0
    outside: int = 0
    """Calls that its limiter has not admitted yet."""

    @property
    def calls(self) -> int:
        return self.outside + len(self._pending)

    def begin(self, until: float, words: str) -> int:
        """Note that a call waits until `until`, a monotonic time; return a number for `end`."""
        self._number += 1
        self._pending[self._number] = (until, words)
        return self._number

    def end(self, number: int) -> None:
        del self._pending[number]

    @contextmanager
    def holding(self, words: str) -> Iterator[None]:
        """Note that a call waits while the block runs, for an unknown time."""
        number = self.begin(math.inf, words)
        try:
            yield
        finally:
            self.end(number)

    def soonest(self, now: float) -> HeldCalls | None:
        """Return the wait that ends first."""
        if not self._pending:
            return None
        until, words = min(self._pending.values())
        seconds = None if until == math.inf else whole_seconds(until - now)
        return HeldCalls(words, seconds, len(self._pending))


def whole_seconds(seconds: float) -> int:
    return max(1, math.ceil(seconds))
