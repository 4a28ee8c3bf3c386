"""What the store holds already of what is to be imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import ConversationKey, Stage, State, Usage
from engine.importing.verdicts import identity
from engine.store.reader import Reader

_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})
"""A row that waits or is under way has lost its engine."""


@dataclass(frozen=True, slots=True)
class KnownTake:
    """A take of the store."""

    seq: int
    number: int
    finished: bool
    digests: Sequence[bytes]
    """Of its messages, in their order."""

    def is_of(self, digests: Sequence[bytes], *, finished: bool) -> bool:
        """Whether it is what a file tells: the same words, or, where one of the two was not at its
        end, a part of them from the beginning."""
        if self.finished and finished:
            return list(self.digests) == list(digests)
        shorter, longer = (digests, self.digests) if self.finished else (self.digests, digests)
        if not (self.finished or finished) and len(shorter) > len(longer):
            shorter, longer = longer, shorter
        return list(longer[: len(shorter)]) == list(shorter)


@dataclass(slots=True)
class Known:
    """One benchmark of the store as it is before the import."""

    reader: Reader | None
    """None where there is no store yet."""
    benchmark: str
    _keys: frozenset[ConversationKey] | None = None
    _units: dict[Stage, frozenset[str]] = field(default_factory=dict)
    _called: dict[Stage, frozenset[str]] = field(default_factory=dict)

    def has(self, key: ConversationKey) -> bool:
        if self._keys is None:
            takes = [] if self.reader is None else self.reader.takes(self.benchmark)
            self._keys = frozenset(take.key for take in takes)
        return key in self._keys

    def takes(self, key: ConversationKey) -> list[KnownTake]:
        if self.reader is None or not self.has(key):
            return []
        takes = self.reader.takes(self.benchmark, key)
        said = self.reader.message_digests(take.seq for take in takes)
        return [KnownTake(one.seq, one.number, one.finished, said[one.seq]) for one in takes]

    def verdicts(self, take: KnownTake) -> set[tuple[object, ...]]:
        if self.reader is None:
            return set()
        return {identity(verdict) for verdict in self.reader.verdicts(take.seq)}

    def announced(self, stage: Stage, unit: str) -> bool:
        """Whether the store says how this row of work ended."""
        if stage not in self._units:
            units = {} if self.reader is None else self.reader.units(self.benchmark, stage)
            self._units[stage] = frozenset(
                unit for unit, found in units.items() if found.state in _SETTLED
            )
        return unit in self._units[stage]

    def called(self, stage: Stage, unit: str) -> bool:
        """Whether the store has a call that was made for this row of work."""
        if stage not in self._called:
            used = {} if self.reader is None else self.reader.usage_by_unit(self.benchmark, stage)
            self._called[stage] = frozenset(used)
        return unit in self._called[stage]

    def has_metrics(self) -> bool:
        """Whether the store has any that a model wrote, or that was replaced by one."""
        return self.reader is not None and bool(self.reader.metrics(self.benchmark))

    def usage(self, stage: Stage, target: str | None) -> Usage:
        return Usage() if self.reader is None else self.reader.usage(self.benchmark, stage, target)
