"""How often what is said of several benchmarks together holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.analysis.analyse import analyse
from engine.analysis.figures import (
    Analysis,
    AnalysisContext,
    Estimate,
    MetricInfo,
    Outcome,
    Overall,
)
from engine.analysis.overall import overall
from engine.benchmark import ConversationKey, Track, variant_id
from engine.statistics.paired import ERROR_RATE
from tests.benchmarks.frame import Row, missed, page
from tools.simulations.false_claims import draw, slack

PAGE: Final = Path("docs/simulations/overall.md")
COMMAND: Final = "python -m tests.benchmarks overall"
LEAST: Final = 0.93
"""Coverage of each interval of a rate."""
_MIDDLE: Final = 0.65
_HARDER: Final = 0.15
"""How far the rate of a benchmark lies from the middle, at most."""
_LIKENESS: Final = 0.3
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of world."""

    benchmarks: int
    targets: int
    scenarios: int
    """Of each metric; a benchmark has one metric of each track."""
    differ: float
    """Standard deviation of a target's rates about those of the benchmarks, in rates."""
    largest: int = 1
    """Rows of the first scenario of each metric; the others have one."""

    def rows_of(self, scenario: int) -> int:
        return 1 if scenario else self.largest


CELLS: Final = [
    *(Cell(count, 4, 8, 0.0) for count in (2, 3, 5, 8, 17)),
    *(Cell(count, 4, 8, 0.1) for count in (2, 3, 5, 8, 17)),
    Cell(3, 14, 8, 0.1),
    *(Cell(count, 4, 4, 0.05) for count in (3, 5, 8)),
    Cell(5, 2, 30, 0.1),
    *(Cell(count, 4, 8, 0.1, largest=12) for count in (3, 5)),
]


@dataclass(slots=True)
class Counted:
    """What came of many worlds of one kind."""

    worlds: int = 0
    false: int = 0
    """Worlds with any false mark."""
    ranked: int = 0
    """Worlds in which every range of ranks held."""
    told: int = 0
    """Marks, in all worlds."""
    rates: int = 0
    here: int = 0
    """Intervals that held the mean of the benchmarks that were drawn."""
    beyond: int = 0
    """Intervals for benchmarks like these that held the mean of all such."""
    width_here: float = 0.0
    width_beyond: float = 0.0

    def faults(self, slack: float, *, many: bool) -> Iterator[str]:
        """Where a bar is missed by more than `slack`; `many`, whether there are enough benchmarks
        that something is said of others."""
        if self.false / self.worlds > ERROR_RATE + slack:
            yield f"{self.false / self.worlds:.1%} carry a false mark"
        if self.ranked / self.worlds < 1 - ERROR_RATE - slack:
            yield f"ranks hold in {self.ranked / self.worlds:.1%}"
        if self.here / self.rates < LEAST - slack:
            yield f"a rate is held in {self.here / self.rates:.1%}"
        if many and self.beyond / self.rates < LEAST - slack:
            yield f"a rate of benchmarks like these is held in {self.beyond / self.rates:.1%}"


def count(cell: Cell, *, worlds: int, seed: int = 1) -> Counted:
    chance = np.random.default_rng([seed, *f"{cell}".encode()])
    mean = float(_rates(Cell(20_000, 1, 1, cell.differ), np.random.default_rng(seed)).mean())
    counted = Counted()
    for _ in range(worlds):
        rates = _rates(cell, chance)
        found = overall([_benchmark(n, one, cell, chance) for n, one in enumerate(rates)])
        _add(counted, found, rates.mean(axis=0), mean)
    return counted


def _rates(cell: Cell, chance: np.random.Generator) -> Array:
    """True ones: benchmark, target, metric (the positive one, then the negative one)."""
    shape = (cell.benchmarks, cell.targets, 2)
    hard = chance.uniform(-_HARDER, _HARDER, (cell.benchmarks, 1, 2))
    own = chance.normal(0, 1, shape) * cell.differ
    return np.clip(_MIDDLE + hard + own, 0.02, 0.98)


def _benchmark(number: int, rates: Array, cell: Cell, chance: np.random.Generator) -> Analysis:
    shape = (1, cell.targets, 2, cell.scenarios, cell.largest)
    passed = draw(rates, shape, 1, _LIKENESS, chance)[0]
    found = [
        Outcome(
            key=ConversationKey(
                variant_id(f"{metric.id}_s{scenario:03d}", 1 + row), str(target), 0
            ),
            metric_id=metric.id,
            track=metric.track,
            demographic={},
            passed=bool(passed[target, place, scenario, row]),
            unscored=None,
        )
        for target in range(cell.targets)
        for place, metric in enumerate(_METRICS)
        for scenario in range(cell.scenarios)
        for row in range(cell.rows_of(scenario))
    ]
    names = {str(target): "" for target in range(cell.targets)}
    about = AnalysisContext(benchmark=f"b{number}", title="", metrics=_METRICS)
    return analyse(found, about, names)


