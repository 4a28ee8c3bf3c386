"""How targets stand while verdicts come: by the rule of the results, worked out away from the loop
and no more often than it is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeAlias

from engine.benchmark import Track
from engine.errors import StoreError
from engine.facts import Fact, VerdictGiven
from engine.store.reader import Reader

if TYPE_CHECKING:
    from engine.statistics.rates import Rate

AGAIN_AFTER: Final = 2.0
"""Seconds between two times at least."""
SHARE: Final = 40
"""Times as long as the last one took, at least: so that a large store costs no more than a small
one."""
Standings: TypeAlias = "Mapping[tuple[str, Track], Rate]"
"""By target and track."""


class StandingFeed:
    """Hears of verdicts, says when it is time to read, and keeps what was read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, Standings] = {}
        self._asked: dict[str, int] = {}
        """By benchmark: the last verdict that was known when it was asked for."""
        self._judged: dict[str, int] = {}
        """By benchmark: the last verdict."""
        self._asked_at = float("-inf")
        self._took = 0.0
        self._reading = False
        self.fault: str | None = None

    def hear(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, VerdictGiven):
                self._judged[fact.benchmark] = fact.seq

    def of(self, benchmark: str) -> Standings | None:
        """None where it was not worked out yet."""
        return self._known.get(benchmark)

    def due(self, benchmark: str, seconds: float) -> bool:
        """Whether to `read` now."""
        if self._reading:
            return False
        asked = self._asked.get(benchmark)
        if asked is None:
            return True
        pause = max(AGAIN_AFTER, SHARE * self._took)
        return self._judged.get(benchmark, 0) > asked and seconds - self._asked_at >= pause

    async def read(self, benchmark: str, seconds: float) -> None:
        self._reading, self._asked_at = True, seconds
        self._asked[benchmark] = self._judged.get(benchmark, 0)
        began = monotonic()
        try:
            self._known[benchmark] = await asyncio.to_thread(_read, self._reader.path, benchmark)
            self.fault = None
        except StoreError as error:
            self.fault = str(error)
        finally:
            self._reading = False
            self._took = monotonic() - began


def _read(store: Path, benchmark: str) -> Standings:
    """By a connection of its own: in a large store it takes a while, and the watch does not wait
    for it."""
    # Imported here, since nothing is scored at the start and it takes its time.
    from engine.pipeline.standings import standings
    from engine.store.reading import open_reader

    if not store.exists():
        return {}
    with closing(open_reader(store)) as reader:
        return standings(reader, benchmark)
