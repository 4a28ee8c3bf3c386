"""How much of what counts no longer is what would be asked today, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Stale:
    """Why what counts for one conversation no longer is what would be asked today. What came from
    files that do not say what it was made from is not known to be stale."""

    take: tuple[str, ...] = ()
    """The inputs that changed since it was played, such as `metric definition`."""
    verdicts: tuple[tuple[str, ...], ...] = ()
    """Of each verdict that counts and is stale, those that changed since it was given."""

    def __bool__(self) -> bool:
        return bool(self.take or self.verdicts)


UP_TO_DATE = Stale()


@dataclass(frozen=True, slots=True)
class Staleness:
    """Of all conversations of a part of the benchmark that count."""

    conversations: int = 0
    """All of them."""
    verdicts: int = 0
    """All that count."""
    stale: int = 0
    """Conversations of which the take or a verdict is stale."""
    stale_takes: int = 0
    stale_verdicts: int = 0
    takes_why: Mapping[str, int] = field(default_factory=dict)
    """How many takes, by each input that changed since; of one take several may have."""
    verdicts_why: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def over(cls, conversations: Iterable[tuple[Stale, int]]) -> Self:
        """Each with how many verdicts count for it."""
        takes: Counter[str] = Counter()
        verdicts: Counter[str] = Counter()
        count = given = some = stale_takes = stale_verdicts = 0
        for stale, counting in conversations:
            count += 1
            given += counting
            if stale:
                some += 1
                stale_takes += bool(stale.take)
                stale_verdicts += len(stale.verdicts)
                takes.update(stale.take)
                for changed in stale.verdicts:
                    verdicts.update(changed)
        whys = _sorted(takes), _sorted(verdicts)
        return cls(count, given, some, stale_takes, stale_verdicts, *whys)

    @property
    def why(self) -> list[str]:
        """What changed, of takes and verdicts alike."""
        return sorted({*self.takes_why, *self.verdicts_why})

    def __add__(self, other: Staleness) -> Staleness:
        return Staleness(
            self.conversations + other.conversations,
            self.verdicts + other.verdicts,
            self.stale + other.stale,
            self.stale_takes + other.stale_takes,
            self.stale_verdicts + other.stale_verdicts,
            _sums(self.takes_why, other.takes_why),
            _sums(self.verdicts_why, other.verdicts_why),
        )


def sums(parts: Iterable[Mapping[str, Staleness]]) -> Mapping[str, Staleness]:
    """Of all parts together, by the same names."""
    found: dict[str, Staleness] = {}
    for part in parts:
        for name, one in part.items():
            found[name] = found.get(name, Staleness()) + one
    return found


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return _sorted(Counter(one) + Counter(other))


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