_METRICS: Final = [MetricInfo("m1", "", Track.POSITIVE), MetricInfo("m2", "", Track.NEGATIVE)]


def _add(counted: Counted, found: Overall, truth: Array, mean: float) -> None:
    """`truth` by target and track, of the benchmarks that were drawn; `mean` of all like them."""
    counted.worlds += 1
    place = {track: number for number, track in enumerate(Track)}

    def true(target: str, track: Track | None) -> float:
        assert track is not None
        return float(truth[int(target), place[track]])

    wrong = any(
        comparison.sure
        and comparison.difference
        * (true(comparison.left, comparison.track) - true(comparison.right, comparison.track))
        <= 0
        for comparison in found.comparisons
    )
    counted.false += wrong or any(one.sure for one in found.on_like)
    counted.told += sum(one.sure for one in (*found.comparisons, *found.on_like))
    held = True
    for one in found.targets:
        for track, rank in one.ranks.items():
            others = [true(other.target, track) for other in found.targets]
            own = true(one.target, track)
            first, last = 1 + sum(o > own for o in others), sum(o >= own for o in others)
            held &= rank.best <= first and last <= rank.worst
        for track, rate in one.tracks.items():
            like = one.new_metrics[track]
            counted.rates += 1
            counted.here += _holds(rate, true(one.target, track))
            counted.width_here += _width(rate)
            if like is not None:
                counted.beyond += _holds(like, mean)
                counted.width_beyond += _width(like)
    counted.ranked += held


def _holds(rate: Estimate, truth: float) -> bool:
    assert rate.low is not None
    assert rate.high is not None
    return rate.low <= truth <= rate.high


def _width(rate: Estimate) -> float:
    assert rate.low is not None
    assert rate.high is not None
    return rate.high - rate.low


def table(worlds: int, *, every: int = 1) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what missed a bar."""
    lines = [
        "# Several benchmarks together",
        "",
        f"Output of `{COMMAND} --worlds {worlds}`. For {worlds:,} simulated worlds of each kind: "
        "how many have any false ✓ (at most 5%), how many have every range of ranks correct (at "
        "least 95%), and how often the interval of a rate contains the mean of these benchmarks, "
        "and, if there are enough of them, of benchmarks like these (95% intended, at least "
        f"{LEAST:.0%} required). Each benchmark has one metric of each track. Targets differ "
        "between benchmarks by the given standard deviation, but not on average, so every ✓ about "
        "benchmarks like these is false. The last kinds have one base scenario of 12 rows among "
        f"those of one. By chance alone, a share is off by {slack(worlds):.1%} in 1 of 200 cells.",
        "",
        "| benchmarks | targets | scenarios | differ by | any false ✓ | ranks hold | ✓ | "
        "rate, these | width | rate, like these | width |",
        "| --: " * 11 + "|",
    ]
    faults: list[str] = []
    for cell in CELLS[::every]:
        found = count(cell, worlds=worlds)
        many = found.width_beyond > 0
        like = (
            f"{found.beyond / found.rates:.1%} | {found.width_beyond / found.rates:.2f}"
            if many
            else "| "
        )
        scenarios = f"{cell.scenarios}{' unlike' if cell.largest > 1 else ''}"
        line = (
            f"| {cell.benchmarks} | {cell.targets} | {scenarios} | {cell.differ:.2f} | "
            f"{found.false / worlds:.1%} | {found.ranked / worlds:.1%} | {found.told / worlds:.2f} "
            f"| {found.here / found.rates:.1%} | {found.width_here / found.rates:.2f} | {like} |"
        )
        lines.append(line)
        sys.stderr.write(line + "\n")
        faults += (f"{cell}: {fault}" for fault in found.faults(slack(worlds), many=many))
    return lines, faults


def overall_claims(*, worlds: int = 1000, every: int = 1, write: bool = False) -> Iterator[Row]:
    """How often what is said of several benchmarks together holds.

    Benchmarks are drawn as if from many: some are hard for everybody, and each target does better
    in some than in others, by as much as `differ` says, but no target is better on the whole. So of
    benchmarks like these every mark is false. Of the benchmarks that were drawn, targets do differ,
    and a mark is false where it names the wrong side. The program itself counts and marks each
    world. `--write` keeps the table in docs/simulations/overall.md.
    """
    lines, faults = table(worlds, every=every)
    yield from page(PAGE, [*lines, "", *missed(faults)], faults, write=write)
