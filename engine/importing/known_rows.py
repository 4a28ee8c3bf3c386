"""What the store has of a benchmark before an import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import ConversationKey, Stage, State
from engine.importing.verdicts import check_identity, identity
from engine.store.reader import Reader
from engine.store.tables import MetricRow, ReviewRow, StateRow, StoredTake

_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})

KnownTake = tuple[StoredTake, Sequence[bytes]]
"""A stored take, and the digests of its messages in order."""


def is_same(known: KnownTake, digests: Sequence[bytes], *, finished: bool) -> bool:
    """Whether it is the take in a file: the same messages, or, if either is unfinished, a prefix of
    them."""
    take, stored = known
    if take.finished and finished:
        return list(stored) == list(digests)
    shorter, longer = (digests, stored) if take.finished else (stored, digests)
    if not (take.finished or finished) and len(shorter) > len(longer):
        shorter, longer = longer, shorter
    return list(longer[: len(shorter)]) == list(shorter)


@dataclass(slots=True)
class KnownRows:
    """What the store has of one benchmark before the import."""

    reader: Reader
    benchmark: str
    _keys: frozenset[ConversationKey] | None = None
    _units: dict[Stage, dict[str, StateRow]] = field(default_factory=dict)
    _called: dict[Stage, frozenset[str]] = field(default_factory=dict)

    def takes(self, key: ConversationKey) -> list[KnownTake]:
        """Return its takes, oldest first, with digests of messages instead of texts."""
        if self._keys is None:
            self._keys = frozenset(take.key for take in self.reader.takes(self.benchmark))
        if key not in self._keys:
            return []
        takes = self.reader.takes(self.benchmark, key)
        digests = self.reader.message_digests(take.seq for take in takes)
        return [(take, digests[take.seq]) for take in takes]

    def verdicts(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `identity` of each verdict on a take."""
        return {identity(verdict) for verdict in self.reader.verdicts(take.seq)}

    def checks(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `check_identity` of each check of a take."""
        return {check_identity(check) for check in self.reader.checks_of([take.seq])[take.seq]}

    def state(self, stage: Stage, unit: str) -> State | None:
        """Return the newest state of a row of work, if that is settled: one that is queued or
        running has lost its engine."""
        if stage not in self._units:
            self._units[stage] = self.reader.units(self.benchmark, stage)
        row = self._units[stage].get(unit)
        return row.state if row is not None and row.state in _SETTLED else None

    def has_call(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a call for this row of work."""
        if stage not in self._called:
            self._called[stage] = frozenset(self.reader.usage_by_unit(self.benchmark, stage))
        return unit in self._called[stage]

    def new_metrics(self, written: Sequence[MetricRow]) -> list[MetricRow]:
        """Those of whose metric the store has no row: an older one, added now, would count."""
        there = {row.metric.id for row in self.reader.metric_rows(self.benchmark)}
        return [row for row in written if row.metric.id not in there]

    def new_reviews(self, written: Sequence[ReviewRow]) -> list[ReviewRow]:
        """Those that the store has not, without any that was made before one of the same metric or
        scenario that it has: added now, it would count."""
        rows = self.reader.reviews(self.benchmark)
        there = {(row.at, row.action, row.person) for row in rows}
        newest = {(item.kind, item.id): row.at or 0 for row in rows for item in row.items}
        return [
            row
            for row in written
            if (row.at, row.action, row.person) not in there
            and all((row.at or 0) >= newest.get((item.kind, item.id), 0) for item in row.items)
        ]
