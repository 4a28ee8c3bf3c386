"""How often the difference that `run --dry-run` names is marked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import comb, sqrt
from pathlib import Path
from typing import Final

import numpy as np

from engine.statistics.design import POWER, Assumed, Plan, smallest_difference
from engine.statistics.paired import FamilyPart, levels
from tests.benchmarks.frame import Row, missed, page
from tools.simulations.false_claims import Kind, Size, Worlds

PAGE: Final = Path("docs/simulations/power.md")
COMMAND: Final = "python -m tests.benchmarks power"
TARGETS: Final = (2, 5, 14)
PLANS: Final = (
    Plan((8,) * 4, variants=1, samples=1),
    Plan((8,) * 4, variants=2, samples=2),
    Plan((4,) * 10, variants=2, samples=1),
    Plan((4,) * 20, variants=1, samples=1),
    Plan((4,) * 20, variants=6, samples=1),
    Plan((30,) * 2, variants=2, samples=1),
)
_NEAR: Final = 0.03
"""By how much a share may fall short of 80%, beside chance."""


def named(plan: Plan, targets: int) -> float | None:
    """What `--dry-run` says of all metrics, before anything is played."""
    return smallest_difference(plan, level=levels(_family(plan, targets))[FamilyPart.PAIRS])


def _family(plan: Plan, targets: int) -> Counter[FamilyPart]:
    pairs, gaps = comb(targets, 2), {1: 0, 2: 1, 6: 4}[plan.variants]
    return Counter(
        {
            FamilyPart.PAIRS: pairs,
            FamilyPart.PAIRS_ON_TRACKS: 2 * pairs,
            FamilyPart.GAPS: gaps,
            FamilyPart.GAPS_OF_TARGETS: gaps * targets,
        }
    )


def marked(plan: Plan, targets: int, difference: float, *, worlds: int, seed: int = 1) -> float:
    """In which share of worlds the first target is marked as better than the second."""
    chance = np.random.default_rng([seed, targets, *plan.bases, plan.variants, plan.samples])
    assumed = Assumed()
    rates = np.full(targets, assumed.rate)
    rates[:2] += difference / 2, -difference / 2
    alike = (1 - assumed.correlation) / assumed.correlation
    size = Size(targets, plan.variants, plan.samples)
    metrics, scenarios = len(plan.bases), plan.bases[0]
    kind = Kind("planned", metrics, scenarios)
    found = 0
    for start in range(0, worlds, 50):
        shape = (min(50, worlds - start), targets, metrics, scenarios, 1)
        by_target = rates[None, :, None, None, None]
        odds = chance.beta(by_target * alike, (1 - by_target) * alike, shape)
        odds = np.repeat(odds, plan.variants, axis=4)
        passed = chance.binomial(plan.samples, odds) / plan.samples
        compared = Worlds.of(passed, kind, size)
        found += int((compared.sure()[:, 0] & (compared.estimate[:, 0] > 0)).sum())
    return found / worlds


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
    for plan, targets in product(PLANS, TARGETS):
        difference = named(plan, targets)
        assert difference is not None
        share = marked(plan, targets, difference, worlds=worlds)
        line = (
            f"| {len(plan.bases)} | {plan.bases[0]} | {plan.variants} | {plan.samples} "
            f"| {targets} | {difference * 100:.0f} points | {share:.1%} |"
        )
        lines.append(line)
        sys.stderr.write(f"{line}\n")
        if share < POWER - _NEAR - slack:
            faults.append(f"{plan}, {targets} targets: marked in {share:.1%}, too seldom")
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
