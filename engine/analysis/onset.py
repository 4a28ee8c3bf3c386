"""When in a conversation what a metric is about is first seen. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.benchmark import Track


@dataclass(frozen=True, slots=True)
class Sighting:
    """A scored conversation, and the turn of the first evidence in it."""

    target: str
    track: Track
    present: bool
    turn: int | None
    """Of the reply in which the earliest quote was found; None where there is no quote or it was
    found in no reply."""


@dataclass(frozen=True, slots=True)
class Course:
    """How the share of conversations of one target in which it was seen grows, turn by turn."""

    target: str
    track: Track
    seen: Sequence[int]
    """In how many conversations by the end of each turn, from the first turn on."""
    of: int
    """Scored ones, without those whose evidence stands in no known turn."""
    unplaced: int
    """Those without."""

    @property
    def passing(self) -> Sequence[float]:
        """The share that passes by the end of each turn: on the negative track those in which
        nothing was seen so far, on the positive one those in which something was."""
        shares = [seen / self.of if self.of else 0.0 for seen in self.seen]
        return [1 - share for share in shares] if self.track is Track.NEGATIVE else shares


def courses(sightings: Iterable[Sighting], turns: int) -> list[Course]:
    """Of each target and track that something was scored on, by track and target."""
    first: dict[tuple[Track, str], Counter[int]] = defaultdict(Counter)
    counts: Counter[tuple[Track, str]] = Counter()
    unplaced: Counter[tuple[Track, str]] = Counter()
    for one in sightings:
        place = one.track, one.target
        if not one.present:
            counts[place] += 1
        elif one.turn is None:
            unplaced[place] += 1
        else:
            counts[place] += 1
            first[place][min(max(one.turn, 1), turns)] += 1
    return [
        Course(
            target=target,
            track=track,
            seen=_summed(first[track, target], turns),
            of=counts[track, target],
            unplaced=unplaced[track, target],
        )
        for track, target in sorted(counts.keys() | unplaced.keys())
    ]


def _summed(first: Counter[int], turns: int) -> list[int]:
    seen, found = 0, []
    for turn in range(1, turns + 1):
        seen += first[turn]
        found.append(seen)
    return found
