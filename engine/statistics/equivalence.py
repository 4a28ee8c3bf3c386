"""Whether a difference between two things stays what it was in another run, within a bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from engine.statistics.distributions import Interval
from engine.statistics.paired import Answers, Difference, differences, mean_difference


@dataclass(frozen=True, slots=True)
class BeforeAndAfter:
    """What one thing scored in a run, and in the run that it is held against."""

    before: Answers
    after: Answers


def change_of_difference(
    left: BeforeAndAfter, right: BeforeAndAfter, *, paired: bool
) -> Difference | None:
    """Of left less right: what it is after less what it was before; None without a pair.

    `paired`: both runs are of the same rows, and each row's change counts, on the rows that both
    things have in both runs. Otherwise the runs share nothing, and their squared errors add up,
    with the degrees of freedom of the one that has fewer.
    """
    if paired:
        return mean_difference(differences(_shifts(left), _shifts(right)))
    before = mean_difference(differences(left.before, right.before))
    after = mean_difference(differences(left.after, right.after))
    if before is None or after is None:
        return None
    pairs, clusters = min(before.pairs, after.pairs), min(before.clusters, after.clusters)
    estimate = after.estimate - before.estimate
    if before.error is None or after.error is None:
        return Difference(estimate, None, 0, pairs, clusters)
    error, freedom = hypot(before.error, after.error), min(before.freedom, after.freedom)
    return Difference(estimate, error, freedom, pairs, clusters)


def _shifts(run: BeforeAndAfter) -> Answers:
    """After less before of each row that both have."""
    return {
        metric: {
            base: {
                thing: value - earlier
                for thing, value in things.items()
                if (earlier := run.before.get(metric, {}).get(base, {}).get(thing)) is not None
            }
            for base, things in bases.items()
        }
        for metric, bases in run.after.items()
    }


def interval_for(found: Difference, bound: float) -> Interval | None:
    """What a change is held against `bound` with: shown to lie within it where this 95 % interval
    does. None where there is no error.

    Two one-sided tests at 2.5 %: D. J. Schuirmann, Journal of Pharmacokinetics and
    Biopharmaceutics 15 (1987) 657-680. The error is at least the one that a change of the size of
    the bound would have if it came from few base scenarios, each changing as a whole (as J.-M. Nam,
    Biometrics 53 (1997) 1422-1430, takes it under the hypothesis): such are not met in a few. Where
    several must all lie within it, none is to be tested at less: R. L. Berger, Technometrics 24
    (1982) 295-300.
    """
    if found.error is None:
        return None
    error = max(found.error, sqrt(bound * (1 - bound) / found.clusters))
    half = found.quantile * error
    return Interval(max(-2.0, found.estimate - half), min(2.0, found.estimate + half))


def is_within(interval: Interval | None, bound: float) -> bool:
    return interval is not None and -bound < interval.low and interval.high < bound
