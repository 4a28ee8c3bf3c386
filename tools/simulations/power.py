"""How often the difference that `run --dry-run` names is marked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, sqrt
from pathlib import Path
from typing import Final

import numpy as np

from engine.statistics.design import POWER, Assumed, Plan, smallest_difference
from engine.statistics.paired import FamilyPart, levels
from tests.benchmarks.frame import Row, missed, page
from tests.late import stats
from tools.simulations.false_claims import Array, Kind, Size, Worlds, summed

PAGE: Final = Path("docs/simulations/power.md")
COMMAND: Final = "python -m tests.benchmarks power"
TARGETS: Final = (2, 5, 14)


@dataclass(frozen=True, slots=True)
class Played:
    """A plan whose base scenarios are all of one size."""

    metrics: int
    scenarios: int
    variants: int
    samples: int

    def plan(self, targets: int) -> Plan:
        bases = [self.scenarios] * self.metrics
        return Plan.even(bases, self.variants, self.samples, targets)


PLANS: Final = (
    Played(4, 8, 1, 1),
    Played(4, 8, 2, 2),
    Played(10, 4, 2, 1),
    Played(20, 4, 1, 1),
    Played(20, 4, 6, 1),
    Played(2, 30, 2, 1),
)
_NEAR: Final = 0.03
"""By how much a share may fall short of 80%, beside chance."""


def named(played: Played, targets: int) -> float | None:
    """What `--dry-run` says of all metrics, before anything is played."""
    level = levels(_family(played, targets))[FamilyPart.PAIRS]
    return smallest_difference(played.plan(targets), level=level)


def _family(played: Played, targets: int) -> Counter[FamilyPart]:
    pairs, gaps = comb(targets, 2), {1: 0, 2: 1, 6: 4}[played.variants]
    return Counter(
        {
            FamilyPart.PAIRS: pairs,
            FamilyPart.PAIRS_ON_TRACKS: 2 * pairs,
            FamilyPart.GAPS: gaps,
            FamilyPart.GAPS_OF_TARGETS: gaps * targets,
        }
    )


def marked(played: Played, targets: int, difference: float, *, worlds: int, seed: int = 1) -> float:
    """In which share of worlds the first target is marked as better than the second."""
    plan = played.plan(targets)
    bases = [played.scenarios] * played.metrics
    chance = np.random.default_rng([seed, targets, *bases, played.variants, plan.samples])
    assumed = Assumed()
    rates = np.full(targets, assumed.rate)
    rates[:2] += difference / 2, -difference / 2
    size = Size(targets, played.variants, plan.samples)
    kind = Kind("planned", played.metrics, played.scenarios)
    found = 0
    for start in range(0, worlds, 50):
        shape = (min(50, worlds - start), targets, played.metrics, played.scenarios)
        odds = _odds(rates, assumed.correlation, shape, chance)
        odds = np.repeat(odds, played.variants, axis=4)
        passed = chance.binomial(plan.samples, odds) / plan.samples
        compared = Worlds.of(passed, kind, size)
        found += int((compared.sure()[:, 0] & (compared.estimate[:, 0] > 0)).sum())
    return found / worlds


def _odds(
    rates: Array, correlation: float, shape: tuple[int, int, int, int], chance: np.random.Generator
) -> Array:
    """Of each base scenario, with this correlation of its rows; targets are independent."""
    alike, by_target = (1 - correlation) / correlation, rates[None, :, None, None]
    return np.asarray(chance.beta(by_target * alike, (1 - by_target) * alike, shape)[..., None])


@dataclass(frozen=True, slots=True)
class Apart:
    """Eight targets of which most truly differ, compared on all metrics at once."""

    name: str
    rates: tuple[float, ...]
    metrics: int
    scenarios: int
    earlier: float
    """The share of real differences that was marked in such worlds where each pair of targets was
    looked at alone."""

    def found(self, worlds: int) -> float:
        """The share of all real differences that is marked, the right way round."""
        chance = np.random.default_rng([*self.name.encode()])
        left, right = np.array(list(combinations(range(len(self.rates)), 2))).T
        rates = np.array(self.rates)
        lead = rates[left] - rates[right]
        marks = 0
        for start in range(0, worlds, 200):
            shape = (min(200, worlds - start), len(rates), self.metrics, self.scenarios)
            odds = np.repeat(_odds(rates, _ALIKE, shape, chance), _ROWS, axis=4)
            passed = chance.binomial(1, odds).astype(float)
            one, other = passed[:, left], passed[:, right]
            estimate, error, freedom = summed(one - other, one + other, len(rates))
            p = 2 * stats.t.sf(np.abs(estimate) / error, freedom)
            order = np.sort(p, axis=1)
            steps = order * np.arange(len(left), 0, -1) <= _LEVEL
            told = np.cumprod(steps, axis=1).sum(1, keepdims=True)
            marked = (p.argsort(1).argsort(1) < told) & (estimate * lead > 0)
            marks += int(marked.sum())
        return marks / worlds / int((lead != 0).sum())


_ALIKE: Final = 0.5
_ROWS: Final = 4
"""Of each base scenario, and how alike they are."""
_LEVEL: Final = 0.02
"""Of all pairs together, where the results also compare tracks and groups of people."""
APART: Final = (
    Apart("evenly from .95 to .1", tuple(np.linspace(0.95, 0.1, 8)), 2, 4, 0.049),
    Apart("four at .98, four at .6", (0.98,) * 4 + (0.6,) * 4, 2, 4, 0.026),
    Apart("four at .75, four at .5", (0.75,) * 4 + (0.5,) * 4, 2, 4, 0.006),
    Apart("four at .75, four at .5", (0.75,) * 4 + (0.5,) * 4, 4, 8, 0.202),
    Apart("four at .75, four at .5", (0.75,) * 4 + (0.5,) * 4, 4, 20, 0.805),
)


def table(worlds: int) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what is marked too seldom."""
    assumed, slack = Assumed(), 2.6 * sqrt(POWER * (1 - POWER) / worlds)
    lines = [
        "# Power",
        "",
        f"Output of `{COMMAND} --worlds {worlds}`. `crosswind run --dry-run` names the smallest "
        "difference between two targets that is marked ✓ 4 times out of 5, among everything that "
        f"the results compare. In {worlds:,} simulated worlds, two targets truly differ by it, as "
        f"the plan assumes (pass rates about {assumed.rate:.0%}, an intra-class correlation of "
        f"{assumed.correlation:g}, independent targets). The last column says how often it was "
        f"marked (bar: at least {POWER - _NEAR:.0%}, less what chance allows). By chance alone, a "
        f"share is off by {slack:.1%} in 1 of 200 cells. Rates that are "
        "far apart vary less than rates near the middle, so large differences are marked more "
        "often than promised.",
        "",
        "| metrics | scenarios | variants | samples | targets | difference | marked |",
        "| --: | --: | --: | --: | --: | --: | --: |",
    ]
    faults: list[str] = []
    for played, targets in product(PLANS, TARGETS):
        difference = named(played, targets)
        assert difference is not None
        share = marked(played, targets, difference, worlds=worlds)
        line = (
            f"| {played.metrics} | {played.scenarios} | {played.variants} | {played.samples} "
            f"| {targets} | {difference * 100:.0f} points | {share:.1%} |"
        )
        lines.append(line)
        sys.stderr.write(f"{line}\n")
        if share < POWER - _NEAR - slack:
            faults.append(f"{played}, {targets} targets: marked in {share:.1%}, too seldom")
    lines += [
        "",
        "## Eight targets",
        "",
        f"The share of all real differences between eight targets that is marked, at a level of "
        f"{_LEVEL:g} for all pairs together, with {_ROWS} rows of each base scenario and an "
        f"intra-class correlation of {_ALIKE:g}; and what the procedure before this one, which "
        "looked at each pair alone, marked in such worlds (bar: no less than that).",
        "",
        "| pass rates | metrics | scenarios | each pair alone | now |",
        "| --- | --: | --: | --: | --: |",
    ]
    for world in APART:
        share = world.found(worlds)
        line = (
            f"| {world.name} | {world.metrics} | {world.scenarios} | {world.earlier:.3f} "
            f"| {share:.3f} |"
        )
        lines.append(line)
        sys.stderr.write(f"{line}\n")
        if share < world.earlier:
            faults.append(f"{world.name}, {world.scenarios} scenarios: {share:.3f} found")
    return lines, faults


def power(*, worlds: int = 1000, write: bool = False) -> Iterator[Row]:
    """How often the difference that `run --dry-run` names is marked, when two targets truly differ
    by it.

    Worlds are drawn as the plan assumes: a common pass rate, rows of one base scenario as alike as
    is said, targets that pass and fail independently. The others of several targets are all alike,
    between the two that differ. `--write` keeps the table in docs/simulations/power.md.
    """
    lines, faults = table(worlds)
    yield from page(PAGE, [*lines, "", *missed(faults)], faults, write=write)
