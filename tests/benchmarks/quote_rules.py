"""What becomes of a pass rate where quotes are not found, under each rule for such verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import fmean, stdev
from typing import Final, NamedTuple

from tests.benchmarks.frame import Row

TARGETS: Final = 200
CONVERSATIONS: Final = 1_000
_ERRS: Final = 0.05
"""How often a judge is wrong."""
_MADE_UP: Final = 0.5
"""The share of wrong verdicts whose quotes are made up."""
RULES: Final = ("both count", "neither counts", "absent alone counts")


class Unfound(NamedTuple):
    """The share of quotes that are not found although they were copied."""

    present: float
    absent: float


CASES: Final = (
    Unfound(0.0, 0.0),
    Unfound(0.2, 0.2),
    Unfound(0.2, 0.1),
    Unfound(0.1, 0.2),
)


def rates(unfound: Unfound, random: Random) -> tuple[float, ...]:
    """The share of present verdicts of one target under each rule; half of the truth is present."""
    counted: dict[str, list[bool]] = {rule: [] for rule in RULES}
    for number in range(CONVERSATIONS):
        is_wrong = random.random() < _ERRS
        present = (number % 2 == 0) is not is_wrong
        share = unfound.present if present else unfound.absent
        found = random.random() >= (max(_MADE_UP, share) if is_wrong else share)
        counted["both count"].append(present)
        if found:
            counted["neither counts"].append(present)
        if found or not present:
            counted["absent alone counts"].append(present)
    return tuple(fmean(counted[rule]) for rule in RULES)


def quote_rules() -> Iterator[Row]:
    """The mean over targets, ± its standard error, in per cent. Half of the conversations show the
    behaviour, so a rule that takes no side gives 50."""
    random = Random(1)
    for unfound in CASES:
        simulated = [rates(unfound, random) for _ in range(TARGETS)]
        for rule, column in zip(RULES, zip(*simulated, strict=True), strict=True):
            error = stdev(column) / TARGETS**0.5
            yield Row(
                f"{unfound.present:.0%} of present, {unfound.absent:.0%} of absent: {rule}",
                f"{100 * fmean(column):.1f} ± {100 * error:.1f}",
            )
