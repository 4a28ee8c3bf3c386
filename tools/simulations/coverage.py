"""How often the intervals hold the truth, and how wide they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import nan, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from engine.statistics.agreement import agreement
from engine.statistics.clusters import Cluster, Stratum, intraclass_correlation
from engine.statistics.demographics import Variant, demographic_gaps
from engine.statistics.distributions import LEVEL, Interval, critical
from engine.statistics.paired import Answers, differences, pair_differences
from engine.statistics.rates import Rate, benchmark_rate, metric_rate, new_metrics_rate
from tests.benchmarks.frame import Row, missed, page, say
from tests.late import stats
from tools.simulations.array_intervals import (
    Array,
    Ends,
    agreement_ends,
    correlation,
    new_metrics_ends,
    rate_ends,
)
from tools.simulations.false_claims import Summed, draw, fitted_gaps, person, summed

PAGE: Final = Path("docs/simulations/intervals.md")
COMMAND: Final = "python -m tests.benchmarks coverage"
_AT_ONCE: Final = 500_000
"""Variants of worlds whose arrays are in memory together."""
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


def play(world: World, worlds: int, chance: np.random.Generator) -> Array:
    """How many samples passed: world, target, metric, scenario, variant; NaN where nothing was
    played."""
    variants = world.variants_of(0)
    shape = (worlds, 2, world.metrics, world.scenarios, variants)
    pairs = np.array(world.by_metric)[..., np.arange(variants) % 2]
    likeness = [
        [world.likeness_of(metric, target) for metric in range(world.metrics)] for target in (0, 1)
    ]
    rates, alike = np.clip(pairs, 1e-9, 1 - 1e-9), np.array(likeness)
    found = draw(rates, shape, world.samples, alike, chance, of_metrics=world.metric_likeness)
    rows = np.array([world.variants_of(scenario) for scenario in range(world.scenarios)])
    return np.where(np.arange(variants) < rows[:, None], found, np.nan)


class Intervals(NamedTuple):
    """One interval of each of many worlds."""

    name: str
    ends: Ends
    """NaN in a world that has none."""
    truth: float
    former: Array | None = None
    """The width of the interval of `_former`."""


@dataclass(slots=True)
class Tally:
    """How often an interval was asked, held the truth, and how wide all were together."""

    asked: int = 0
    held: int = 0
    width: float = 0.0
    former: float = 0.0
    """The same of the interval by `_former`; 0 where there is none."""

    def add(self, one: Intervals) -> None:
        known = ~np.isnan(one.ends.low)
        width = (one.ends.high - one.ends.low)[known]
        assert (width > 0).all()
        holds = (one.ends.low - 1e-9 <= one.truth) & (one.truth <= one.ends.high + 1e-9)
        self.asked += int(known.sum())
        self.held += int(holds[known].sum())
        self.width += float(width.sum())
        self.former += 0.0 if one.former is None else float(one.former.sum())

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


def cover(world: World, *, worlds: int, checked: int = 2, seed: int = 1) -> Covered:
    """`checked` of the worlds are worked out by the program as well; `AssertionError` where it
    finds other intervals."""
    chance = np.random.default_rng([seed, *f"{world}".encode()])
    covered, left = Covered(world), worlds
    variants = 2 * world.metrics * world.scenarios * world.variants_of(0)
    while left:
        passed = play(world, min(_AT_ONCE // variants + 1, left), chance)
        found = list(intervals(world, passed))
        for number in range(checked if left == worlds else 0):
            _check(world, found, number, passed[number])
        for one in found:
            covered.tallies[one.name].add(one)
        left -= len(passed)
    return covered


def intervals(world: World, passed: Array) -> Iterator[Intervals]:
    """Of each kind: of both targets, and for metrics of each in turn."""
    sizes = np.tile((~np.isnan(passed[0, 0, 0])).sum(1) * world.samples, (world.metrics, 1))
    totals = np.nansum(passed, 4)
    cells = totals.reshape(len(totals), -1, world.scenarios)
    likeness = correlation(np.tile(sizes, (2, 1)), cells)
    means = [[_truth(world, pair) for pair in metrics] for metrics in world.by_metric]
    for target in (0, 1):
        of_target = totals[:, target]
        if world.metric_likeness:
            ends = new_metrics_ends(sizes, of_target, likeness)
            yield Intervals("new-metrics rate", ends, world.both[target])
            continue
        for metric, truth in enumerate(means[target]):
            at = slice(metric, metric + 1)
            ends, _, _ = rate_ends(sizes[at], of_target[:, at], likeness)
            yield Intervals("metric rate", ends, truth)
        ends, _, _ = rate_ends(sizes, of_target, likeness)
        yield Intervals("benchmark rate", ends, sum(means[target]) / world.metrics)
    if world.metric_likeness:
        return
    rates = passed / world.samples
    lead = sum(means[0]) / world.metrics - sum(means[1]) / world.metrics
    apart, both = rates[:, :1] - rates[:, 1:], rates[:, :1] + rates[:, 1:]
    yield _of_differences("paired difference", apart, lead, both)
    if world.variants > 1:
        yield from _gaps(world, rates)
    if world.samples > 1 and world.metrics == 1:
        agreed, expected = _true_agreement(world)
        truths = (agreed, *((agreed - by) / (1 - by) for by in (expected, 1 - expected)))
        found = agreement_ends(passed[:, 0, 0], world.samples)
        for (name, ends), truth in zip(found.items(), truths, strict=True):
            yield Intervals(name, ends, truth)


def _of_differences(name: str, apart: Array, truth: float, both: Array | None = None) -> Intervals:
    return Intervals(name, _ends(summed(apart, both)), truth, _former(apart))


def _ends(found: Summed) -> Ends:
    estimate, error, freedom = (one[:, 0] for one in found)
    half = stats.t.ppf(0.5 + LEVEL / 2, freedom) * error
    return Ends(np.maximum(-1.0, estimate - half), np.minimum(1.0, estimate + half))


def _former(apart: Array) -> Array:
    """The width of Student's t on the clusters' own degrees of freedom, a third of a pair that
    differs added to the squared error."""
    sizes = (~np.isnan(apart[0, 0])).sum(2)
    totals, squares = np.nansum(apart, 4)[:, 0], np.nansum(apart**2, 4)[:, 0]
    rows, clusters = sizes.sum(), sizes.shape[1]
    left = totals - (totals.sum(2) / sizes.sum(1))[..., None] * sizes
    variance = (left**2).sum((1, 2)) * clusters / (clusters - 1) / rows**2
    freedom = (sizes.sum(1) ** 2 / (sizes**2).sum(1) - 1).sum()
    likeness = np.nan_to_num(correlation(sizes, totals, squares), nan=1.0)
    effective = rows / (1 + ((sizes**2).sum() / rows - 1) * likeness)
    half = critical(freedom) * np.sqrt(variance + 0.33 / effective**2)
    middle = totals.sum((1, 2)) / rows
    return np.asarray(np.minimum(1.0, middle + half) - np.maximum(-1.0, middle - half))


def _gaps(world: World, rates: Array) -> Iterator[Intervals]:
    """Between ages: of all targets together, and of each."""
    truths = [
        sum(first - second for first, second in metrics) / world.metrics
        for metrics in world.by_metric
    ]
    named = ["demographic gap, pooled", *["demographic gap"] * 2]
    of_each = zip(named, [sum(truths) / 2, *truths], strict=True)
    if world.uncrossed:
        pooled, alone = fitted_gaps(rates)
        # ages come first, then places
        for (name, truth), found in zip(of_each, (pooled[0], alone[0], alone[2]), strict=True):
            yield Intervals(f"{name}, not crossed", _ends(found), truth)
        return
    apart = rates[..., ::2] - rates[..., 1::2]
    together = np.concatenate([apart[:, :1], apart[:, 1:]], axis=4)
    for (name, truth), one in zip(of_each, (together, apart[:, :1], apart[:, 1:]), strict=True):
        yield _of_differences(name, one, truth)


def _truth(world: World, pair: tuple[float, float]) -> float:
    return sum(pair) / 2 if world.variants > 1 else pair[0]


def _check(world: World, found: Sequence[Intervals], number: int, passed: Array) -> None:
    """`passed` is that of the world of this number."""
    seen: Passed = [
        [
            [[int(one) for one in counts if one == one] for counts in scenarios]
            for scenarios in metrics
        ]
        for metrics in passed
    ]
    ours = [(one.ends.low[number], one.ends.high[number]) for one in found]
    theirs = [
        (nan, nan) if one is None else (one.low, one.high) for one in _by_program(world, seen)
    ]
    close = np.allclose(ours, theirs, rtol=0, atol=1e-7, equal_nan=True)
    assert close, f"not what the program says: {world}\n{ours}\n{theirs}"


Passed = list[list[list[list[int]]]]
"""target -> metric -> scenario -> variant -> samples that passed."""


def _by_program(world: World, seen: Passed) -> Iterator[Interval | None]:
    """In the order of `intervals`."""
    strata: list[list[Stratum]] = [
        [
            [Cluster.passing(sum(counts), len(counts) * world.samples) for counts in scenarios]
            for scenarios in metrics
        ]
        for metrics in seen
    ]
    likeness = intraclass_correlation(clusters for found in strata for clusters in found)
    for of_target in strata:
        if world.metric_likeness:
            yield _of(new_metrics_rate(of_target, likeness))
            continue
        yield from (_of(metric_rate(clusters, likeness)) for clusters in of_target)
        yield _of(benchmark_rate(of_target, likeness))
    if world.metric_likeness:
        return
    first, second = (_answers(world, metrics) for metrics in seen)
    [pair] = pair_differences([differences(first, second)])
    yield None if pair is None else pair.interval
    if world.variants > 1:
        variants = {f"target {number}": _variants(world, one) for number, one in enumerate(seen)}
        gaps = demographic_gaps(variants)
        yield from (gap.difference.interval for gap in gaps if gap.axis == "age")
    if world.samples > 1 and world.metrics == 1:
        yield from _agreement(world, seen[0][0])


def _of(rate: Rate | None) -> Interval | None:
    return None if rate is None else rate.interval


def _answers(world: World, metrics: Sequence[Sequence[Sequence[int]]]) -> Answers:
    return {
        f"m{metric}": {
            f"s{scenario}": {f"v{place}": one / world.samples for place, one in enumerate(counts)}
            for scenario, counts in enumerate(scenarios)
        }
        for metric, scenarios in enumerate(metrics)
    }


def _variants(world: World, metrics: Sequence[Sequence[Sequence[int]]]) -> list[Variant]:
    return [
        Variant(
            f"m{metric}",
            f"m{metric}_s{scenario}",
            person(metric, scenario, variant)
            if world.uncrossed
            else {"age": "ab"[variant % 2], "place": str(variant // 2)},
            passed,
            world.samples,
        )
        for metric, scenarios in enumerate(metrics)
        for scenario, counts in enumerate(scenarios)
        for variant, passed in enumerate(counts)
    ]


def _agreement(world: World, scenarios: Sequence[Sequence[int]]) -> Iterator[Interval | None]:
    """Between the samples of a variant."""
    rows = [
        [True] * passed + [False] * (world.samples - passed)
        for counts in scenarios
        for passed in counts
    ]
    found = agreement(rows, [number // world.variants for number in range(len(rows))])
    assert found is not None
    yield found.percent.interval
    for figure in (found.ac1, found.alpha):
        yield None if figure is None else figure.interval


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
KINDS: Final = {
    "Metrics and base scenarios alike": BAR,
    "One metric whose rows are alike, the others' not": [
        World(4, scenarios, 4, samples, rate, 0.7, uneven=True, reach=0.05)
        for scenarios, samples, rate in product(SIZES, (1, 3), (0.3, 0.5, 0.7, 0.9))
    ],
    "Two people per base scenario, each of a place that is drawn": [
        World(metrics, scenarios, 2, samples, rate, likeness, uncrossed=True, reach=0.05)
        for scenarios, metrics, samples, rate, likeness in product(
            SIZES, (1, 4), (1, 3), (0.3, 0.7, 0.9), (0.1, 0.4)
        )
    ],
    "Rates at which nearly all samples are the same": [
        World(1, scenarios, variants, samples, rate, likeness)
        for scenarios, variants, samples, rate, likeness in product(
            SIZES, (1, 4), (2, 3), (0.8, 0.95), (0.1, 0.8)
        )
    ],
    "Rows not alike at all, or much": [
        World(metrics, scenarios, 4, samples, rate, likeness)
        for metrics, scenarios, samples, rate, likeness in product(
            (1, 4), (3, 20), (1, 3), (0.5, 0.8, 0.95), (0.0, 0.7)
        )
    ],
    "One base scenario twelve times as large as the others": [
        World(metrics, scenarios, 1, 1, rate, likeness, unlike=True, reach=0.05)
        for scenarios, metrics, rate, likeness in product(
            SIZES, (1, 4), (0.5, 0.7, 0.9), (0.1, 0.4)
        )
    ],
    "A target that fails whole base scenarios, beside one that fails here and there": [
        World(1, scenarios, rows, 1, rate, 0.8, other_likeness=0.1, lag=0.0)
        for scenarios, rows, rate in product((4, 8, 20), (4, 16), (0.7, 0.9))
    ],
    "Metrics drawn from many (by metrics)": [
        World(metrics, 6, 4, 1, rate, likeness, metric_likeness=drawn)
        for metrics, rate, likeness, drawn in product(
            (3, 5, 8, 20), (0.5, 0.65, 0.8, 0.95), (0.0, 0.4), (1e-9, 0.1, 0.4)
        )
    ],
}


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
        f"Output of `{COMMAND} --worlds {worlds}{of}`: simulated worlds with known rates, "
        f"{worlds:,} of each kind of world. For each interval a table has its coverage (95% "
        "intended) in the worst kind, on average over the kinds and in the best one, and its mean "
        f"width. `--kinds` prints each kind. By chance alone, a coverage of {LEAST:.0%} is seen as "
        f"{slack:.1%} off in 1 of 20 kinds; where an interval has two targets, or several metrics, "
        "in each world, less. The program itself works out the first two worlds of each kind, and "
        "the simulation has to find the same.",
        "",
        f"Bars: coverage of at least {LEAST:.0%} in each kind, less two standard errors of the "
        f"simulation; with metrics and base scenarios alike, on average at most {MOST:.1%}, of a "
        "benchmark's rate at every size and of everything else at 30 scenarios. There, with one "
        "metric, an interval must also be narrower than Student's t on the clusters' own degrees "
        "of freedom with a third of a pair added: by 25% and 12% for pairs of targets, and by 15% "
        "and 8% for demographic gaps, at 4 and 8 scenarios.",
        "",
        "The lower end of the rate of one metric never rises as a failure is added: tried for all "
        "tables of up to 4 base scenarios of 8 rows, and for 10,000 random ones of 2 to 19 base "
        "scenarios of 1 to 24 rows. With several metrics it rises in 1% of such random tables, by "
        "up to a point.",
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
    `--write` keeps the tables in docs/simulations/intervals.md.
    """
    slack = 2 * sqrt(LEAST * (1 - LEAST) / worlds)
    lines, faults = _introduction(worlds, every, slack), list[str]()
    for title, those in KINDS.items():
        found = []
        for world in those[::every]:
            covered = cover(world, worlds=worlds)
            found.append(covered)
            faults += covered.faults(slack)
            if kinds:
                say(f"{world}\n")
                for name, tally in covered.tallies.items():
                    say(f"  {name:24} {tally.coverage:6.1%}  mean width {tally.mean_width:.3f}\n")
        lines += ["", f"## {title}", "", f"{len(found)} kinds.", "", *_table(found)]
        if those is BAR and every == 1:
            faults += _missed(found)
    yield from page(PAGE, [*lines, "", *missed(faults, _WHY)], faults, write=write)


_WHY: Final = (
    "Coverage and the order of lower ends come before width: with few base scenarios, a rate is "
    "drawn towards an intra-class correlation of 0.3, and pairs of targets have the guard for a "
    "side that hides how it fails elsewhere. Both make intervals wider."
)
