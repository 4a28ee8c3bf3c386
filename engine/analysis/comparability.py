"""Whether targets were put to the same test: how much of their plan conversations reached, and
whether a target could have known the user's demographic group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import Self

from engine.benchmark import Landmark, StopReason
from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import metric_rate

_ENDED_EARLY = frozenset({StopReason.USER_ENDED, StopReason.CONTEXT_FULL})


def unreached_landmarks(landmarks: Iterable[Landmark], turns: int) -> list[Landmark]:
    """The landmarks that a conversation of so many turns did not reach."""
    return [mark for mark in landmarks if mark.turn > turns]


@dataclass(frozen=True, slots=True)
class ExposedConversation:
    """How much of its plan a finished conversation reached."""

    early: bool
    """Whether it ended before its last planned turn. Where the plan of an imported conversation is
    not known: before its last landmark."""
    planned: int
    """Landmarks of its scenario."""
    reached: int
    """Landmarks whose turn was spoken."""
    turns: int = 0
    withheld: int = 0
    """Replies that a provider's filter withheld or the model refused."""

    @classmethod
    def of(
        cls,
        landmarks: Sequence[Landmark],
        turns: int,
        ended: StopReason | None,
        *,
        withheld: int = 0,
    ) -> Self:
        missed = len(unreached_landmarks(landmarks, turns))
        early = ended in _ENDED_EARLY or (ended is StopReason.UNKNOWN and missed > 0)
        return cls(early, len(landmarks), len(landmarks) - missed, turns, withheld)


@dataclass(frozen=True, slots=True)
class Exposure:
    """How much of their plans several conversations reached."""

    conversations: int = 0
    early: int = 0
    """Conversations that ended before their last planned turn."""
    planned: int = 0
    """Landmarks of all their scenarios."""
    reached: int = 0
    with_landmarks: int = 0
    """Conversations that have any."""
    reached_last: int = 0
    """Conversations that reached their last landmark."""
    turns: int = 0
    """Turns that were begun, most with a reply."""
    withheld: int = 0
    """Replies that a provider's filter withheld or the model refused."""

    @classmethod
    def over(cls, conversations: Iterable[ExposedConversation]) -> Self:
        exposures = list(conversations)
        return cls(
            conversations=len(exposures),
            early=sum(exposure.early for exposure in exposures),
            planned=sum(exposure.planned for exposure in exposures),
            reached=sum(exposure.reached for exposure in exposures),
            with_landmarks=sum(exposure.planned > 0 for exposure in exposures),
            reached_last=sum(0 < exposure.planned == exposure.reached for exposure in exposures),
            turns=sum(exposure.turns for exposure in exposures),
            withheld=sum(exposure.withheld for exposure in exposures),
        )

    def __add__(self, other: Exposure) -> Exposure:
        return Exposure(*map(add, astuple(self), astuple(other)))

    @property
    def early_share(self) -> float | None:
        return self.early / self.conversations if self.conversations else None

    @property
    def reached_share(self) -> float | None:
        return self.reached / self.planned if self.planned else None

    @property
    def is_full(self) -> bool:
        """Whether no conversation ended early, all landmarks were reached and no reply was
        withheld."""
        return self.early == 0 and self.reached == self.planned and self.withheld == 0


@dataclass(frozen=True, slots=True)
class GuessedAxis:
    """The guess about one axis of one counting conversation."""

    axis: str
    base_scenario: str
    group: str
    """The group that the user model played."""
    right: bool | None
    """Whether it was guessed right; None where nobody guessed."""
    model: str | None = None
    """The label of the model that guessed."""


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """How often the group on one axis was guessed right."""

    axis: str
    of: int
    """Counting conversations that have this axis."""
    checked: int
    right: int
    low: float | None
    """The 95% interval of the share guessed right is `low` to `high`; None where nothing was
    checked."""
    high: float | None
    chance: float | None
    """The share of the commonest group: what always naming that group would get right."""
    models: tuple[str, ...]
    """The labels of the models that guessed."""

    @property
    def rate(self) -> float | None:
        return self.right / self.checked if self.checked else None

    @property
    def could_be_known(self) -> bool:
        """Whether the guesses are significantly better than chance: `low` is above `chance`."""
        return self.low is not None and self.chance is not None and self.low > self.chance


def group_checks(guesses: Iterable[GuessedAxis]) -> dict[str, GroupCheck]:
    """By axis, including axes without a guess. In the interval, the conversations of a base
    scenario are one cluster, as in `metric_rate`."""
    by_axis: defaultdict[str, list[GuessedAxis]] = defaultdict(list)
    for guess in guesses:
        by_axis[guess.axis].append(guess)
    return {axis: _check(axis, by_axis[axis]) for axis in sorted(by_axis)}


def _check(axis: str, guesses: list[GuessedAxis]) -> GroupCheck:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    groups: Counter[str] = Counter()
    for guess in guesses:
        if guess.right is not None:
            clusters[guess.base_scenario].append(float(guess.right))
            groups[guess.group] += 1
    stratum = [Cluster.of(values) for values in clusters.values()]
    rate = metric_rate(stratum, intraclass_correlation([stratum])) if stratum else None
    checked = groups.total()
    return GroupCheck(
        axis=axis,
        of=len(guesses),
        checked=checked,
        right=sum(bool(guess.right) for guess in guesses),
        low=None if rate is None else rate.interval.low,
        high=None if rate is None else rate.interval.high,
        chance=max(groups.values()) / checked if checked else None,
        models=tuple(sorted({guess.model for guess in guesses if guess.model})),
    )


def unchecked_axes(checks: Mapping[str, GroupCheck], axes: Iterable[str]) -> list[str]:
    """The axes on which nothing was guessed."""
    return [axis for axis in axes if axis not in checks or not checks[axis].checked]
