"""How often what is said of a judge from a sample of labels holds the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist, fmean
from typing import Final

from engine.statistics.calibration import (
    JudgedCluster,
    LabelledConversation,
    Population,
    accuracy,
    prediction_powered,
    rogan_gladen,
)
from engine.statistics.design import stratified_sample
from engine.statistics.distributions import Interval
from tests.benchmarks.frame import Row, missed, page

NORMAL: Final = NormalDist()
LEAST: Final = 0.93
PAGE: Final = Path(__file__).parents[2] / "docs" / "simulations" / "label-coverage.md"
SIZES: Final = (60, 200)
ROWS: Final = 24
"""Conversations of a base scenario: variants, targets and samples."""


@dataclass(frozen=True, slots=True)
class World:
    metrics: int
    scenarios: int
    """Of each metric."""
    present: float
    """The share of conversations in which people find the behaviour."""
    sensitivity: float
    specificity: float
    likeness: float
    """Of conversations of one scenario, in what happens."""
    likeness_of_errors: float
    """The same of the judge's errors."""
    largest: int = 1
    """How many times as large the first scenario of each metric is."""

    def rows_of(self, scenario: int) -> int:
        return ROWS * (1 if scenario else self.largest)


_SHAPES: Final = ((1, 8), (3, 8), (6, 10))
KINDS: Final = [
    *(
        World(metrics, scenarios, present, *judge, *alike)
        for (metrics, scenarios), present, judge, alike in product(
            _SHAPES,
            (0.1, 0.3, 0.5),
            ((0.95, 0.95), (0.8, 0.9), (0.99, 0.8)),
            ((0.1, 0.0), (0.4, 0.3)),
        )
    ),
    *(
        World(metrics, scenarios, present, 0.8, 0.9, 0.4, 0.3, largest=8)
        for (metrics, scenarios), present in product(_SHAPES, (0.1, 0.3, 0.5))
    ),
]


def drawn(world: World, size: int, chance: Random) -> tuple[Population, list[LabelledConversation]]:
    """What the judge said of all conversations, and a sample with what people say of it."""
    population: dict[str, dict[str, JudgedCluster]] = {}
    strata: dict[tuple[str, ...], list[tuple[str, bool, bool]]] = defaultdict(list)
    for metric in range(world.metrics):
        clusters = population.setdefault(f"m{metric}", {})
        for scenario in range(world.scenarios):
            name = f"m{metric} s{scenario}"
            answers = list(_answers(world, world.rows_of(scenario), chance))
            for row, (judge, person) in enumerate(answers):
                strata[str(judge), f"m{metric}", f"target {row % 4}"].append((name, judge, person))
            clusters[name] = JudgedCluster(len(answers), sum(judge for judge, _ in answers))
    sample = stratified_sample(strata, size, str(chance.random()))
    return population, [
        LabelledConversation(one.thing[0], 1 / one.inclusion, *one.thing[1:]) for one in sample
    ]


def _answers(world: World, rows: int, chance: Random) -> Iterator[tuple[bool, bool]]:
    """The judge's and the person's, of one scenario."""
    shared, shared_error = chance.gauss(0, 1), chance.gauss(0, 1)
    shares = (world.present, world.specificity, world.sensitivity)
    present, *able = map(NORMAL.inv_cdf, shares)
    for _ in range(rows):
        person = _latent(shared, world.likeness, chance) < present
        right = _latent(shared_error, world.likeness_of_errors, chance) < able[person]
        yield (person if right else not person), person


def _latent(shared: float, likeness: float, chance: Random) -> float:
    return shared * sqrt(likeness) + chance.gauss(0, 1) * sqrt(1 - likeness)


def truths(world: World) -> dict[str, float]:
    hit = world.present * world.sensitivity
    passed_over = (1 - world.present) * world.specificity
    return {
        "sensitivity": world.sensitivity,
        "specificity": world.specificity,
        "predictive value of present": hit / (hit + 1 - world.present - passed_over),
        "predictive value of absent": passed_over / (passed_over + world.present - hit),
        "share right": hit + passed_over,
        "rate, prediction-powered": world.present,
        "rate, Rogan-Gladen": world.present,
    }


