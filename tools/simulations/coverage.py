"""How often the intervals hold the truth, and how wide they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Final

from engine.statistics.agreement import agreement
from engine.statistics.clusters import (
    Cluster,
    Stratum,
    effective_size,
    intraclass_correlation,
    stratified_error,
)
from engine.statistics.demographics import Variant, demographic_gaps
from engine.statistics.distributions import Interval, critical
from engine.statistics.paired import Answers, differences, mean_difference
from engine.statistics.rates import Rate, benchmark_rate, metric_rate, new_metrics_rate
from tests.benchmarks.frame import Row, missed, page, say

PAGE: Final = Path("docs/intervals.md")
COMMAND: Final = "python -m tests.benchmarks coverage"
NORMAL: Final = NormalDist()
LEAST: Final = 0.93
"""Coverage of each interval in each kind of world."""
MOST: Final = 0.975
"""Mean coverage over the kinds of `BAR` of one size: of the rate of a benchmark at every size, of
the others at 30 scenarios."""
NARROWER: Final = {
    ("paired difference", 4): 0.25,
    ("paired difference", 8): 0.12,
    ("demographic gap", 4): 0.15,
    ("demographic gap", 8): 0.08,
}
"""Than `_former`, by interval and scenarios: one metric, mean over the kinds of `BAR`."""


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
    uneven: bool = False
    """Whether the rows of one metric alone are alike, those of the others not at all."""
    metric_likeness: float = 0.0
    """The part that rows of one metric share: metrics are drawn, not given."""
    gap: float = 0.05
    """By how much the first demographic value passes more often."""
    lag: float = 0.05
    """By how much the second target passes less often."""
    uncrossed: bool = False
    """Two variants of each scenario, one of each value, whose place is drawn: it shifts nothing."""
    unlike: bool = False
    """Whether the first base scenario of a metric has twelve times as many variants."""
    other_likeness: float | None = None
    """The likeness of the second target, where it is not that of the first."""
    reach: float = 0.15
    """How far the rates of metrics lie to either side of that of all, at most."""

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
            reach = min(self.reach, (1 - rate) * 0.8)
            rate += reach * (2 * number / (self.metrics - 1) - 1)
        half = min(self.gap / 2, (1 - rate) * 0.8) if self.variants > 1 else 0.0
        return rate + half, rate - half

    def likeness_of(self, metric: int, target: int) -> float:
        if target and self.other_likeness is not None:
            return self.other_likeness
        return 0.0 if self.uneven and metric < self.metrics - 1 else self.likeness

    def variants_of(self, scenario: int) -> int:
        return self.variants * (12 if self.unlike and not scenario else 1)

    def __str__(self) -> str:
        people = ", a place drawn for each person" if self.uncrossed else ""
        drawn = f", metrics {self.metric_likeness:.1f} alike" if self.metric_likeness else ""
        return (
            f"{self.metrics} metrics x {self.scenarios} scenarios x {self.variants} variants x "
            f"{self.samples} samples, rate {self.rate:.2f}, {self.likeness:.1f} alike"
            f"{' in one metric' if self.uneven else ''}{drawn}{people}"
            f"{', the first scenario 12 times as large' if self.unlike else ''}"
            + (f", the other {self.other_likeness:.1f}" if self.other_likeness is not None else "")
        )


Passed = list[list[list[list[int]]]]
"""target -> metric -> scenario -> variant -> samples that passed."""


def play(world: World, chance: Random) -> Passed:
    """One world as it might have been seen."""
    cuts = [
        [[NORMAL.inv_cdf(min(max(rate, 1e-9), 1 - 1e-9)) for rate in pair] for pair in metrics]
        for metrics in world.by_metric
    ]
    seen: Passed = [[], []]
    for metric in range(world.metrics):
        both = [world.likeness_of(metric, target) for target in (0, 1)]
        in_common = min(both) * 0.75 / 2
        base = chance.gauss(0, 1) * sqrt(world.metric_likeness)
        for found in seen:
            found.append([])
        for scenario in range(world.scenarios):
            shared = base + chance.gauss(0, 1) * sqrt(in_common)
            for target, likeness in enumerate(both):
                rest = sqrt(1 - world.metric_likeness - likeness)
                hardness = shared + chance.gauss(0, 1) * sqrt(likeness * 0.75 - in_common)
                counts = []
                for variant in range(world.variants_of(scenario)):
                    own = hardness + chance.gauss(0, 1) * sqrt(likeness * 0.25)
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
    former: float = 0.0
    """The same of the interval by `_former`; 0 where there is none."""

    def add(self, interval: Interval | None, truth: float, former: Interval | None = None) -> None:
        assert interval is not None
        assert interval.width > 0
        self.asked += 1
        self.held += interval.low - 1e-9 <= truth <= interval.high + 1e-9
        self.width += interval.width
        self.former += 0.0 if former is None else former.width

    @property
    def coverage(self) -> float:
        return self.held / self.asked

    @property
    def mean_width(self) -> float:
        return self.width / self.asked

    @property
    def narrower(self) -> float:
        """By what part, than the former interval."""
        return 1 - self.width / self.former


@dataclass(frozen=True, slots=True)
class Covered:
    """What was found for one world: by the interval's name."""

    world: World
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))

    def faults(self, slack: float = 0.0) -> Iterator[str]:
        """Where an interval holds the truth too seldom by more than `slack`, which allows for few
        worlds. One that few worlds have, as alpha where nearly all answers are the same, is left
        out."""
        most = max(tally.asked for tally in self.tallies.values())
        for name, tally in self.tallies.items():
            if tally.asked >= most / 20 and tally.coverage < LEAST - slack:
                yield f"{name}: {tally.coverage:.1%} is too seldom; {self.world}"


