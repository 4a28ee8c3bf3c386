"""When each fact of a store is shown again, counted in seconds from the first one."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime


class Timeline:
    """Offsets never fall, even where the clock of the machine was set back."""

    def __init__(
        self, beats: Iterable[tuple[int, datetime]], begin: int, longest_gap: float | None
    ) -> None:
        """Facts up to `begin` are there from the start. A time in which nothing happened is cut to
        `longest_gap` seconds where it was longer."""
        self._seqs = array("q")
        self._offsets = array("d")
        offset, last = 0.0, None
        for seq, at in beats:
            if last is not None and seq > begin:
                gap = max(0.0, (at - last).total_seconds())
                offset += gap if longest_gap is None else min(gap, longest_gap)
            if seq >= begin:
                last = at
            self._seqs.append(seq)
            self._offsets.append(offset)

    @property
    def seconds(self) -> float:
        """How long all of it takes."""
        return self._offsets[-1] if self._offsets else 0.0

    def of(self, seq: int) -> float:
        """When this fact is shown; 0 for one that is not known."""
        found = bisect_left(self._seqs, seq)
        return self._offsets[found] if found < len(self._seqs) else 0.0

    def until(self, seconds: float) -> int:
        """The last fact that is shown by then; 0 for none."""
        found = bisect_right(self._offsets, seconds)
        return self._seqs[found - 1] if found else 0
