"""How often the headline intervals hold the truth, and how wide they are:
`python -m tests.benchmarks.coverage [--worlds N]`.

In a simulated world the true rates are known. Scenarios differ (some are hard for everybody),
variants of a scenario differ less, samples of a variant differ by chance; all by a normal latent
strength that is cut off so that the marginal rate is exact. Each interval is asked in many such
worlds whether it holds the truth: 95 % of them should. With `--claims`, how often anything false is
marked as sure (`tests/benchmarks/false_claims.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import sqrt
from random import Random
from statistics import NormalDist
from typing import Final

from engine.statistics.clusters import Cluster, Stratum, intraclass_correlation
from engine.statistics.demographics import Variant, demographic_gaps
from engine.statistics.distributions import Interval
from engine.statistics.paired import Answers, differences, mean_difference
from engine.statistics.rates import Rate, benchmark_rate, metric_rate, new_metrics_rate
from tests.benchmarks.false_claims import PAGE, report

NORMAL: Final = NormalDist()
LEAST: Final = 0.93
MOST: Final = 0.985
"""From 8 scenarios (for new metrics: 8 metrics) on, at rates of .2 to .8."""
ENOUGH: Final = 8


@dataclass(frozen=True, slots=True)
class World:
    """What is true, and how much of it is seen."""

    metrics: int
    scenarios: int
    """Of each metric."""
    variants: int
    """Half of them of one demographic value, half of the other."""
    samples: int
    rate: float
    """Of the first target, over all metrics."""
    likeness: float
    """The part of the latent variance that rows of one base scenario share."""
    metric_likeness: float = 0.0
    """The part that rows of one metric share: metrics are drawn, not given."""
    gap: float = 0.05
    """By how much the first demographic value passes more often."""
    lag: float = 0.05
    """By how much the second target passes less often."""

    @property
    def by_metric(self) -> list[list[tuple[float, float]]]:
        """target -> metric -> true rates of the two demographic values."""
        return [
            [self._values(rate, number) for number in range(self.metrics)] for rate in self.both
        ]

    @property
    def both(self) -> tuple[float, float]:
        return self.rate, self.rate - self.lag

    def _values(self, rate: float, number: int) -> tuple[float, float]:
        if self.metrics > 1 and not self.metric_likeness:
            reach = min(0.15, (1 - rate) * 0.8)
            rate += reach * (2 * number / (self.metrics - 1) - 1)
        half = min(self.gap / 2, (1 - rate) * 0.8)
        return rate + half, rate - half

    def __str__(self) -> str:
        drawn = f", metrics {self.metric_likeness:.1f} alike" if self.metric_likeness else ""
        return (
            f"{self.metrics} metrics x {self.scenarios} scenarios x {self.variants} variants x "
            f"{self.samples} samples, rate {self.rate:.2f}, {self.likeness:.1f} alike{drawn}"
        )


Passed = list[list[list[list[int]]]]
"""target -> metric -> scenario -> variant -> samples that passed."""


def play(world: World, chance: Random) -> Passed:
    """One world as it might have been seen."""
    cuts = [
        [[NORMAL.inv_cdf(min(max(rate, 1e-9), 1 - 1e-9)) for rate in pair] for pair in metrics]
        for metrics in world.by_metric
    ]
    of_scenario, of_variant = world.likeness * 0.75, world.likeness * 0.25
    rest = sqrt(1 - world.metric_likeness - world.likeness)
    seen: Passed = [[], []]
    for metric in range(world.metrics):
        base = chance.gauss(0, 1) * sqrt(world.metric_likeness)
        for found in seen:
            found.append([])
        for _ in range(world.scenarios):
            shared = base + chance.gauss(0, 1) * sqrt(of_scenario / 2)
            for target in (0, 1):
                hardness = shared + chance.gauss(0, 1) * sqrt(of_scenario / 2)
                counts = []
                for variant in range(world.variants):
                    own = hardness + chance.gauss(0, 1) * sqrt(of_variant)
                    odds = NORMAL.cdf((cuts[target][metric][variant % 2] - own) / rest)
                    counts.append(sum(chance.random() < odds for _ in range(world.samples)))
                seen[target][metric].append(counts)
    return seen


@dataclass(slots=True)
class Tally:
    """How often an interval was asked, held the truth, and how wide all were together."""

    asked: int = 0
    held: int = 0
    width: float = 0.0

    def add(self, interval: Interval | None, truth: float) -> None:
        assert interval is not None
        assert interval.width > 0
        self.asked += 1
        self.held += interval.low - 1e-9 <= truth <= interval.high + 1e-9
        self.width += interval.width

    @property
    def coverage(self) -> float:
        return self.held / self.asked

    @property
    def mean_width(self) -> float:
        return self.width / self.asked


@dataclass(frozen=True, slots=True)
class Covered:
    """What was found for one world: by the interval's name."""

    world: World
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def faults(self, slack: float = 0.0) -> Iterator[str]:
        """Where a bound is missed by more than `slack`, which allows for few worlds."""
        clusters = self.world.metrics if self.world.metric_likeness else self.world.scenarios
        bounded = clusters >= ENOUGH and 0.2 <= self.world.rate <= 0.8
        for name, tally in self.tallies.items():
            if tally.coverage < LEAST - slack:
                yield f"{name}: {tally.coverage:.1%} is too seldom; {self.world}"
            if bounded and tally.coverage > MOST + slack:
                yield f"{name}: {tally.coverage:.1%} is too often; {self.world}"


def cover(world: World, *, worlds: int, seed: int = 1) -> Covered:
    chance = Random(f"{seed} {world}")
    covered = Covered(world)
    for _ in range(worlds):
        seen = play(world, chance)
        if world.metric_likeness:
            _new_metrics(world, seen, covered.tallies)
        else:
            _rates(world, seen, covered.tallies)
            _difference(world, seen, covered.tallies)
            if world.variants > 1:
                _gaps(world, seen, covered.tallies)
    return covered


