"""Rankings of targets: the ranks that are sure, and the agreement of two rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import atanh, sqrt, tanh
from typing import Final

from engine.statistics.clusters import Cluster, merged_strata, percentile_interval, resampled_sums
from engine.statistics.distributions import Z95, Interval

Panel = Mapping[str, Mapping[str, Mapping[str, Cluster]]]
"""target -> metric -> base scenario -> how many rows passed of how many."""

# 25 of them lie beyond each end of a 95% interval, so that its ends hardly vary by chance
RESAMPLES: Final = 1000
_DRAWS: Final = 5_000_000
"""The most clusters drawn in all: with many clusters, fewer resamples are enough."""
_FEWEST: Final = 200
"""The fewest resamples."""
_ENOUGH: Final = 8
"""The fewest base scenarios for an interval by resampling."""


@dataclass(frozen=True, slots=True)
class RankRange:
    """The range of a target's rank, 1 being the highest rate."""

    best: int
    worst: int
    of: int
    """The number of targets."""

    @property
    def tells(self) -> bool:
        """Whether any rank is ruled out."""
        return self.best > 1 or self.worst < self.of

    def __str__(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


@dataclass(frozen=True, slots=True)
class Correlation:
    """A rank correlation, -1 to 1."""

    value: float
    scenarios: Interval | None
    """The interval for other scenarios like these with the same targets; None for fewer than 8, or
    where every resample gives the same value."""
    targets: Interval | None
    """The interval for other targets like these; None for fewer than 5."""


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """The agreement of two runs' rankings of the same targets."""

    tau_b: Correlation | None
    """None where all targets have the same rate in either run."""
    rho: Correlation | None


def kendall_tau_b(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Kendall's rank correlation with ties, -1 to 1; None for fewer than two values, or where all
    of one side are tied. M. G. Kendall, Biometrika 33 (1945) 239-251."""
    concordant = left_pairs = right_pairs = 0
    for (a, b), (c, d) in combinations(zip(left, right, strict=True), 2):
        first, second = (a > c) - (a < c), (b > d) - (b < d)
        concordant += first * second
        left_pairs += first * first
        right_pairs += second * second
    spread = sqrt(left_pairs * right_pairs)
    return concordant / spread if spread else None


def spearman_rho(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Pearson's correlation of midranks, -1 to 1; None as for `kendall_tau_b`. C. Spearman,
    American Journal of Psychology 15 (1904) 72-101; ties: Kendall, Rank Correlation Methods."""
    a, b = midranks(left), midranks(right)
    middle = (len(a) + 1) / 2
    shared = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = sqrt(sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b))
    return shared / spread if spread else None


def midranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1 for the smallest; equal values share the mean of their ranks."""
    order = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(order, 1):
        first.setdefault(value, rank)
        last[value] = rank
    return [(first[value] + last[value]) / 2 for value in values]


def rank_ranges(targets: Sequence[str], above: Iterable[tuple[str, str]]) -> dict[str, RankRange]:
    """The rank range of each target, from all pairs whose first surely has the higher rate: its
    best rank follows those surely above it, its worst precedes those surely below.

    Where any pair is wrong in at most 5% of families, all ranges hold at once in at least 95%: D.
    Al Mohamad, J. J. Goeman and E. W. van Zwet, Biometrics 78 (2022) 238-247; M. Klein, T. Wright
    and J. Wieczorek, JRSS A 183 (2020) 589-606.
    """
    before, behind = Counter[str](), Counter[str]()
    for higher, lower in above:
        before[lower] += 1
        behind[higher] += 1
    count = len(targets)
    return {
        target: RankRange(1 + before[target], count - behind[target], count) for target in targets
    }


def rank_agreement(
    first: Panel,
    second: Panel,
    *,
    same_scenarios: bool,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> RankAgreement | None:
    """How far two runs agree on the ranking of the targets that both have; None for fewer than two.

    With `same_scenarios`, both runs played the same base scenarios, which are resampled together.
    Resampling adds noise to rates that have noise already, so the interval over scenarios is biased
    towards 0, which is conservative. A resample in which all targets of a side are tied has no
    ranking and counts as 0: leaving it out would hide that doubt. With few base scenarios nearly
    every resample has the original ranking, however uncertain it is: then there is no interval
    (`Correlation.scenarios`).
    """
    targets = [
        target for target in first if _counts(first, target)[1] and _counts(second, target)[1]
    ]
    if len(targets) < 2:
        return None
    rates = [[_rate(*_counts(panel, target)) for target in targets] for panel in (first, second)]
    enough = min(_bases(panel, targets) for panel in (first, second)) >= _ENOUGH
    if same_scenarios:
        both = _resampled(
            _joined_panels(first, second), _names(targets), resamples=resamples, seed=seed
        )
        half = len(targets)
        drawn = [(_rates(pairs[:half]), _rates(pairs[half:])) for pairs in both]
    else:
        left = _resampled(first, targets, resamples=resamples, seed=seed)
        right = _resampled(second, targets, resamples=resamples, seed=seed + 1)
        drawn = [(_rates(one), _rates(other)) for one, other in zip(left, right, strict=True)]

    def correlation(
        statistic: Callable[[Sequence[float], Sequence[float]], float | None],
        over_targets: Callable[[float, int], Interval | None],
    ) -> Correlation | None:
        value = statistic(*rates)
        if value is None:
            return None
        # None, where all are tied, counts as no agreement, as `rank_agreement` says
        values = [statistic(*pair) or 0.0 for pair in drawn] if enough else []
        return Correlation(
            value, _interval_around(value, values), over_targets(value, len(targets))
        )

    return RankAgreement(
        correlation(kendall_tau_b, tau_over_targets),
        correlation(spearman_rho, rho_over_targets),
    )


def tau_over_targets(tau: float, n: int) -> Interval | None:
    """The interval of Kendall's tau for targets like these `n`; None for fewer than 5.

    Fisher's z with variance .437 / (n - 4): E. C. Fieller, H. O. Hartley and E. S. Pearson,
    Biometrika 44 (1957) 470-481. A perfect order is taken as one with a single pair exchanged.
    """
    if n < 5:
        return None
    return _fisher(tau, 1 - 4 / (n * (n - 1)), 0.437 / (n - 4))


def rho_over_targets(rho: float, n: int) -> Interval | None:
    """The interval of Spearman's rho for targets like these `n`; None for fewer than 5.

    Fisher's z with variance (1 + rho^2 / 2) / (n - 3): D. G. Bonett and T. A. Wright, Psychometrika
    65 (2000) 23-28. A perfect order is taken as one with two neighbours swapped.
    """
    if n < 5:
        return None
    return _fisher(rho, 1 - 12 / (n * (n * n - 1)), (1 + rho * rho / 2) / (n - 3))


def _fisher(value: float, almost: float, variance: float) -> Interval:
    middle, half = atanh(max(-almost, min(almost, value))), Z95 * sqrt(variance)
    return Interval(
        -1.0 if value < -almost else tanh(middle - half),
        1.0 if value > almost else tanh(middle + half),
    )


def _interval_around(value: float, values: Sequence[float]) -> Interval | None:
    if not values or set(values) == {value}:
        return None
    interval = percentile_interval(values)
    # percentiles of a skewed statistic can exclude the value itself
    return Interval(min(interval.low, value), max(interval.high, value))


def _bases(panel: Panel, targets: Sequence[str]) -> int:
    """The number of base scenarios that any of these targets was scored on."""
    return len(
        {
            (metric, base)
            for target in targets
            for metric, clusters in panel[target].items()
            for base, cluster in clusters.items()
            if cluster.size
        }
    )


def _counts(panel: Panel, target: str) -> tuple[int, int]:
    clusters = [base for bases in panel.get(target, {}).values() for base in bases.values()]
    return round(sum(cluster.total for cluster in clusters)), sum(
        cluster.size for cluster in clusters
    )


def _rate(passed: int, scored: int) -> float:
    return passed / scored if scored else 0.0


def _rates(pairs: Sequence[tuple[int, int]]) -> list[float]:
    return [_rate(*pair) for pair in pairs]


def _joined_panels(first: Panel, second: Panel) -> Panel:
    """Both runs in one panel, so that a resampled base scenario includes both."""
    return {
        **{f"1 {target}": metrics for target, metrics in first.items()},
        **{f"2 {target}": metrics for target, metrics in second.items()},
    }


def _names(targets: Sequence[str]) -> list[str]:
    return [f"{run} {target}" for run in (1, 2) for target in targets]


def _resampled(
    panel: Panel, targets: Sequence[str], *, resamples: int, seed: int
) -> Iterator[list[tuple[int, int]]]:
    """For each resample, (passed, scored) of every target, in an arbitrary unit."""
    bases: dict[tuple[str, str], list[int]] = {}
    for place, target in enumerate(targets):
        for metric, clusters in panel[target].items():
            for base, cluster in clusters.items():
                counts = bases.setdefault((metric, base), [0] * (2 * len(targets)))
                counts[2 * place] += round(cluster.total)
                counts[2 * place + 1] += cluster.size
    strata: dict[str, list[list[int]]] = {}
    for (metric, _), counts in sorted(bases.items()):
        if any(counts):
            strata.setdefault(metric, []).append(counts)
    affordable = max(_FEWEST, _DRAWS // max(1, sum(map(len, strata.values()))))
    for sums in resampled_sums(
        merged_strata(list(strata.values())), resamples=min(resamples, affordable), seed=seed
    ):
        yield list(zip(sums[::2], sums[1::2], strict=True))
