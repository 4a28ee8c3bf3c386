"""How often anything false is marked as sure, and how often all ranks hold at once:
`python -m tests.benchmarks.coverage --claims [--worlds N] [--write]`.

Worlds are drawn as for the intervals, and what the pages would mark is held against what is true.
Where nothing differs, every ✓ is false; where targets differ, so is one that names the wrong side
or parts two that are equal, and each target's range of ranks has to hold all places that its true
rate, ties included, could claim. `--write` keeps the table in docs/false-claims.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Final

from engine.analysis.contrasts import Contrasts, compared, contrasts, ranks
from engine.analysis.figures import Comparison
from engine.analysis.tallies import ScenarioTally, TargetTally
from engine.benchmark import Track
from engine.statistics.family import ERROR_RATE

PAGE: Final = Path("docs/false-claims.md")
COMMAND: Final = "python -m tests.benchmarks.coverage --claims"
_NORMAL: Final = NormalDist()
_LIKENESS: Final = 0.4
"""The part of the latent variance that rows of one base scenario share."""
_APART: Final = 0.3
"""Between the best and the last target, where they differ."""
_CEILING: Final = 0.995


@dataclass(frozen=True, slots=True)
class Kind:
    """Metrics, and what is true of them for each target."""

    name: str
    metrics: int
    """Every other one is positive."""
    scenarios: int
    apart: bool = False
    """Whether targets differ: half of them, evenly; the others are all as good as the best."""
    ceiling: bool = False
    """Whether all but a seventh of the metrics are passed nearly always."""

    def rate(self, metric: int, target: int, targets: int) -> float:
        if self.ceiling:
            return 0.5 if metric % 7 == 0 else _CEILING
        rate = 0.65 + 0.15 * (2 * metric / max(1, self.metrics - 1) - 1)
        return rate - self.behind(target, targets)

    def behind(self, target: int, targets: int) -> float:
        worst = targets - 1
        return _APART * max(0, 2 * target - worst) / worst if self.apart else 0.0


KINDS: Final = (
    Kind("none differ, 20 metrics x 4 scenarios", 20, 4),
    Kind("none differ, 2 metrics x 8 scenarios", 2, 8),
    Kind("none differ, 14 metrics x 2 scenarios, most at their ceiling", 14, 2, ceiling=True),
    Kind("half differ, 6 metrics x 8 scenarios", 6, 8, apart=True),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is played."""

    targets: int
    variants: int
    """1, or of two ages in one or three places."""
    samples: int


SIZES: Final = [Size(*one) for one in product((2, 4, 8, 14), (1, 2, 6), (1, 3))]


@dataclass(slots=True)
class Counted:
    """What came of many worlds of one kind and size."""

    worlds: int = 0
    family: int = 0
    false: int = 0
    """Worlds with any false mark."""
    ranked: int = 0
    """Worlds in which every range of ranks held, on both tracks."""
    told: int = 0
    """Marks, in all worlds."""
    false_share: float = 0.0
    """Of the marks for exploring those that are false, added up over worlds."""

    @property
    def any_false(self) -> float:
        return self.false / self.worlds

    @property
    def ranks_held(self) -> float:
        return self.ranked / self.worlds

    def faults(self, slack: float) -> Iterator[str]:
        """Where a bar is missed by more than `slack`, which allows for few worlds."""
        if self.any_false > ERROR_RATE + slack:
            yield f"{self.any_false:.1%} carry a false mark"
        if self.ranks_held < 1 - ERROR_RATE - slack:
            yield f"ranks hold in {self.ranks_held:.1%}"
        if self.false_share / self.worlds > ERROR_RATE + slack:
            yield f"{self.false_share / self.worlds:.1%} of marks for exploring are false"


def slack(worlds: int) -> float:
    """What a share of 5 % among so many worlds may be off by chance, in 1 of 200 cases."""
    return 2.6 * sqrt(ERROR_RATE * (1 - ERROR_RATE) / worlds)


def count(kind: Kind, size: Size, *, worlds: int, seed: int = 1) -> Counted:
    chance = Random(f"{seed} {kind} {size}")
    counted = Counted()
    for _ in range(worlds):
        tallies = play(kind, size, chance)
        differences = compared(tallies)
        found = contrasts(differences)
        counted.worlds += 1
        counted.family = found.family.size
        counted.told += _told(found)
        counted.false += bool(_false(found, kind))
        counted.ranked += _ranks_hold(kind, tallies, found.comparisons)
        if kind.apart:
            exploring = contrasts(differences, exploratory=True)
            counted.false_share += _false(exploring, kind) / max(1, _told(exploring))
    return counted