def cover(world: World, *, worlds: int, seed: int = 1) -> Covered:
    chance = Random(f"{seed} {world}")
    covered = Covered(world)
    for _ in range(worlds):
        seen = play(world, chance)
        if world.metric_likeness:
            _new_metrics(world, seen, covered.tallies)
            continue
        _rates(world, seen, covered.tallies)
        _difference(world, seen, covered.tallies)
        if world.variants > 1:
            _gaps(world, seen, covered.tallies)
        if world.samples > 1 and world.metrics == 1:
            _agreement(world, seen[0][0], covered.tallies)
    return covered


def _strata(world: World, metrics: Sequence[Sequence[Sequence[int]]]) -> list[Stratum]:
    return [
        [Cluster.passing(sum(counts), len(counts) * world.samples) for counts in found]
        for found in metrics
    ]


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
    strata = differences(left, right)
    found = mean_difference(strata)
    assert found is not None
    tallies["paired difference"].add(found.interval, first - second, _former(strata))


def _former(strata: Sequence[Stratum]) -> Interval:
    """As differences were read before: Student's t on the clusters' own degrees of freedom, a third
    of a pair that differs added to the squared error."""
    spread, correlation = stratified_error(strata), intraclass_correlation(strata)
    assert spread is not None
    clusters = [cluster for stratum in strata for cluster in stratum]
    sizes = [cluster.size for cluster in clusters]
    effective = effective_size(sizes, 1.0 if correlation is None else correlation)
    estimate = sum(cluster.total for cluster in clusters) / sum(sizes)
    half = critical(spread.freedom) * sqrt(spread.error**2 + 0.33 / effective**2)
    return Interval(max(-1.0, estimate - half), min(1.0, estimate + half))


