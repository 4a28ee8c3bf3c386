"""The turn at which a metric's behaviour is first seen in a conversation. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.benchmark import Track


@dataclass(frozen=True, slots=True)
class OnsetObservation:
    """A scored conversation, and when the behaviour is seen in it."""

    target: str
    track: Track
    present: Sequence[bool] | None
    """Whether it would count as present had the conversation ended with each turn, from the first
    one on; None where it is present and nobody knows since when."""


def since(turn: int) -> Sequence[bool]:
    """An `OnsetObservation.present` that begins with this turn, 1-based."""
    return (*[False] * (turn - 1), True)


@dataclass(frozen=True, slots=True)
class OnsetCurve:
    """In how many of one target's conversations the behaviour was seen, turn by turn."""

    target: str
    track: Track
    seen: Sequence[int]
    """Conversations in which it counts as present by the end of each turn."""
    of: int
    """Scored conversations, without `unplaced`."""
    unplaced: int
    """Conversations in which it is present and its turn is not known."""

    @property
    def passing(self) -> Sequence[float]:
        """The share that passes by the end of each turn: on the negative track, those in which it
        was not seen so far, on the positive one, those in which it was."""
        shares = [seen / self.of if self.of else 0.0 for seen in self.seen]
        return [1 - share for share in shares] if self.track is Track.NEGATIVE else shares


def onset_curves(sightings: Iterable[OnsetObservation], turns: int) -> list[OnsetCurve]:
    """The curves of each track and target with scored conversations, in that order."""
    seen: dict[tuple[Track, str], Counter[int]] = defaultdict(Counter)
    counts: Counter[tuple[Track, str]] = Counter()
    unplaced: Counter[tuple[Track, str]] = Counter()
    for sighting in sightings:
        place = sighting.track, sighting.target
        if sighting.present is None:
            unplaced[place] += 1
            continue
        counts[place] += 1
        # after its end a conversation stays as it is; turns beyond `turns` count for the last
        ends = [*range(min(turns, len(sighting.present)) - 1), *[-1] * turns][:turns]
        seen[place].update(turn for turn, end in enumerate(ends) if sighting.present[end])
    return [
        OnsetCurve(
            target=target,
            track=track,
            seen=[seen[track, target][turn] for turn in range(turns)],
            of=counts[track, target],
            unplaced=unplaced[track, target],
        )
        for track, target in sorted(counts.keys() | unplaced.keys())
    ]
