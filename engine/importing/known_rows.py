"""What the store has of a benchmark before an import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import ConversationKey, Stage, State, Usage
from engine.importing.verdicts import check_identity, identity
from engine.store.reader import Reader
from engine.store.tables import MetricRow, ReviewRow, StoredTake

_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})
"""A row of work that is queued or running has lost its engine."""


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

    reader: Reader | None
    """None if there is no store yet."""
    benchmark: str
    _keys: frozenset[ConversationKey] | None = None
    _units: dict[Stage, dict[str, State]] = field(default_factory=dict)
    _called: dict[Stage, frozenset[str]] = field(default_factory=dict)

    def has(self, key: ConversationKey) -> bool:
        """Whether there is a take of it, finished or not. Reads all keys once."""
        if self._keys is None:
            takes = [] if self.reader is None else self.reader.takes(self.benchmark)
            self._keys = frozenset(take.key for take in takes)
        return key in self._keys

    def takes(self, key: ConversationKey) -> list[KnownTake]:
        """Return its takes, oldest first, with digests of messages instead of texts."""
        if self.reader is None or not self.has(key):
            return []
        takes = self.reader.takes(self.benchmark, key)
        digests = self.reader.message_digests(take.seq for take in takes)
        return [(take, digests[take.seq]) for take in takes]

    def verdicts(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `identity` of each verdict on a take."""
        if self.reader is None:
            return set()
        return {identity(verdict) for verdict in self.reader.verdicts(take.seq)}

    def checks(self, take: StoredTake) -> set[tuple[object, ...]]:
        """Return the `check_identity` of each check of a take."""
        if self.reader is None:
            return set()
        return {check_identity(check) for check in self.reader.checks_of([take.seq])[take.seq]}

    def announced(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a settled state of this row of work."""
        return self._state(stage, unit) in _SETTLED

    def is_done(self, stage: Stage, unit: str) -> bool:
        return self._state(stage, unit) is State.DONE

    def _state(self, stage: Stage, unit: str) -> State | None:
        if stage not in self._units:
            units = {} if self.reader is None else self.reader.units(self.benchmark, stage)
            self._units[stage] = {name: state_row.state for name, state_row in units.items()}
        return self._units[stage].get(unit)

    def has_call(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a call for this row of work."""
        if stage not in self._called:
            used = {} if self.reader is None else self.reader.usage_by_unit(self.benchmark, stage)
            self._called[stage] = frozenset(used)
        return unit in self._called[stage]

    def settings(self) -> set[str]:
        """The digests of models and prompts that the store can explain."""
        return (
            set() if self.reader is None else {row.digest for row in self.reader.model_settings()}
        )

    def has_metrics(self) -> bool:
        """Whether the store has metrics that a model wrote, or that such ones replaced."""
        return self.reader is not None and bool(self.reader.metrics(self.benchmark))

    def has_reviews(self) -> bool:
        """Whether the store has any review."""
        return self.reader is not None and bool(self.reader.reviews(self.benchmark))

    def lost_metrics(self, written: Sequence[MetricRow]) -> list[MetricRow]:
        """Those of whose metric the store has no row: an older one, added now, would count."""
        rows = [] if self.reader is None else self.reader.metric_rows(self.benchmark)
        there = {row.metric.id for row in rows}
        return [row for row in written if row.metric.id not in there]

    def lost_reviews(self, written: Sequence[ReviewRow]) -> list[ReviewRow]:
        """Those that the store has not, without any that was made before one of the same metric or
        scenario that it has: added now, it would count."""
        rows = [] if self.reader is None else self.reader.reviews(self.benchmark)
        there = {(row.at, row.action, row.person) for row in rows}
        newest = {(item.kind, item.id): row.at or 0 for row in rows for item in row.items}
        return [
            row
            for row in written
            if (row.at, row.action, row.person) not in there
            and all((row.at or 0) >= newest.get((item.kind, item.id), 0) for item in row.items)
        ]

    def usage(self, stage: Stage, target: str | None) -> Usage:
        """Return the usage of a stage's calls for a target, or for all if None."""
        return Usage() if self.reader is None else self.reader.usage(self.benchmark, stage, target)