def play(kind: Kind, size: Size, chance: Random) -> dict[str, TargetTally]:
    """One world as it might have been seen. Scenarios are hard for everybody, and for each target
    by itself; variants of one differ less; all groups of people are treated alike."""
    of_scenario, of_variant = sqrt(_LIKENESS * 0.75 / 2), sqrt(_LIKENESS * 0.25)
    rest = sqrt(1 - _LIKENESS)
    found = {str(target): TargetTally() for target in range(size.targets)}
    for metric, scenario in product(range(kind.metrics), range(kind.scenarios)):
        shared = chance.gauss(0, of_scenario)
        for target, tally in enumerate(found.values()):
            cut = _NORMAL.inv_cdf(kind.rate(metric, target, size.targets))
            hard = shared + chance.gauss(0, of_scenario)
            for variant in range(size.variants):
                odds = _NORMAL.cdf((cut - hard - chance.gauss(0, of_variant)) / rest)
                passed = sum(chance.random() < odds for _ in range(size.samples))
                row = _row(metric, scenario, variant, size, passed)
                tally.scenarios[row.scenario_id] = row
    return found


def _row(metric: int, scenario: int, variant: int, size: Size, passed: int) -> ScenarioTally:
    base = f"m{metric}_s{scenario}"
    people = {"age": "ab"[variant % 2], "place": "xyz"[variant // 2]} if size.variants > 1 else {}
    return ScenarioTally(
        scenario_id=f"{base}_v{variant}",
        base=base,
        metric_id=f"m{metric}",
        track=Track.NEGATIVE if metric % 2 else Track.POSITIVE,
        demographic=people,
        scored=size.samples,
        passed=passed,
    )


def _told(found: Contrasts) -> int:
    return sum(one.sure for one in found.comparisons) + sum(one.sure for one in found.gaps)


def _false(found: Contrasts, kind: Kind) -> int:
    targets = 1 + max(int(one.right) for one in found.comparisons)
    return sum(one.sure for one in found.gaps) + sum(
        one.sure and one.difference * _lead(one, kind, targets) <= 0 for one in found.comparisons
    )


def _lead(one: Comparison, kind: Kind, targets: int) -> float:
    return kind.behind(int(one.right), targets) - kind.behind(int(one.left), targets)


def _ranks_hold(
    kind: Kind, tallies: dict[str, TargetTally], comparisons: Sequence[Comparison]
) -> bool:
    behind = [kind.behind(target, len(tallies)) for target in range(len(tallies))]
    for target, on_tracks in ranks(tallies, comparisons).items():
        own = behind[int(target)]
        best = 1 + sum(other < own for other in behind)
        worst = len(behind) - sum(other > own for other in behind)
        if any(place.best > best or place.worst < worst for place in on_tracks.values()):
            return False
    return True


def table(worlds: int, *, every: int = 1) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what missed a bar."""
    lines = [
        "# False claims",
        "",
        f"What `{COMMAND} --worlds {worlds}` printed: of {worlds:,} drawn worlds of each kind and "
        "size, how many carry any false ✓ (to be at most 5 %), in how many every range of ranks "
        "holds on both tracks, ties included (to be at least 95 %), and, where targets differ, "
        "which share of the marks of `--exploratory` is false on average (to be at most 5 %). "
        f"Chance alone moves a share by {slack(worlds):.1%} in 1 of 200 cells. With 2 variants "
        "there are 2 ages, with 6 in 3 places each.",
    ]
    faults: list[str] = []
    for kind in KINDS:
        lines += ["", f"## {kind.name[0].upper()}{kind.name[1:]}", ""]
        lines.append(
            "| targets | variants | samples | family | any false ✓ | ranks hold | ✓ |"
            + (" exploring, false |" if kind.apart else "")
        )
        lines.append("| --: " * (8 if kind.apart else 7) + "|")
        for size in SIZES[::every]:
            found = count(kind, size, worlds=worlds)
            line = (
                f"| {size.targets} | {size.variants} | {size.samples} | {found.family} | "
                f"{found.any_false:.1%} | {found.ranks_held:.1%} | {found.told / worlds:.2f} |"
            )
            if kind.apart:
                line += f" {found.false_share / worlds:.1%} |"
            lines.append(line)
            sys.stderr.write(f"{kind.name}: {line}\n")
            faults += (f"{kind.name}, {size}: {fault}" for fault in found.faults(slack(worlds)))
    return lines, faults


def report(worlds: int, *, every: int, write: bool) -> int:
    """Print the table, or keep it; 1 where a bar is missed."""
    lines, faults = table(worlds, every=every)
    text = "\n".join([*lines, "", f"Bars missed by more than chance allows: {len(faults)}.", ""])
    if write:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
    for fault in faults:
        sys.stdout.write(fault + "\n")
    return int(bool(faults))