def _strata(world: World, metrics: Sequence[Sequence[Sequence[int]]]) -> list[Stratum]:
    rows = world.variants * world.samples
    return [[Cluster.passing(sum(counts), rows) for counts in found] for found in metrics]


def _likeness(strata: Sequence[Sequence[Stratum]]) -> float | None:
    return intraclass_correlation(clusters for found in strata for clusters in found)


def _truth(world: World, pair: tuple[float, float]) -> float:
    return sum(pair) / 2 if world.variants > 1 else pair[0]


def _rates(world: World, seen: Passed, tallies: dict[str, Tally]) -> None:
    strata = [_strata(world, metrics) for metrics in seen]
    likeness = _likeness(strata)
    for found, truths in zip(strata, world.by_metric, strict=True):
        for clusters, pair in zip(found, truths, strict=True):
            tallies["metric rate"].add(_of(metric_rate(clusters, likeness)), _truth(world, pair))
        truth = sum(_truth(world, pair) for pair in truths) / world.metrics
        tallies["benchmark rate"].add(_of(benchmark_rate(found, likeness)), truth)


def _new_metrics(world: World, seen: Passed, tallies: dict[str, Tally]) -> None:
    strata = [_strata(world, metrics) for metrics in seen]
    likeness = _likeness(strata)
    for found, truth in zip(strata, world.both, strict=True):
        tallies["new-metrics rate"].add(_of(new_metrics_rate(found, likeness)), truth)


def _of(rate: Rate | None) -> Interval | None:
    return None if rate is None else rate.interval


def _difference(world: World, seen: Passed, tallies: dict[str, Tally]) -> None:
    answers: dict[str, Answers] = {
        f"target {number}": {
            f"m{metric}": {
                f"s{scenario}": {
                    f"v{variant}": passed / world.samples for variant, passed in enumerate(counts)
                }
                for scenario, counts in enumerate(scenarios)
            }
            for metric, scenarios in enumerate(metrics)
        }
        for number, metrics in enumerate(seen)
    }
    first, second = (
        sum(_truth(world, pair) for pair in metrics) / world.metrics for metrics in world.by_metric
    )
    left, right = answers.values()
    found = mean_difference(differences(left, right))
    assert found is not None
    tallies["paired difference"].add(found.interval, first - second)


def _gaps(world: World, seen: Passed, tallies: dict[str, Tally]) -> None:
    variants = {
        f"target {number}": [
            Variant(
                f"m{metric}",
                f"m{metric}_s{scenario}",
                {"age": "ab"[variant % 2], "place": str(variant // 2)},
                passed,
                world.samples,
            )
            for metric, scenarios in enumerate(metrics)
            for scenario, counts in enumerate(scenarios)
            for variant, passed in enumerate(counts)
        ]
        for number, metrics in enumerate(seen)
    }
    truths = {
        f"target {number}": sum(first - second for first, second in metrics) / world.metrics
        for number, metrics in enumerate(world.by_metric)
    }
    for gap in demographic_gaps(variants):
        if gap.axis == "age":
            pooled = gap.target is None
            truth = sum(truths.values()) / 2 if gap.target is None else truths[gap.target]
            name = "demographic gap, pooled" if pooled else "demographic gap"
            tallies[name].add(gap.difference.interval, truth)


RATES: Final = (0.5, 0.65, 0.8, 0.95)
SCENARIOS: Final = (3, 5, 8, 20)
LIKENESS: Final = (0.0, 0.4, 0.7)
WORLDS: Final = [
    *(
        World(metrics, scenarios, variants, samples, rate, likeness)
        for metrics, (variants, samples), scenarios, rate, likeness in product(
            (1, 4), ((4, 1), (4, 3)), SCENARIOS, RATES, LIKENESS
        )
    ),
    *(
        World(metrics, 6, 4, 1, rate, likeness, drawn)
        for metrics, rate, likeness, drawn in product(
            SCENARIOS, RATES, (0.0, 0.4), (1e-9, 0.1, 0.4)
        )
    ),
]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=1000, help="how many to draw of each kind")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth kind")
    parser.add_argument("--claims", action="store_true", help="false marks and ranks instead")
    parser.add_argument("--write", action="store_true", help=f"with --claims: into {PAGE}")
    asked = parser.parse_args()
    if asked.claims:
        return report(asked.worlds, every=asked.every, write=asked.write)
    faults: list[str] = []
    close: list[str] = []
    slack = 2.6 * sqrt(0.05 * 0.95 / asked.worlds)
    summary: dict[str, list[Tally]] = defaultdict(list)
    for world in WORLDS[:: asked.every]:
        covered = cover(world, worlds=asked.worlds)
        say(str(world))
        for name, tally in covered.tallies.items():
            say(f"  {name:24} {tally.coverage:6.1%}  mean width {tally.mean_width:.3f}")
            summary[name].append(tally)
        sys.stdout.flush()
        faults += covered.faults(slack)
        close += covered.faults()
    say(f"\n{len(WORLDS[:: asked.every])} kinds of world, {asked.worlds} of each")
    for name, tallies in summary.items():
        low, high = min(t.coverage for t in tallies), max(t.coverage for t in tallies)
        mean = sum(tally.mean_width for tally in tallies) / len(tallies)
        say(f"{name:24} coverage {low:.1%} to {high:.1%}, mean width {mean:.3f}")
    say(f"bounds missed as counted: {len(close)}; by more than {slack:.1%}: {len(faults)}")
    say(f"({slack:.1%} is what {asked.worlds} worlds may be off by chance)")
    for fault in faults:
        say(f"  {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
