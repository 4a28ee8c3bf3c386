"""The design of a study: the differences that a plan can detect, and stratified random samples with
known inclusion probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from typing import Final, Generic, TypeVar

from engine.statistics.clusters import (
    degrees_of_freedom,
    design_effect,
    effective_number,
    merged_strata,
    whole_freedom,
)
from engine.statistics.distributions import student_quantile
from engine.statistics.paired import (
    ERROR_RATE,
    expected_freedom,
    hidden_variance,
    shared_freedom,
)

_LEAST: Final = 2
"""Things drawn from each stratum, as its variance takes two."""

_Thing = TypeVar("_Thing")
StratumKey = tuple[str, ...]
"""The properties that the things of a stratum share, the most important first."""


@dataclass(frozen=True, slots=True)
class SampledItem(Generic[_Thing]):
    """One thing of a sample."""

    thing: _Thing
    stratum: str
    """The name of the stratum that it was drawn from, after merging."""
    inclusion: float
    """The probability with which it was drawn, above 0."""


def stratified_sample(
    strata: Mapping[StratumKey, Sequence[_Thing]], size: int, seed: str
) -> list[SampledItem[_Thing]]:
    """`size` things in random order, or all of them where there are no more; the same for the same
    seed and the same things in the same order.

    Strata are merged until each has two things and two can be drawn from each: the smallest with
    the one that shares most of its leading parts, of several the smallest. Allocation is in
    proportion to the root of a stratum's size: M. D. Bankier, The American Statistician 42 (1988)
    174-177, power 1/2, a compromise between the whole and each stratum.
    """
    # a generator of its own, so that nothing else that draws changes the sample
    chance = Random(seed)
    merged = _merge_strata(strata, max(1, size // _LEAST))
    drawn: list[SampledItem[_Thing]] = []
    for (name, members), number in zip(
        merged.items(), _allocate([len(members) for members in merged.values()], size), strict=True
    ):
        inclusion = number / len(members)
        drawn += [SampledItem(member, name, inclusion) for member in chance.sample(members, number)]
    chance.shuffle(drawn)
    return drawn


def _merge_strata(
    strata: Mapping[StratumKey, Sequence[_Thing]], most: int
) -> dict[str, list[_Thing]]:
    ready = {key: list(members) for key, members in sorted(strata.items()) if members}
    while len(ready) > 1:
        smallest = min(ready, key=lambda key: (len(ready[key]), key))
        if len(ready) <= most and len(ready[smallest]) >= _LEAST:
            break
        members = ready.pop(smallest)
        other = min(ready, key=lambda key: (-_shared_prefix(key, smallest), len(ready[key]), key))
        together = other[: _shared_prefix(other, smallest)]
        members = ready.pop(other) + members
        while together in ready:  # an earlier merge may have this name
            members = ready.pop(together) + members
        ready[together] = members
    return {" / ".join(key) or "all": members for key, members in ready.items()}


def _shared_prefix(left: StratumKey, right: StratumKey) -> int:
    """How many leading parts two strata share."""
    for index, (own, other) in enumerate(zip(left, right, strict=False)):
        if own != other:
            return index
    return min(len(left), len(right))


def _allocate(sizes: Sequence[int], size: int) -> list[int]:
    """How many to draw from each: the root of its size, at least two, never more than there are."""
    size = min(size, sum(sizes))
    numbers = [min(_LEAST, size_here) for size_here in sizes]
    while sum(numbers) < size:
        wanting = [index for index, size_here in enumerate(sizes) if numbers[index] < size_here]
        # the one furthest below its share; one at a time, so that the sum is exact
        numbers[min(wanting, key=lambda index: numbers[index] / sqrt(sizes[index]))] += 1
    # two from each may be more than asked for: the largest strata give theirs back
    while sum(numbers) > size:
        numbers[numbers.index(max(numbers))] -= 1
    return numbers


# what studies are usually planned with: one in five real differences is missed
POWER: Final = 0.8


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played with each of two targets, on the same scenarios."""

    variants: tuple[tuple[int, ...], ...]
    """Of each metric, the number of variants of each base scenario, at least 1."""
    samples: int
    targets: int = 2
    """All that are compared with each other."""

    @classmethod
    def even(cls, bases: Sequence[int], variants: int, samples: int, targets: int = 2) -> Plan:
        """`bases` is the number of base scenarios of each metric, all of as many variants."""
        return cls(tuple((variants,) * count for count in bases), samples, targets)

    @property
    def sizes(self) -> list[int]:
        """Variants of the base scenarios of all metrics."""
        return [size for metric in self.variants for size in metric]

    @property
    def base_scenarios(self) -> int:
        """Base scenarios of all metrics."""
        return len(self.sizes)

    @property
    def rows(self) -> int:
        return sum(self.sizes) * self.samples

    @property
    def freedom(self) -> int:
        """Degrees of freedom of a difference between two targets, as `pair_differences` has them:
        metrics of a single base scenario have no variance of their own and are merged. 0 for fewer
        than two base scenarios."""
        if self.base_scenarios < 2:
            return 0
        own = sum(map(degrees_of_freedom, merged_strata(self.variants)))
        return whole_freedom(
            own + expected_freedom(self.sizes) + shared_freedom(own, self.targets - 2)
        )


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed, or was observed, about the targets."""

    rate: float = 0.7
    """Their common pass rate."""
    correlation: float = 0.2
    """The intra-class correlation of the differences within a base scenario."""
    between_targets: float = 0.0
    """The correlation between two targets on the same rows, 0 to 1; 0 is the cautious guess."""


def smallest_difference(
    plan: Plan, assumed: Assumed | None = None, *, level: float = ERROR_RATE
) -> float | None:
    """The smallest true difference between two pass rates that is marked with a power of 80% at
    the significance level `level`; None where this plan cannot detect any (fewer than two clusters,
    or a difference above 1 would be needed).

    (t(1 - level / 2) + t(.8)) * SE with SE^2 = 2 p (1 - p) (1 - r) * deff / n, and what
    `pair_differences` adds to it: S. L. Lohr, Sampling: Design and Analysis (2010), section 2.6 and
    eq. 5.12; t for z: Cochran (1977), section 4.5.
    """
    assumed = assumed or Assumed()
    if plan.rows < 1:
        return None
    deff = design_effect([size * plan.samples for size in plan.sizes], assumed.correlation)
    spread = 2 * assumed.rate * (1 - assumed.rate) * (1 - assumed.between_targets)
    clusters = sum(map(effective_number, merged_strata(plan.variants)))
    variance = spread * deff / plan.rows + hidden_variance(assumed.rate, clusters)
    return detectable(sqrt(variance), plan.freedom, level)


def detectable(error: float, freedom: int, level: float) -> float | None:
    """The smallest difference that is found with `POWER`, from the standard error of a difference;
    None without degrees of freedom, or above 1."""
    if freedom < 1:
        return None
    difference = (
        student_quantile(1 - level / 2, freedom) + student_quantile(POWER, freedom)
    ) * error
    return difference if difference <= 1 else None
