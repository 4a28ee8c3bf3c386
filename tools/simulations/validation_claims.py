"""How often a validation run says what is not so."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.analysis.validation import SideOutcome, ValidationSide, validation_report
from engine.benchmark import ConversationKey, Role, Track
from engine.branches import Branch
from engine.statistics.distributions import student_quantile
from engine.statistics.paired import (
    ERROR_RATE,
    SHARES_OF_SHIFTS,
    Difference,
    FamilyPart,
    interval_for,
    is_within,
    levels,
)
from tests.benchmarks.frame import Row, missed, page
from tests.late import special
from tools.simulations.false_claims import slack, summed

PAGE: Final = Path("docs/simulations/validation-claims.md")
COMMAND: Final = "python -m tests.benchmarks validation"
BOUND: Final = 0.1
_RATE: Final = 0.65
_AT_ONCE: Final = 50
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """What both sides of a validation run are of, on each of two tracks."""

    targets: int
    metrics: int
    scenarios: int
    """Base scenarios of each metric."""
    rows: int
    """Of each base scenario and target."""
    apart: float
    """The part of the latent variance in which two judges differ on a base scenario."""
    beta: bool = False
    """Whether each judge's rate of a base scenario is drawn from a beta distribution, `apart` being
    the correlation of its rows."""

    def __str__(self) -> str:
        drawn = "beta" if self.beta else "normal"
        return (
            f"| {self.targets} | {self.metrics} | {self.scenarios} | {self.rows} | {drawn} "
            f"| {self.apart:g} |"
        )


RUNS: Final = [
    Run(targets, *size, rows, apart)
    for targets, size, rows, apart in product(
        (2, 14), ((1, 3), (1, 8), (4, 4), (10, 4)), (1, 4), (0.1, 0.4)
    )
] + [
    Run(targets, *size, rows, apart, beta=True)
    for targets, size, rows, apart in product((2, 14), ((1, 3), (1, 8), (4, 4)), (1, 4), (0.2, 0.5))
]
SIZES: Final = [
    Run(2, 10, scenarios, rows, 0) for scenarios, rows in product((2, 4, 8, 20), (1, 4))
]


def play(run: Run, worlds: int, chance: np.random.Generator) -> tuple[Array, Array]:
    """Both sides: world, target, metric, scenario, row; 1 where it passes."""
    shape = (worlds, run.targets, run.metrics, run.scenarios, run.rows)
    shared = (worlds, 1, *shape[2:4], 1)
    if run.beta:
        strength = (1 - run.apart) / run.apart
        odds = chance.beta(_RATE * strength, (1 - _RATE) * strength, (2, *shared))
        before, after = (chance.random((2, *shape)) < odds).astype(float)
        return before, after
    transcript = chance.normal(0, sqrt(0.15), shared) + chance.normal(0, sqrt(0.15), shape)
    rest = 1 - 0.3 - run.apart
    found = []
    for _ in range(2):
        judge = chance.normal(0, sqrt(run.apart), shared)
        noise = chance.normal(0, sqrt(rest), shape)
        found.append((transcript + judge + noise < special.ndtri(_RATE)).astype(float))
    return found[0], found[1]


def marked(run: Run, *, worlds: int, seed: int = 1) -> float:
    """In which share of worlds any shift is marked. The program marks the first one as well;
    `AssertionError` where it marks otherwise."""
    chance = np.random.default_rng([seed, *f"{run}".encode()])
    found = 0
    for start in range(0, worlds, _AT_ONCE):
        tracks = [play(run, min(_AT_ONCE, worlds - start), chance) for _ in Track]
        sure = np.concatenate([_marks(run, *sides) for sides in tracks], axis=1)
        if not start:
            first = [(before[0], after[0]) for before, after in tracks]
            assert list(sure[0]) == list(_by_program(first)), f"not what the program marks: {run}"
        found += int(sure.any(axis=1).sum())
    return found / worlds


def _marks(run: Run, before: Array, after: Array) -> Array:
    """On one track: of all targets together, then of each."""
    allowed = levels(
        {FamilyPart.SHIFTS: 2, FamilyPart.SHIFTS_OF_TARGETS: 2 * run.targets}, SHARES_OF_SHIFTS
    )
    shifts = after - before
    shape = (len(shifts), 1, run.metrics, run.scenarios, -1)
    together = np.moveaxis(shifts, 1, 3).reshape(shape)
    parts = ((FamilyPart.SHIFTS, together), (FamilyPart.SHIFTS_OF_TARGETS, shifts))
    marks = [_leaves_0_out(*summed(apart), allowed[part]) for part, apart in parts]
    return np.concatenate(marks, axis=1)


def _by_program(tracks: Sequence[tuple[Array, Array]]) -> Iterator[bool]:
    sides = [
        ValidationSide(
            name,
            [
                one
                for both, track in zip(tracks, Track, strict=True)
                for one in _results(both[side], track)
            ],
        )
        for side, name in enumerate(("one", "other"))
    ]
    report = validation_report(Branch("drawn", Role.EVALUATOR, "other"), *sides)
    for track in report.tracks:
        yield track.together.sure
        of_target = {shift.target: shift.sure for shift in track.shifts}
        yield from (of_target[target] for target in sorted(of_target))


def _results(passed: Array, track: Track) -> Iterator[SideOutcome]:
    for (target, metric, scenario, row), one in np.ndenumerate(passed):
        name = f"{'p' if track is Track.POSITIVE else 'n'}{metric:02d}"
        key = ConversationKey(f"{name}_s{scenario:03d}_v{row + 1:02d}", f"t{target:02d}")
        yield SideOutcome(key, name, track, bool(one))


def _leaves_0_out(estimate: Array, error: Array, far: Array, level: float) -> Array:
    quantile = np.empty(far.shape)
    for one in np.unique(far):
        quantile[far == one] = student_quantile(1 - level / 2, float(one))
    return np.asarray(np.abs(estimate) > quantile * error)


def held(run: Run, change: str, *, worlds: int, seed: int = 1) -> float:
    """In which share of worlds the difference of two targets is shown to stay within the bound."""
    chance = np.random.default_rng([seed, *f"{run} {change}".encode()])
    found = 0
    for start in range(0, worlds, _AT_ONCE):
        count = min(_AT_ONCE, worlds - start)
        before, _ = play(run, count, chance)
        after = before.copy()
        if change == "chance":  # one verdict in fifty falls otherwise
            after = np.where(chance.random(before.shape) < 0.02, 1 - before, before)
        else:
            first = before[:, :1]
            shape = first.shape if change == "evenly" else (*first.shape[:4], 1)
            after[:, :1] = np.where(chance.random(shape) < BOUND / _RATE, 0, first)
        shifts = after - before
        estimate, error, far = summed(shifts[:, :1] - shifts[:, 1:])
        found += sum(
            is_within(interval_for(Difference(*one), BOUND), BOUND)
            for one in _differences(run, estimate[:, 0], error[:, 0], far[:, 0])
        )
    return found / worlds


def _differences(
    run: Run, estimate: Array, error: Array, far: Array
) -> Iterator[tuple[float, float, int, int, int]]:
    clusters = run.metrics * run.scenarios
    for one, off, freedom in zip(estimate, error, far, strict=True):
        yield float(one), float(off), int(freedom), clusters * run.rows, clusters


def table(worlds: int) -> tuple[list[str], list[str]]:
    """The lines of a Markdown page, and what missed a bar."""
    faults: list[str] = []
    lines = [
        "# What validation runs claim",
        "",
        f"Output of `{COMMAND} --worlds {worlds}`. Two judges agree on average and differ on "
        f"single scenarios, so every marked shift (!) is false. Of {worlds:,} simulated runs of "
        "each kind, the last column says how many mark any (at most 5%). Metrics are per track, on "
        "two tracks. How far judges are apart on a base scenario is normal, on the scale on which "
        "rates are drawn, or their rates are beta-distributed.",
        "",
        "| targets | metrics | scenarios | rows | drawn | apart | any false ! |",
        "| --: | --: | --: | --: | --- | --: | --: |",
    ]
    for run in RUNS:
        share = marked(run, worlds=worlds)
        lines.append(f"{run} {share:.1%} |")
        sys.stderr.write(lines[-1] + "\n")
        if share > ERROR_RATE + slack(worlds):
            faults.append(f"{run}: {share:.1%} carry a false !")
    lines += [
        "",
        f"How often a ranking of two targets is said to hold within {BOUND * 100:g} points: if one "
        "truly changes by that much, in all base scenarios or in few (at most 5%), and if nothing "
        "changes except one verdict in fifty, by chance (higher is better).",
        "",
        "| base scenarios | rows | evenly | in few | by chance |",
        "| --: | --: | --: | --: | --: |",
    ]
    for run in SIZES:
        shares = [held(run, one, worlds=worlds) for one in ("evenly", "in few", "chance")]
        said = " | ".join(f"{share:.1%}" for share in shares)
        lines.append(f"| {run.metrics * run.scenarios} | {run.rows} | {said} |")
        sys.stderr.write(lines[-1] + "\n")
        false = [share for share in shares[:2] if share > ERROR_RATE + slack(worlds)]
        faults += [f"{run}: {share:.1%} are wrongly said to hold" for share in false]
    return lines, faults


def validation(*, worlds: int = 1000, write: bool = False) -> Iterator[Row]:
    """How often a validation run says what is not so.

    Two judges (or user models) are drawn alike, each with scenarios that it takes otherwise than
    the other does, the same for all targets: no shift is true on the whole, and every ! is false.
    Then one of two targets truly changes by the bound, evenly or in a few base scenarios as a
    whole, and an order that is said to hold is said to wrongly; where nothing changes but what
    chance does, how often it is said is the power. `--write` keeps the table in
    docs/simulations/validation-claims.md.
    """
    lines, faults = table(worlds)
    yield from page(PAGE, [*lines, "", *missed(faults)], faults, write=write)