def _gaps(world: World, seen: Passed, tallies: dict[str, Tally]) -> None:
    variants = {
        f"target {number}": [
            Variant(
                f"m{metric}",
                f"m{metric}_s{scenario}",
                {"age": "ab"[variant % 2], "place": _place(world, metric, scenario, variant)},
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
            if world.uncrossed:
                tallies[f"{name}, not crossed"].add(
                    gap.difference.interval, truth, _by_pairs(world, gap.target, variants)
                )
                continue
            of = seen if gap.target is None else [seen[int(gap.target.split()[1])]]
            tallies[name].add(gap.difference.interval, truth, _former(_gap_strata(world, of)))


def _place(world: World, metric: int, scenario: int, variant: int) -> str:
    """Of uncrossed people the same in each world: how an experiment was laid out is no chance."""
    if not world.uncrossed:
        return str(variant // 2)
    return Random(f"{metric} {scenario} {variant}").choice("xy")


def _by_pairs(
    world: World, target: str | None, variants: Mapping[str, Sequence[Variant]]
) -> Interval:
    """From those scenarios alone whose two people are of one place."""
    alike = {
        name: [
            one
            for one, other in zip(found, [*found[1:], found[0]], strict=True)
            if one.base == other.base and one.demographic["place"] == other.demographic["place"]
        ]
        for name, found in variants.items()
    }
    kept = {one.base for found in alike.values() for one in found}
    matched = {name: [one for one in found if one.base in kept] for name, found in variants.items()}
    for gap in demographic_gaps(matched):
        if gap.axis == "age" and gap.target == target and gap.difference.interval is not None:
            return gap.difference.interval
    return Interval(-1.0, 1.0)


def _gap_strata(world: World, seen: Passed) -> list[Stratum]:
    """The first value less the second, of all these targets on one scenario together."""
    return [
        [
            Cluster.of(
                [
                    (counts[place] - counts[place + 1]) / world.samples
                    for counts in of_targets
                    for place in range(0, world.variants, 2)
                ]
            )
            for of_targets in zip(*metrics, strict=True)
        ]
        for metrics in zip(*seen, strict=True)
    ]


def _agreement(world: World, scenarios: Sequence[Sequence[int]], tallies: dict[str, Tally]) -> None:
    """Between the samples of a variant."""
    rows = [
        [True] * passed + [False] * (world.samples - passed)
        for counts in scenarios
        for passed in counts
    ]
    found = agreement(rows, [number // world.variants for number in range(len(rows))])
    assert found is not None
    agreed, expected = _true_agreement(world)
    tallies["agreement"].add(found.percent.interval, agreed)
    for name, figure in (("AC1", found.ac1), ("alpha", found.alpha)):
        if figure is not None:
            chance = expected if name == "AC1" else 1 - expected
            tallies[name].add(figure.interval, (agreed - chance) / (1 - chance))


@cache
def _true_agreement(world: World) -> tuple[float, float]:
    """How often two samples of one variant agree, and AC1's agreement by chance, both over the
    variants of both demographic values; the latent strength is summed over a fine grid."""
    pair = world.by_metric[0][0][: min(2, world.variants)]
    steps = [NORMAL.inv_cdf((step + 0.5) / _STEPS) * sqrt(world.likeness) for step in range(_STEPS)]
    differ = 0.0
    for rate in pair:
        cut, rest = NORMAL.inv_cdf(rate), sqrt(1 - world.likeness)
        odds = [NORMAL.cdf((cut - own) / rest) for own in steps]
        differ += sum(2 * one * (1 - one) for one in odds) / _STEPS / len(pair)
    share = sum(pair) / len(pair)
    return 1 - differ, 2 * share * (1 - share)


_STEPS: Final = 4001
SIZES: Final = (4, 8, 30)
BAR: Final = [
    World(metrics, scenarios, variants, samples, rate, likeness, reach=0.05)
    for scenarios, metrics, variants, samples, rate, likeness in product(
        SIZES, (1, 4), (1, 4), (1, 3), (0.3, 0.5, 0.7, 0.9), (0.1, 0.4)
    )
]
"""What the bounds on the mean and on the width are about."""
OTHERS: Final = [
    *(  # one metric unlike the others
        World(4, scenarios, 4, samples, rate, 0.7, uneven=True, reach=0.05)
        for scenarios, samples, rate in product(SIZES, (1, 3), (0.3, 0.5, 0.7, 0.9))
    ),
    *(
        World(metrics, scenarios, 2, samples, rate, likeness, uncrossed=True, reach=0.05)
        for scenarios, metrics, samples, rate, likeness in product(
            SIZES, (1, 4), (1, 3), (0.3, 0.7, 0.9), (0.1, 0.4)
        )
    ),
    *(  # samples that agree, at rates at which nearly all answers are the same
        World(1, scenarios, variants, samples, rate, likeness)
        for scenarios, variants, samples, rate, likeness in product(
            SIZES, (1, 4), (2, 3), (0.8, 0.95), (0.1, 0.8)
        )
    ),
    *(
        World(metrics, scenarios, 4, samples, rate, likeness)
        for metrics, scenarios, samples, rate, likeness in product(
            (1, 4), (3, 20), (1, 3), (0.5, 0.8, 0.95), (0.0, 0.7)
        )
    ),
    *(  # one base scenario far larger than the others
        World(metrics, scenarios, 1, 1, rate, likeness, unlike=True, reach=0.05)
        for scenarios, metrics, rate, likeness in product(
            SIZES, (1, 4), (0.5, 0.7, 0.9), (0.1, 0.4)
        )
    ),
    *(  # a target that fails whole base scenarios, beside one that fails here and there
        World(1, scenarios, rows, 1, rate, 0.8, other_likeness=0.1, lag=0.0)
        for scenarios, rows, rate in product((4, 8, 20), (4, 16), (0.7, 0.9))
    ),
    *(
        World(metrics, 6, 4, 1, rate, likeness, metric_likeness=drawn)
        for metrics, rate, likeness, drawn in product(
            (3, 5, 8, 20), (0.5, 0.65, 0.8, 0.95), (0.0, 0.4), (1e-9, 0.1, 0.4)
        )
    ),
]


def _table(found: Sequence[Covered]) -> Iterator[str]:
    """By scenarios (for new metrics: by metrics) and interval."""
    yield "| scenarios | interval | kinds of world | least | mean | most | width | narrower |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    rows: dict[tuple[int, str], list[Tally]] = defaultdict(list)
    for covered in found:
        world = covered.world
        most = max(tally.asked for tally in covered.tallies.values())
        for name, tally in covered.tallies.items():
            if tally.asked >= most / 20:
                size = world.metrics if world.metric_likeness else world.scenarios
                metrics = "" if world.metric_likeness else _metrics(world.metrics)
                rows[size, f"{name}{metrics}"].append(tally)
    for (size, name), tallies in sorted(rows.items()):
        covers = [tally.coverage for tally in tallies]
        width = sum(tally.mean_width for tally in tallies) / len(tallies)
        narrower = (
            f"{sum(tally.narrower for tally in tallies) / len(tallies):.0%}"
            if all(tally.former for tally in tallies)
            else ""
        )
        yield (
            f"| {size} | {name} | {len(tallies)} | {min(covers):.1%} | "
            f"{sum(covers) / len(covers):.1%} | {max(covers):.1%} | {width:.3f} | {narrower} |"
        )


def _metrics(count: int) -> str:
    return ", one metric" if count == 1 else f", {count} metrics"


def _missed(found: Sequence[Covered]) -> Iterator[str]:
    """Bounds on what is said of all kinds of `BAR` of one size together."""
    of_size: dict[tuple[str, int], list[Tally]] = defaultdict(list)
    alone: dict[tuple[str, int], list[Tally]] = defaultdict(list)
    for covered in found:
        for name, tally in covered.tallies.items():
            of_size[name, covered.world.scenarios].append(tally)
            if covered.world.metrics == 1:
                alone[name, covered.world.scenarios].append(tally)
    for (name, scenarios), tallies in of_size.items():
        mean = sum(tally.coverage for tally in tallies) / len(tallies)
        if mean > MOST and (name == "benchmark rate" or scenarios == max(SIZES)):
            yield f"{name}: {mean:.1%} on average is too often; {scenarios} scenarios"
    for (name, scenarios), least in NARROWER.items():
        tallies = alone[name, scenarios]
        narrower = sum(tally.narrower for tally in tallies) / max(1, len(tallies))
        if narrower < least:
            yield f"{name}: {narrower:.1%} narrower, not {least:.0%}; {scenarios} scenarios"


def _introduction(worlds: int, every: int, slack: float) -> list[str]:
    of = f" --every {every}" if every > 1 else ""
    return [
        "# How often the intervals hold",
        "",
        f"Output of `{COMMAND} --worlds {worlds}{of}`: simulated worlds with known rates. For each "
        "interval it measures the coverage (95% intended) and the width. Bounded kinds of world: "
        "4, 8 and 30 base scenarios per metric, 1 or 4 metrics, 1 or 4 variants, 1 or 3 samples, "
        f"rates of .3 to .9, intra-class correlations of .1 and .4, and {worlds:,} worlds of each "
        f"kind, so that a coverage is off by {slack:.1%} in 1 of 200 cells by chance. `--kinds` "
        "prints each kind. Among the other kinds are worlds in which one metric, or one target, is "
        "unlike the others, and in which one base scenario is twelve times as large as the others.",
        "",
        f"Bounds: coverage of at least {LEAST:.0%} in each kind; on average at most {MOST:.1%} in "
        "the bounded kinds, for a benchmark's rate at every size and for everything else at 30 "
        "scenarios. With one metric, an interval must be narrower than Student's t on the "
        "clusters' own degrees of freedom with a third of a pair added: by 25% and 12% for pairs "
        "of targets, and by 15% and 8% for demographic gaps, at 4 and 8 scenarios.",
        "",
        "The lower end of a rate never rises as a failure is added, for a given intra-class "
        "correlation and metric: tried for all tables of up to 4 base scenarios of 8 rows. With "
        "several metrics, or where the correlation itself falls, it may rise by less than half a "
        "point. This costs 1% of the mean width.",
    ]


def coverage(
    *, worlds: int = 1000, every: int = 1, kinds: bool = False, write: bool = False
) -> Iterator[Row]:
    """How often the intervals hold the truth, and how wide they are.

    In a simulated world the true rates are known. Scenarios differ (some are hard for everybody),
    variants of a scenario differ less, samples of a variant differ by chance; all by a normal
    latent strength that is cut off so that the marginal rate is exact. Each interval is asked in
    many such worlds whether it holds the truth: 95% of them should. Of differences the same run
    also says how wide the interval of `_former` is, so that a gain is not one of machine or seed.
    `--every` takes only each so-manieth kind of world, and `--kinds` prints each kind as well.
    `--write` keeps the tables in docs/intervals.md.
    """
    slack = 2.6 * sqrt(0.05 * 0.95 / worlds)
    lines, faults = _introduction(worlds, every, slack), list[str]()
    for title, those in (("Bounded kinds", BAR), ("Other kinds", OTHERS)):
        found = []
        for world in those[::every]:
            covered = cover(world, worlds=worlds)
            found.append(covered)
            faults += covered.faults(slack)
            if kinds:
                say(f"{world}\n")
                for name, tally in covered.tallies.items():
                    say(f"  {name:24} {tally.coverage:6.1%}  mean width {tally.mean_width:.3f}\n")
        lines += ["", f"## {title}", "", f"{len(found)} kinds, {worlds:,} worlds of each.", ""]
        lines += _table(found)
        if those is BAR and every == 1:
            faults += _missed(found)
    yield from page(PAGE, [*lines, "", *missed(faults)], faults, write=write)