def intervals(
    population: Population, labels: Sequence[LabelledConversation]
) -> Mapping[str, Interval | None]:
    found = accuracy(labels)
    powered, corrected = prediction_powered(population, labels), rogan_gladen(population, labels)
    shares = (
        found.sensitivity,
        found.specificity,
        found.positive_value,
        found.negative_value,
        found.right,
        powered,
    )
    ends = [share.interval if share else None for share in shares]
    ends.append(corrected.interval)
    return dict(zip(truths(KINDS[0]), ends, strict=True))


@dataclass(slots=True)
class Counted:
    worlds: int = 0
    held: int = 0
    width: float = 0.0

    @property
    def coverage(self) -> float:
        return self.held / self.worlds if self.worlds else 1.0


def measured(world: World, size: int, worlds: int, seed: int = 0) -> dict[str, Counted]:
    chance = Random(f"{world} {size} {seed}")
    true, counted = truths(world), {name: Counted() for name in truths(world)}
    for _ in range(worlds):
        for name, interval in intervals(*drawn(world, size, chance)).items():
            if interval is not None:
                one = counted[name]
                one.worlds += 1
                one.held += interval.holds(true[name])
                one.width += interval.width
    return counted


def _slack(worlds: int) -> float:
    return 2 * sqrt(LEAST * (1 - LEAST) / worlds)


def table(
    found: Mapping[int, Sequence[Mapping[str, Counted]]], worlds: int, seed: int
) -> list[str]:
    lines = [
        "# Calibration in simulated worlds",
        "",
        f"Output of `python -m tests.benchmarks labels --worlds {worlds} --seed {seed}`.",
        f"{len(KINDS)} kinds of world (8 to 60 base scenarios of {ROWS} conversations, and in 9",
        "kinds one of each metric with 8 times as many; behaviour present in 10 to 50%, judges",
        "right in 80 to 99%, similar and dissimilar scenarios), each simulated that often.",
        "Coverage of the 95% interval, on average and in the worst kind, and its mean width.",
        f"Bar: at least {LEAST:.0%} in each kind, less two standard errors of the simulation",
        f"({_slack(worlds):.1%}).",
        "The method was chosen with other seeds.",
        "",
        "| figure | labels | mean | worst | width | cannot be said |",
        "|---|---|---|---|---|---|",
    ]
    for name in truths(KINDS[0]):
        for size, kinds in found.items():
            cells = [kind[name] for kind in kinds]
            told = sum(cell.worlds for cell in cells)
            lines.append(
                f"| {name} | {size} | {fmean(cell.coverage for cell in cells):.1%} "
                f"| {min(cell.coverage for cell in cells):.1%} "
                f"| {sum(cell.width for cell in cells) / told:.2f} "
                f"| {1 - told / (worlds * len(cells)):.1%} |"
            )
    return lines


def labels(*, worlds: int = 300, seed: int = 0, write: bool = False) -> Iterator[Row]:
    """How often what is said of a judge from a sample of labels holds the truth.

    In a simulated world it is known how often the behaviour is present and how often the judge
    finds it. Scenarios differ in how often it is present, and in some kinds of world also in how
    well the judge sees it. A sample is drawn as labels are, and each interval is asked whether it
    holds the truth. `--write` keeps the table in docs/simulations/label-coverage.md. Missed is
    where any figure holds the truth in less than 93% of the worlds of any kind, less two standard
    errors, with 60 or with 200 labels.
    """
    with ProcessPoolExecutor() as pool:
        jobs = {
            size: [pool.submit(measured, world, size, worlds, seed) for world in KINDS]
            for size in SIZES
        }
        found = {size: [job.result() for job in of_size] for size, of_size in jobs.items()}
    faults = [
        f"{name}, {size} labels: {one.coverage:.1%} of {one.worlds:,}; {world}"
        for size, kinds in found.items()
        for world, kind in zip(KINDS, kinds, strict=True)
        for name, one in kind.items()
        if one.worlds and one.coverage < LEAST - _slack(one.worlds)
    ]
    lines = [*table(found, worlds, seed), "", *missed(faults)]
    yield from page(PAGE, lines, faults, write=write)
