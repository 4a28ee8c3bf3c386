"""The verdicts of a benchmark in the order in which their conversations were first judged.

It holds an id and a number for each; the rows themselves stay in the store until they are seen. A
conversation that is judged again keeps its place, so that nothing moves under a reader.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from engine.benchmark import ConversationKey
from engine.store.reader import Reader
from engine.store.records import VerdictRow

CHUNK: Final = 1000
"""Rows taken in at once: more of them would hold up the screen."""


class VerdictFeed:
    """Rows for a table of verdicts."""

    def __init__(self, reader: Reader, benchmark: str) -> None:
        self.benchmark = benchmark
        self._reader = reader
        self._keys: list[ConversationKey] = []
        self._seqs = array("q")
        """Of the newest verdict on each."""
        self._places: dict[ConversationKey, int] = {}
        self._seen = 0

    def pull(self) -> tuple[list[int], bool]:
        """Take in what is new: which rows are not what they were, and whether there is more."""
        rows = self._reader.verdict_rows(self.benchmark, after=self._seen, limit=CHUNK)
        changed: list[int] = []
        for row in rows:
            self._seen = max(self._seen, row.seq)
            place = self._places.get(row.key)
            if place is None:
                self._places[row.key] = len(self._keys)
                self._keys.append(row.key)
                self._seqs.append(row.seq)
            else:
                self._seqs[place] = row.seq
                changed.append(place)
        return changed, len(rows) >= CHUNK

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, index: int) -> ConversationKey:
        return self._keys[index]

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        """None stands for one that has no verdict any more, as after it was played again."""
        wanted = self._seqs[start : start + count]
        if not wanted:
            return []
        first = min(wanted)
        near = self._reader.verdict_rows(self.benchmark, after=first - 1, limit=count)
        found = {row.key: row for row in near}
        return [
            found.get(self._keys[place]) or self._single(self._keys[place], seq)
            for place, seq in enumerate(wanted, start)
        ]

    def _single(self, key: ConversationKey, seq: int) -> VerdictRow | None:
        """One that was judged again long after its neighbours."""
        rows = self._reader.verdict_rows(self.benchmark, after=seq - 1, limit=1)
        return rows[0] if rows and rows[0].key == key else None
