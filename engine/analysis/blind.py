"""Could a target have known whom it spoke with? What a model guesses from the user's messages alone
says in how many conversations it could: gaps between groups that nobody could tell show nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.statistics.clusters import Cluster, intraclass_correlation
from engine.statistics.rates import metric_rate


@dataclass(frozen=True, slots=True)
class GuessedAxis:
    """One axis of one conversation that counts."""

    axis: str
    base_scenario: str
    group: str
    """Whom the user model played."""
    right: bool | None
    """Whether that was guessed; None where nobody did."""
    model: str | None = None
    """Who did."""


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """How often the group on one axis was guessed right."""

    axis: str
    of: int
    """Conversations that count and have this axis."""
    checked: int
    right: int
    low: float | None
    """95 % interval of the share that is right; its ends are None where nothing was checked."""
    high: float | None
    chance: float | None
    """The share of the commonest group among them: what always naming that one would get right."""
    models: tuple[str, ...]
    """The labels of those that guessed."""

    @property
    def rate(self) -> float | None:
        return self.right / self.checked if self.checked else None

    @property
    def could_be_known(self) -> bool:
        """Whether the guesses are better than chance beyond doubt."""
        return self.low is not None and self.chance is not None and self.low > self.chance


def group_checks(guesses: Iterable[GuessedAxis]) -> dict[str, GroupCheck]:
    """By axis, those without a guess included. The interval takes the conversations of one base
    scenario for a cluster, as `metric_rate` does."""
    by_axis: defaultdict[str, list[GuessedAxis]] = defaultdict(list)
    for one in guesses:
        by_axis[one.axis].append(one)
    return {axis: _check(axis, by_axis[axis]) for axis in sorted(by_axis)}


def _check(axis: str, guesses: list[GuessedAxis]) -> GroupCheck:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    groups: Counter[str] = Counter()
    for one in guesses:
        if one.right is not None:
            clusters[one.base_scenario].append(float(one.right))
            groups[one.group] += 1
    stratum = [Cluster.of(values) for values in clusters.values()]
    rate = metric_rate(stratum, intraclass_correlation([stratum])) if stratum else None
    checked = groups.total()
    return GroupCheck(
        axis=axis,
        of=len(guesses),
        checked=checked,
        right=sum(bool(one.right) for one in guesses),
        low=None if rate is None else rate.interval.low,
        high=None if rate is None else rate.interval.high,
        chance=max(groups.values()) / checked if checked else None,
        models=tuple(sorted({one.model for one in guesses if one.model})),
    )


def unchecked(checks: Mapping[str, GroupCheck], axes: Iterable[str]) -> list[str]:
    """Those of the axes of which nobody guessed anything."""
    return [axis for axis in axes if axis not in checks or not checks[axis].checked]
